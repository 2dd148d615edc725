//! Sequence diagrams: the messages between actors, from top to bottom.

use super::canvas::{Anchor, Canvas};

/// The next step. Actors are counted from zero, left to right.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// A request or its reply.
    Send(usize, usize, &'static str),
    /// A message without a request.
    Tell(usize, usize, &'static str),
    /// A request that is refused or too late.
    Refused(usize, usize, &'static str),
    /// From here on an actor holds; the text is beside its bar.
    Hold(usize, &'static str),
    /// From here on an actor waits.
    Wait(usize, &'static str),
    /// The bar of an actor ends.
    End(usize),
    /// A text about an actor.
    Note(usize, &'static str),
    /// Time passes.
    Pass(&'static str),
}

use Step::{End, Hold, Note, Pass, Refused, Send, Tell, Wait};

const COLUMN: i32 = 250;
const LEFT: i32 = 110;
const ROW: i32 = 34;
const TOP: i32 = 76;
const BAR: i32 = 12;

/// The start of a bar: its position and class.
type Begun = Option<(i32, &'static str)>;

/// Draws the diagram.
pub(super) fn sequence(title: &str, actors: &[&str], steps: &[Step]) -> String {
    let mut canvas = Canvas::default();
    let number = i32::try_from(actors.len()).unwrap_or(i32::MAX);
    let rows = steps.iter().filter(|step| takes_a_row(**step)).count();
    let bottom = TOP + ROW * i32::try_from(rows).unwrap_or(i32::MAX);
    for (actor, name) in actors.iter().enumerate() {
        let x = x(actor);
        canvas.label([x - 70, 16, 140, 32], "box", name);
        canvas.line((x, 48), (x, bottom), "faint", false);
    }
    bars(&mut canvas, actors.len(), steps, bottom);
    let mut y = TOP;
    for step in steps {
        row(&mut canvas, *step, y, number);
        y += if takes_a_row(*step) { ROW } else { 0 };
    }
    let width = LEFT * 2 + COLUMN * (number - 1);
    canvas.finish(width, bottom + 16, title)
}

const fn takes_a_row(step: Step) -> bool {
    !matches!(step, Hold(..) | Wait(..) | End(_))
}

fn x(actor: usize) -> i32 {
    LEFT + COLUMN * i32::try_from(actor).unwrap_or(i32::MAX)
}

/// Draws the bars, under everything else.
fn bars(canvas: &mut Canvas, actors: usize, steps: &[Step], bottom: i32) {
    let mut begun: Vec<Begun> = vec![None; actors];
    let mut y = TOP;
    let end = |canvas: &mut Canvas, actor: usize, bar: Begun, y: i32| {
        if let Some((from, class)) = bar {
            canvas.rect(x(actor) - BAR / 2, from, BAR, y - from, class);
        }
    };
    for step in steps {
        // A bar begins or ends with the arrow above it.
        let here = y - ROW + 10;
        match *step {
            Hold(actor, _) => {
                let before = begun[actor].replace((here, "hold"));
                end(canvas, actor, before, here);
            }
            Wait(actor, _) => {
                let before = begun[actor].replace((here, "wait"));
                end(canvas, actor, before, here);
            }
            End(actor) => {
                let before = begun[actor].take();
                end(canvas, actor, before, here);
            }
            _ => y += ROW,
        }
    }
    for (actor, bar) in begun.into_iter().enumerate() {
        end(canvas, actor, bar, bottom);
    }
}

fn row(canvas: &mut Canvas, step: Step, y: i32, actors: i32) {
    match step {
        Send(from, to, text) => arrow(canvas, from, to, y, text, false),
        Tell(from, to, text) => arrow(canvas, from, to, y, text, true),
        Refused(from, to, text) => {
            arrow(canvas, from, to, y, text, false);
            let side = if from < to { -20 } else { 20 };
            canvas.cross(x(to) + side, y + 10);
        }
        Hold(actor, text) | Wait(actor, text) => {
            // Beside the bar, on the side without arrows.
            let (at, anchor) = if actor == 0 {
                (x(actor) - 12, Anchor::End)
            } else {
                (x(actor) + 12, Anchor::Start)
            };
            canvas.text(at, y - ROW + 26, anchor, "small", text);
        }
        Note(actor, text) => {
            let width = i32::try_from(text.chars().count()).unwrap_or(0) * 7 + 24;
            let at = (x(actor) - width / 2).max(6);
            let at = at.min(LEFT * 2 + COLUMN * (actors - 1) - width - 6);
            canvas.label([at, y - 6, width, 26], "box", text);
        }
        Pass(text) => {
            let width = LEFT * 2 + COLUMN * (actors - 1);
            let plate = i32::try_from(text.chars().count()).unwrap_or(0) * 7 + 16;
            canvas.line((20, y + 8), (width - 20, y + 8), "faint", true);
            canvas.rect((width - plate) / 2, y - 3, plate, 22, "plate");
            canvas.text(width / 2, y + 12, Anchor::Middle, "small", text);
        }
        End(_) => {}
    }
}

fn arrow(canvas: &mut Canvas, from: usize, to: usize, y: i32, text: &str, dashed: bool) {
    let (start, end) = (x(from), x(to));
    let side = (end - start).signum() * 8;
    canvas.arrow((start + side, y + 10), (end - side, y + 10), dashed);
    // An arrow over several columns has its text in the column beside the sender.
    let middle = (start + x(if from < to { from + 1 } else { from - 1 })) / 2;
    canvas.text(middle, y + 4, Anchor::Middle, "", text);
}
