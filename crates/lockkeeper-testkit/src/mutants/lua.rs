//! Mutants of the scripts: one mistake each, as a checked patch of the shipped text.
//!
//! Some are mistakes that others in this field have made; the rest drop one law of the design each. The search runs the
//! patched text in place of the shipped one and must find a violation in one of [`Mutant::scopes`].

/// Defines mutants: name, script and where it shows; the original text and the text in its place.
macro_rules! mutants {
    ($($name:ident: $script:path, $world:expr; $text:literal => $replacement:literal;)*) => {
        &[$(Mutant {
            name: stringify!($name),
            script: &$script,
            text: $text,
            replacement: $replacement,
            world: $world,
        }),*]
    };
}

mod election;
mod exclusive;
mod latch;
mod majority;
mod modes;
mod mutant;
mod once;
mod permits;
mod queue;
mod several;

pub use election::ELECTION;
pub use exclusive::ALL;
pub use latch::LATCH;
pub use majority::REDLOCK;
pub use modes::RWLOCK;
pub use mutant::Mutant;
pub use once::ONCE;
pub use permits::SEMAPHORE;
pub use queue::FAIR;
pub use several::MULTI;

/// Every mutant of the scripts.
pub fn every() -> impl Iterator<Item = &'static Mutant> {
    let single = ALL.iter().chain(FAIR).chain(RWLOCK).chain(SEMAPHORE);
    let searched = queue::SEARCHED
        .iter()
        .chain(modes::SEARCHED)
        .chain(permits::SEARCHED)
        .chain(ONCE)
        .chain(LATCH)
        .chain(latch::SEARCHED)
        .chain(ELECTION)
        .chain(election::SEARCHED);
    single.chain(searched).chain(MULTI).chain(REDLOCK)
}
