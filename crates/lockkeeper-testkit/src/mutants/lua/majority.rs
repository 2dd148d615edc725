//! Mutants of the scripts for one of several servers.

use lockkeeper_lua::redlock;

use super::{Mutant, Where, mutant};
use crate::search::Rounds;

/// Mutants of the scripts of a Redlock.
pub const REDLOCK: &[Mutant] = &[
    mutant(
        "redlock_acquire_does_not_keep_what_it_has_followed",
        &redlock::ACQUIRE,
        "keep_token(KEYS[2], drawn, now)\n",
        "keep_token(KEYS[2], string.format('%.0f', next_own), now)\n",
        Where::Rounds(Rounds::SMALL),
    ),
    mutant(
        "redlock_acquire_follows_back_to_what_was_drawn",
        &redlock::ACQUIRE,
        "proposal > next_own and ",
        "proposal > 0 and ",
        Where::Rounds(Rounds::SMALL),
    ),
    mutant(
        "redlock_acquire_follows_however_far",
        &redlock::ACQUIRE,
        " and proposal <= now + math.min(tonumber(ARGV[5]) * 500, FOLLOWED)",
        "",
        Where::Rounds(Rounds::A_FAR_PROPOSAL),
    ),
    mutant(
        "redlock_raise_does_not_keep_the_token",
        &redlock::RAISE,
        "  keep_token(KEYS[2], ARGV[3], server_now())\n",
        "",
        Where::Rounds(Rounds::SMALL),
    ),
];
