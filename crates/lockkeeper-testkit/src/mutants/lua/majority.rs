//! Mutants of the scripts for one of several servers.

use lockkeeper_lua::redlock;

use super::mutant::{Mutant, Where};
use crate::search::Rounds;

/// Mutants of the scripts of a Redlock.
pub const REDLOCK: &[Mutant] = mutants! {
    redlock_acquire_does_not_keep_what_it_has_followed: redlock::ACQUIRE, Where::Rounds(Rounds::SMALL);
        "keep_token(KEYS[2], drawn, now)\n" => "keep_token(KEYS[2], string.format('%.0f', next_own), now)\n";
    redlock_acquire_follows_back_to_what_was_drawn: redlock::ACQUIRE, Where::Rounds(Rounds::SMALL);
        "proposal > next_own and " => "proposal > 0 and ";
    redlock_acquire_follows_however_far: redlock::ACQUIRE, Where::Rounds(Rounds::A_FAR_PROPOSAL);
        " and proposal <= now + math.min(tonumber(ARGV[5]) * 500, FOLLOWED)" => "";
    redlock_raise_does_not_keep_the_token: redlock::RAISE, Where::Rounds(Rounds::SMALL);
        "  keep_token(KEYS[2], ARGV[3], server_now())\n" => "";
};
