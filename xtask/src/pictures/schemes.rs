//! Pictures that are not sequence diagrams.

use super::canvas::{Anchor, Canvas};

/// A list of questions; the first yes gives the answer.
pub(super) fn which_lock() -> String {
    let questions = [
        (
            "Does a program run under it, from cron or a shell?",
            "lockkeeper run",
        ),
        ("Is it work to be done once, with a result to keep?", "Once"),
        ("Is one instance in charge until it stops?", "Election"),
        ("Does something wait until N things have happened?", "Latch"),
        ("Are several names needed at once?", "MultiLock"),
        ("Must any one server be allowed to fail?", "Redlock"),
        ("Do most holders only read?", "RwLock"),
        ("May at most N hold at once?", "Semaphore"),
        ("Does it matter who is next, or do many wait?", "FairLock"),
        (
            "Does locked code call code that takes the same lock?",
            "ReentrantLock",
        ),
    ];
    let mut canvas = Canvas::default();
    let mut y = 20;
    for (question, answer) in questions {
        canvas.label([20, y, 390, 38], "box", question);
        canvas.arrow((410, y + 19), (520, y + 19), false);
        canvas.text(465, y + 13, Anchor::Middle, "small", "yes");
        canvas.label([520, y, 160, 38], "hold", answer);
        canvas.arrow((215, y + 38), (215, y + 54), false);
        canvas.text(226, y + 51, Anchor::Start, "small", "no");
        y += 54;
    }
    canvas.label([135, y, 160, 38], "hold", "Mutex");
    canvas.finish(
        700,
        y + 58,
        "Which lock? Ten questions, and the mutex if the answer to all is no",
    )
}

/// The life of a lease as its holder and the server see it.
pub(super) fn lease() -> String {
    let mut canvas = Canvas::default();
    let (holder, server, left) = (96, 186, 150);
    canvas.text(136, holder + 5, Anchor::End, "strong", "the holder");
    canvas.text(136, server + 5, Anchor::End, "strong", "the server");
    canvas.rect(left, holder - 16, 360, 32, "hold");
    canvas.text(left + 180, holder + 5, Anchor::Middle, "", "Held");
    canvas.rect(left + 360, holder - 16, 150, 32, "wait");
    canvas.text(left + 435, holder + 5, Anchor::Middle, "", "Uncertain");
    canvas.rect(left + 510, holder - 16, 150, 32, "bad");
    canvas.text(left + 585, holder + 5, Anchor::Middle, "", "Lost");
    canvas.rect(left + 15, server - 16, 540, 32, "hold");
    canvas.text(
        left + 285,
        server + 5,
        Anchor::Middle,
        "",
        "the key is there",
    );
    canvas.text(
        left + 620,
        server + 5,
        Anchor::Middle,
        "small",
        "free for others",
    );
    let sent = [(0, "acquire"), (120, "renew"), (240, "renew")];
    for (at, text) in sent {
        // Slanted, because a request is executed a little later than it is sent.
        canvas.line(
            (left + at, holder + 16),
            (left + at + 15, server - 26),
            "line",
            false,
        );
        canvas.arrow(
            (left + at + 15, server - 26),
            (left + at + 15, server - 16),
            false,
        );
        canvas.text(left + at + 14, holder + 46, Anchor::Start, "small", text);
    }
    canvas.line(
        (left + 360, holder + 16),
        (left + 360, holder + 44),
        "line",
        false,
    );
    canvas.cross(left + 360, holder + 50);
    canvas.text(left + 372, holder + 55, Anchor::Start, "small", "no answer");
    canvas.line((left + 510, 40), (left + 510, server + 44), "badline", true);
    canvas.text(
        left + 504,
        34,
        Anchor::End,
        "",
        "deadline: sent + ttl - margin",
    );
    canvas.line((left + 555, 40), (left + 555, server + 44), "line", true);
    canvas.text(left + 562, 34, Anchor::Start, "", "end: executed + ttl");
    canvas.text(
        left + 240,
        60,
        Anchor::Middle,
        "small",
        "counted from before the last renewal that was answered",
    );
    canvas.line((left + 240, 66), (left + 510, 66), "faint", false);
    canvas.text(left + 532, server + 62, Anchor::Middle, "small", "margin");
    canvas.finish(
        860,
        270,
        "A lease ends for its holder before it can end on the server",
    )
}

/// The queue of a read-write lock, and which claims are granted together.
pub(super) fn queue() -> String {
    let mut canvas = Canvas::default();
    canvas.text(
        20,
        34,
        Anchor::Start,
        "strong",
        "the queue, first on the left",
    );
    let places = [
        ("read", "hold"),
        ("read", "hold"),
        ("read", "hold"),
        ("write", "wait"),
        ("read", "hold"),
        ("read", "hold"),
        ("write", "wait"),
    ];
    let mut x = 20;
    for (mode, class) in places {
        canvas.label([x, 50, 84, 36], class, mode);
        x += 94;
    }
    let phases = [
        (20, 272, "together, token 41"),
        (302, 84, "alone, 42"),
        (396, 178, "together, token 43"),
        (584, 84, "alone, 44"),
    ];
    for (x, width, text) in phases {
        canvas.line((x, 100), (x + width, 100), "line", false);
        canvas.text(x + width / 2, 120, Anchor::Middle, "small", text);
    }
    canvas.text(20, 156, Anchor::Start, "small", "A new claim joins at the right, whether it reads or writes. So each waits only for the claims before it.");
    canvas.finish(
        690,
        176,
        "The queue of a read-write lock: readers that follow one another get the lock together",
    )
}

/// The generations of locks on Redis, and what failed in each.
pub(super) fn evolution() -> String {
    let generations = [
        ("SETNX", "the holder dies: held for ever"),
        ("SETNX, then EXPIRE", "dies between the two: held for ever"),
        ("a time as value, GETSET", "clocks differ; foreign DEL"),
        ("SET NX PX, then DEL", "deletes another's lock"),
        (
            "token, compare-and-delete",
            "lease ends unseen; server lost",
        ),
        ("Redlock", "a clock jumps; a late write"),
        ("Lockkeeper", "watchdog, wake-up, deadline, fencing"),
    ];
    let mut canvas = Canvas::default();
    let mut y = 20;
    let last = generations.len() - 1;
    for (number, (name, fate)) in generations.into_iter().enumerate() {
        canvas.label([20, y, 230, 36], "box", name);
        let class = if number == last { "hold" } else { "bad" };
        canvas.label([300, y, 320, 36], class, fate);
        if number < last {
            canvas.cross(275, y + 18);
            canvas.arrow((135, y + 36), (135, y + 58), false);
        } else {
            canvas.arrow((250, y + 18), (300, y + 18), false);
        }
        y += 58;
    }
    canvas.finish(
        640,
        y,
        "Seven generations of locks on Redis, and how six of them break",
    )
}
