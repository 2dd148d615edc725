//! Mutants of the scripts of an election.

use lockkeeper_lua::election;

use super::mutant::{Mutant, Where};

/// Mutants of its own scripts, which the search and the simulation must find.
pub const ELECTION: &[Mutant] = mutants! {
    election_proclaim_writes_nothing_if_others_wait: election::PROCLAIM, Where::Election;
        "if tonumber(ARGV[4]) > tonumber(known[1]) then" => "if name.alone then";
    election_proclaim_gives_the_leader_a_whole_lease: election::PROCLAIM, Where::Election;
        "alone.ends, member_of(alone.flag" => "name.now + 1000, member_of(alone.flag";
    election_proclaim_forgets_the_leader: election::PROCLAIM, Where::Election;
        "  put(name, alone.ends, member_of(alone.flag, alone.share, alone.claim))\n" => "";
    election_leader_is_known_by_what_another_has_proclaimed: election::LEADER, Where::Election;
        "if term == name.token and" => "if term and";
};

/// Mutants that only the search must find: they need a request later than any in a history, or a lease whose key outlives it.
pub(super) const SEARCHED: &[Mutant] = mutants! {
    election_proclaim_does_not_look_at_the_claim: election::PROCLAIM, Where::Election;
        "if ends <= name.now or flag == 'c' or name.token ~= ARGV[3] then" => "if not name.found then";
    election_leader_is_one_whose_lease_has_ended: election::LEADER, Where::Election;
        "if share and flag ~= 'c' and left > 0 then" => "if share then";
};
