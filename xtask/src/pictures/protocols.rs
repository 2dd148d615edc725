//! The protocols, as sequence diagrams.

use super::sequence::Step::{End, Hold, Note, Pass, Refused, Send, Tell, Wait};
use super::sequence::sequence;

pub(super) fn mutex() -> String {
    sequence(
        "A mutex: Ann acquires, Bob waits; when Ann releases, the same script makes Bob the holder, and a message tells him",
        &["Ann", "server", "Bob"],
        &[
            Send(0, 1, "acquire"),
            Send(1, 0, "GRANTED, token 7"),
            Hold(0, "holds"),
            Send(2, 1, "acquire"),
            Send(1, 2, "WAITING, 29.8 s left"),
            Wait(2, "waits"),
            Send(2, 1, "subscribe, heartbeat"),
            Pass("a third of the ttl"),
            Send(0, 1, "renew"),
            Send(1, 0, "RENEWED"),
            Pass("Ann is done"),
            Send(0, 1, "release"),
            End(0),
            Tell(1, 2, "granted, token 8"),
            Hold(2, "holds"),
        ],
    )
}

pub(super) fn reentrant() -> String {
    sequence(
        "A re-entrant lock: two claims of one owner hold; another owner gets the lock when both are released",
        &["Ann's task", "server", "Bob"],
        &[
            Send(0, 1, "acquire, owner A"),
            Send(1, 0, "GRANTED, token 7"),
            Hold(0, "holds once"),
            Send(0, 1, "acquire, owner A"),
            Send(1, 0, "GRANTED, token 7"),
            Hold(0, "twice"),
            Send(2, 1, "acquire, owner B"),
            Send(1, 2, "WAITING"),
            Wait(2, "waits"),
            Send(0, 1, "release (inner)"),
            Send(1, 0, "RELEASED, 1 hold is left"),
            Hold(0, "once"),
            Send(0, 1, "release (outer)"),
            End(0),
            Tell(1, 2, "granted, token 8"),
            Hold(2, "holds"),
        ],
    )
}

pub(super) fn fair() -> String {
    sequence(
        "A fair lock: Bob and Carl wait in a queue; when Ann releases, the same script makes Bob the holder, and a message tells him",
        &["Ann", "server", "Bob", "Carl"],
        &[
            Send(0, 1, "acquire"),
            Send(1, 0, "GRANTED, token 7"),
            Hold(0, "holds"),
            Send(2, 1, "acquire"),
            Send(1, 2, "WAITING, place 1"),
            Wait(2, "waits"),
            Send(3, 1, "acquire: place 2"),
            Wait(3, "waits"),
            Pass("every third of the waiter ttl"),
            Send(2, 1, "heartbeat"),
            Send(3, 1, "heartbeat"),
            Pass("Ann is done"),
            Send(0, 1, "release"),
            End(0),
            Tell(1, 2, "granted, token 8"),
            Hold(2, "holds"),
            Send(2, 1, "release"),
            End(2),
            Tell(1, 3, "granted, token 9"),
            Hold(3, "holds"),
        ],
    )
}

pub(super) fn rwlock() -> String {
    sequence(
        "A read-write lock: readers share a token; a reader that comes after a waiting writer waits behind it",
        &["readers", "server", "writer", "late reader"],
        &[
            Send(0, 1, "read, read, read"),
            Send(1, 0, "GRANTED, token 7"),
            Hold(0, "three read"),
            Send(2, 1, "write"),
            Send(1, 2, "WAITING, place 1"),
            Wait(2, "waits"),
            Send(3, 1, "read: place 2"),
            Wait(3, "waits"),
            Send(0, 1, "the last one: release"),
            End(0),
            Tell(1, 2, "granted, token 8"),
            Hold(2, "writes"),
            Send(2, 1, "release"),
            End(2),
            Tell(1, 3, "granted, token 9"),
            Hold(3, "reads"),
        ],
    )
}

pub(super) fn semaphore() -> String {
    sequence(
        "A semaphore of eight permits: Ann holds five, Bob waits for five, Carl for one behind him; when Ann releases, both get their permits",
        &["Ann", "server", "Bob", "Carl"],
        &[
            Send(0, 1, "acquire 5 of 8"),
            Send(1, 0, "GRANTED, token 7"),
            Hold(0, "holds 5"),
            Send(2, 1, "acquire 5 of 8"),
            Send(1, 2, "WAITING, place 1"),
            Wait(2, "waits for 5"),
            Send(3, 1, "acquire 1 of 8: place 2"),
            Wait(3, "waits for 1"),
            Note(1, "3 are free, Bob is first"),
            Pass("Ann is done"),
            Send(0, 1, "release"),
            End(0),
            Tell(1, 2, "granted, token 8"),
            Hold(2, "holds 5"),
            Tell(1, 3, "granted, token 9"),
            Hold(3, "holds 1"),
        ],
    )
}

pub(super) fn election() -> String {
    sequence(
        "An election: Ann leads and Olga observes; Bob stands by; when Ann resigns, the same script makes Bob the leader, and Olga is told",
        &["Ann", "server", "Bob", "Olga"],
        &[
            Send(0, 1, "campaign"),
            Send(1, 0, "GRANTED, term 7"),
            Hold(0, "leads"),
            Send(0, 1, "proclaim: I am at :8080"),
            Tell(1, 3, "term 7: look"),
            Send(3, 1, "who leads?"),
            Send(1, 3, "LEADER, term 7, :8080"),
            Send(2, 1, "campaign"),
            Send(1, 2, "WAITING, place 1"),
            Wait(2, "stands by"),
            Pass("Ann resigns"),
            Send(0, 1, "release"),
            End(0),
            Tell(1, 2, "granted, term 8"),
            Hold(2, "leads"),
            Send(2, 1, "proclaim"),
            Tell(1, 3, "term 8: look"),
        ],
    )
}

pub(super) fn once() -> String {
    sequence(
        "Once: Ann does the work while Bob waits; storing the result releases the claim, and Bob and later Carl receive it",
        &["Ann", "server", "Bob", "Carl"],
        &[
            Send(0, 1, "acquire"),
            Send(1, 0, "GRANTED, token 7"),
            Hold(0, "works"),
            Send(2, 1, "acquire"),
            Send(1, 2, "BUSY"),
            Wait(2, "waits"),
            Pass("the work is done"),
            Send(0, 1, "store the result"),
            End(0),
            Note(1, "kept for an hour"),
            Tell(1, 2, "look"),
            Send(2, 1, "acquire"),
            Send(1, 2, "STORED, the result"),
            Pass("ten minutes later"),
            Send(3, 1, "acquire"),
            Send(1, 3, "STORED, the result"),
        ],
    )
}

pub(super) fn latch() -> String {
    sequence(
        "A latch of two counts: Ann arms it and waits; Bob and Carl count it down, Bob once more when no answer came; the second id opens it, and Ann is told",
        &["Ann", "server", "Bob", "Carl"],
        &[
            Send(0, 1, "arm with 2"),
            Send(0, 1, "look"),
            Send(1, 0, "BUSY, 2 to come"),
            Wait(0, "waits"),
            Send(2, 1, "count down, part 1"),
            Note(1, "1 to come"),
            Pass("the answer is lost"),
            Send(2, 1, "count down, part 1"),
            Send(1, 2, "COUNTS 1"),
            Send(3, 1, "count down, part 2"),
            Note(1, "open, for a ttl"),
            Tell(1, 0, "look"),
            Send(0, 1, "look"),
            Send(1, 0, "open"),
        ],
    )
}

pub(super) fn multi() -> String {
    sequence(
        "A multi-lock: one script takes both accounts or none; if one is busy, they are acquired in an order that is the same everywhere",
        &["Ann", "server", "Bob"],
        &[
            Send(0, 1, "acquire {a, b}"),
            Send(1, 0, "GRANTED: a 7, b 4"),
            Hold(0, "a and b"),
            Send(2, 1, "acquire {b, c}"),
            Send(1, 2, "b is BUSY"),
            Send(2, 1, "acquire b: WAITING"),
            Wait(2, "holds none"),
            Note(1, "c is behind b, and free"),
            Send(0, 1, "release {a, b}"),
            End(0),
            Tell(1, 2, "granted: b 8"),
            Send(2, 1, "acquire c"),
            Send(1, 2, "GRANTED: c 9"),
            Hold(2, "b and c"),
        ],
    )
}

pub(super) fn redlock() -> String {
    sequence(
        "A Redlock on three servers, one of which is down: two grant, the larger token is written back, and the lock is held",
        &["Ann", "server A", "server B", "server C"],
        &[
            Send(0, 1, "acquire"),
            Send(0, 2, "acquire"),
            Refused(0, 3, "acquire"),
            Send(1, 0, "GRANTED, token 12"),
            Send(2, 0, "GRANTED, token 15"),
            Note(0, "2 of 3: a majority"),
            Send(0, 1, "raise to 15"),
            Send(1, 0, "RAISED"),
            Note(0, "time is left: holds, token 15"),
            Hold(0, ""),
            Pass(
                "each part is renewed by its own client; the lock lasts as long as those of a majority",
            ),
            Send(0, 1, "release"),
            Send(0, 2, "release"),
            Refused(0, 3, "release, too"),
            End(0),
        ],
    )
}

pub(super) fn fencing() -> String {
    sequence(
        "Fencing: Ann sleeps past her lease, Bob writes with a larger token, Ann's late write is refused",
        &["Ann", "lock", "Bob", "storage"],
        &[
            Send(0, 1, "acquire"),
            Send(1, 0, "GRANTED, token 33"),
            Hold(0, ""),
            Note(0, "holds, and falls asleep"),
            Pass("her lease ends on the server"),
            Send(2, 1, "acquire"),
            Send(1, 2, "GRANTED, token 34"),
            Hold(2, "holds"),
            Send(2, 3, "write, token 34"),
            Note(3, "has seen 34"),
            Note(0, "wakes up"),
            Refused(0, 3, "write, token 33"),
            End(0),
            Note(3, "33 < 34: refused"),
        ],
    )
}
