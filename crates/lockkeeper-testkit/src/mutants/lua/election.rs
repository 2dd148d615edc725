//! Mutants of the scripts of an election.

use lockkeeper_lua::election;

use super::{Mutant, Where, mutant};

/// Mutants of its own scripts, which the search and the simulation must find.
pub const ELECTION: &[Mutant] = &[
    mutant(
        "election_proclaim_writes_nothing_if_others_wait",
        &election::PROCLAIM,
        "if tonumber(ARGV[4]) > tonumber(known[1]) then",
        "if name.alone then",
        Where::Election,
    ),
    mutant(
        "election_proclaim_gives_the_leader_a_whole_lease",
        &election::PROCLAIM,
        "alone.ends, member_of(alone.flag",
        "name.now + 1000, member_of(alone.flag",
        Where::Election,
    ),
    mutant(
        "election_proclaim_forgets_the_leader",
        &election::PROCLAIM,
        "  put(name, alone.ends, member_of(alone.flag, alone.share, alone.claim))\n",
        "",
        Where::Election,
    ),
    mutant(
        "election_leader_is_known_by_what_another_has_proclaimed",
        &election::LEADER,
        "if term == name.token and",
        "if term and",
        Where::Election,
    ),
];

/// Mutants that only the search must find: they need a request later than any in a history, or a lease whose key outlives it.
pub(super) const SEARCHED: &[Mutant] = &[
    mutant(
        "election_proclaim_does_not_look_at_the_claim",
        &election::PROCLAIM,
        "if ends <= name.now or flag == 'c' or name.token ~= ARGV[3] then",
        "if not name.found then",
        Where::Election,
    ),
    mutant(
        "election_leader_is_one_whose_lease_has_ended",
        &election::LEADER,
        "if share and flag ~= 'c' and left > 0 then",
        "if share then",
        Where::Election,
    ),
];
