//! Mutants of the scripts: one mistake each, as a checked patch of the shipped text.
//!
//! Some are mistakes that others in this field have made; the rest drop one law of the design each. The search runs the
//! patched text in place of the shipped one and must find a violation in one of [`Mutant::scopes`].

use anyhow::{Context as _, Result, ensure};
use lockkeeper_lua::{Script, lock};

mod election;
mod latch;
mod majority;
mod modes;
mod once;
mod permits;
mod queue;
mod several;

pub use election::ELECTION;
pub use latch::LATCH;
pub use majority::REDLOCK;
pub use modes::RWLOCK;
pub use once::ONCE;
pub use permits::SEMAPHORE;
pub use queue::FAIR;
pub use several::MULTI;

use crate::kinds::KindModel;
use crate::search::{Bounds, Incident, Latches, Rounds, Scope, Sets};

/// One script with one mistake.
#[derive(Debug, Clone)]
pub struct Patch {
    script: &'static str,
    source: String,
}

impl Patch {
    /// Patches `script`: `replacement` in place of `text`.
    ///
    /// # Errors
    ///
    /// If `text` does not occur in the script exactly once: the script has changed, and the patch must follow.
    pub fn new(script: &'static Script, text: &str, replacement: &str) -> Result<Self> {
        let times = script.source.matches(text).count();
        ensure!(
            times == 1,
            "{text:?} stands {times} times in {}, not once",
            script.name
        );
        Ok(Self {
            script: script.name,
            source: script.source.replace(text, replacement),
        })
    }

    /// The patched text, if `script` is the one that is patched.
    pub(crate) fn source(&self, script: &Script) -> Option<&str> {
        (script.name == self.script).then_some(self.source.as_str())
    }
}

/// A mistake in one script.
#[derive(Debug)]
#[non_exhaustive]
pub struct Mutant {
    /// What the script does wrong: a sentence with underscores for spaces.
    pub name: &'static str,
    /// The script.
    pub script: &'static Script,
    /// The original text, which occurs once.
    pub text: &'static str,
    /// The text in its place.
    pub replacement: &'static str,
    /// Where the mistake shows.
    world: Where,
}

/// The bounds in which a mutant shows.
#[derive(Debug, Clone, Copy)]
enum Where {
    /// The [small](Bounds::small) ones.
    Small,
    /// A lease that lasts longer than the one after it.
    UnequalLeases,
    /// A server that loses the counter, and one client: other clients' tokens are not promised then.
    CounterLost,
    /// A counter that is lost, or put back by a failover, while the server's clock is right.
    ClockRight(Incident),
    /// A name that is taken from its holders by force.
    Forced,
    /// A server that loses the main key, and clients that come in again, or wait.
    MainKeyLost,
    /// The holders of an inflated name are lost, or its inflation.
    LostBehind(Incident),
    /// A key of holders comes back whom the marker does not count.
    HoldersBack,
    /// Another library's client takes the name.
    TakenByOthers,
    /// Claims are released into a cooldown.
    Cooldown,
    /// Claims are revoked, perhaps two of an owner.
    Revoked,
    /// Claims are revoked, and then convert or hand over.
    RevokedConversions,
    /// Three claims want the same name.
    Queue,
    /// Three claims want the same name or wait for it again, and two may wait.
    FullQueue,
    /// One leads, and one is on standby.
    Election,
    /// Three claims want permits of a name, and the limit is set.
    Limits,
    /// Two claims per client; the second replaces the first.
    Conversions,
    /// Sets that share a re-entrant lock, or a mutex.
    Sets,
    /// A majority of servers.
    Rounds(Rounds),
    /// A latch.
    Latch,
    /// More clients than a search can have: the simulation finds it.
    FourClients,
}

impl Mutant {
    /// The checked patch.
    ///
    /// # Errors
    ///
    /// As for [`Patch::new`].
    pub fn patch(&self) -> Result<Patch> {
        Patch::new(self.script, self.text, self.replacement)
            .with_context(|| format!("the mutant {} no longer applies", self.name))
    }

    /// The kind to search, the first word of the name: kinds share scripts.
    pub fn kind(&self) -> &'static str {
        self.name
            .split_once('_')
            .map_or(self.name, |(kind, _)| kind)
    }

    /// The name as a sentence.
    pub fn what(&self) -> String {
        self.name.replace('_', " ")
    }

    /// The scopes to search, one after the other until it shows.
    pub fn scopes(&self) -> Vec<Scope> {
        let bounds = match self.world {
            Where::FourClients => return Vec::new(),
            Where::Latch => return vec![Scope::Latch(Latches::SMALL)],
            Where::Rounds(rounds) => return vec![Scope::Rounds(rounds)],
            Where::Sets => {
                return [Sets::SMALL, Sets::SMALL_OF_MUTEXES, Sets::SMALL_OF_A_QUEUE]
                    .map(Scope::Sets)
                    .into();
            }
            Where::Small => Bounds::small(),
            Where::Queue => Bounds::new(3, &[2], 4, 1, 1),
            Where::FullQueue => Bounds {
                max_queue: Some(2),
                ..Bounds::new(3, &[2, 2], 3, 0, 0)
            },
            Where::Election => Bounds::new(2, &[2], 3, 0, 0),
            Where::Limits => Bounds::new(3, &[2], 2, 0, 1).with(Incident::LimitSet),
            Where::Conversions => Bounds::conversions(),
            Where::UnequalLeases => Bounds::new(2, &[3, 2], 4, 1, 1),
            Where::CounterLost => Bounds {
                clients: 1,
                ..Bounds::small().with(Incident::CounterLost)
            },
            Where::ClockRight(incident) => Bounds::new(2, &[2, 2], 3, 0, 1)
                .clock_right()
                .with(incident),
            Where::Forced => Bounds::new(2, &[2, 2], 2, 0, 1).with(Incident::Forced),
            Where::Cooldown => Bounds::new(2, &[2, 2], 3, 0, 0).cooling_down(),
            Where::Revoked => Bounds::new(2, &[2, 2], 2, 0, 1).with(Incident::Revoked),
            Where::RevokedConversions => Bounds {
                endings: 1,
                ..Bounds::conversions().with(Incident::Revoked)
            },
            Where::MainKeyLost => Bounds::new(2, &[2, 2], 2, 0, 1).with(Incident::MainKeyLost),
            Where::HoldersBack => Bounds::new(3, &[2], 3, 0, 1).with(Incident::HoldersBack),
            Where::TakenByOthers => Bounds::new(2, &[2], 3, 0, 2).with(Incident::TakenByOthers),
            Where::LostBehind(incident) => Bounds::new(2, &[2, 2], 3, 0, 1).with(incident),
        };
        let kinds = KindModel::ON_ONE_SERVER.into_iter();
        let kind = kinds.filter(|kind| kind.name == self.kind());
        kind.map(|kind| Scope::Single(kind, bounds.clone()))
            .collect()
    }
}

const fn mutant(
    name: &'static str,
    script: &'static Script,
    text: &'static str,
    replacement: &'static str,
    world: Where,
) -> Mutant {
    Mutant {
        name,
        script,
        text,
        replacement,
        world,
    }
}

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

/// Mutants of scripts that only the search must find.
pub const ALL: &[Mutant] = &[
    mutant(
        "mutex_renew_creates",
        &lock::RENEW,
        "    reply[i + 2] = 'GONE'\n",
        "    if not value then\n      redis.call('SET', KEYS[i], value_of('mutex', 'x', ARGV[2 * i], '1', ''), 'PX', ARGV[2 * i + 1])\n    end\n    reply[i + 2] = value and 'GONE' or 'RENEWED'\n",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_repeated_does_not_arm",
        &lock::ACQUIRE,
        "    arm(name.main, ttl)\n",
        "",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_ignores_the_tombstone",
        &lock::ACQUIRE,
        "redis.call('EXISTS', KEYS[1], KEYS[3]) == 0",
        "redis.call('EXISTS', KEYS[1]) == 0",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_takes_what_is_held",
        &lock::ACQUIRE,
        "    return not is_taken(name)\n",
        "    return not is_taken(name) or name.alone and name.alone.left <= 5\n",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_arms_nothing",
        &lock::ACQUIRE,
        "redis.call('SET', KEYS[1], value, 'PX', ARGV[3])",
        "redis.call('SET', KEYS[1], value)",
        Where::Small,
    ),
    mutant(
        "mutex_release_of_one_alone_does_not_compare",
        &lock::RELEASE_THIN,
        "(%S+) %d+$') == ARGV[2]",
        "(%S+) %d+$')",
        Where::Small,
    ),
    mutant(
        "mutex_release_of_one_alone_passes_over_the_flags",
        &lock::RELEASE_THIN,
        "(%S+) %d+$') == ARGV[2]",
        "(%S+) %d+%l*$') == ARGV[2]",
        Where::Small,
    ),
    mutant(
        "mutex_release_does_not_compare",
        &lock::RELEASE_THIN,
        "if whose ~= claim then",
        "if not whose then",
        Where::Small,
    ),
    mutant(
        "mutex_release_wakes_nobody",
        &lock::RELEASE_THIN,
        "polled and wake(channel, 'free') or '1'",
        "'1'",
        Where::Small,
    ),
    mutant(
        "mutex_release_in_doubt_sets_no_tombstone",
        &lock::RELEASE,
        "  redis.call('SET', KEYS[3], '1', 'PX', ARGV[7])\n",
        "",
        Where::Small,
    ),
    mutant(
        "mutex_token_is_the_last_one_again",
        &lock::ACQUIRE,
        "and redis.pcall('INCR', counter)",
        "and tonumber(redis.call('GET', counter))",
        Where::Small,
    ),
    mutant(
        "mutex_token_ignores_the_floor",
        &lock::ACQUIRE,
        "math.max(last_token(counter) + 1, now, token_number(floor) + 1)",
        "math.max(last_token(counter) + 1, now)",
        Where::CounterLost,
    ),
    mutant(
        "mutex_release_into_a_cooldown_frees_the_name",
        &lock::RELEASE_THIN,
        "if cooldown == '0' then",
        "if cooldown then",
        Where::Cooldown,
    ),
    mutant(
        "mutex_release_into_a_cooldown_wakes_nobody",
        &lock::RELEASE_THIN,
        "polled and wake(channel, 'kept') or '1'",
        "'1'",
        Where::Cooldown,
    ),
    mutant(
        "mutex_hand_over_of_one_alone_passes_over_the_flags",
        &lock::CONVERT,
        "string.find(value, '^%d+$', #old + 1)",
        "string.find(value, '^%d+%l*$', #old + 1)",
        Where::RevokedConversions,
    ),
    mutant(
        "mutex_renewal_of_a_revoked_claim_extends_it",
        &lock::RENEW,
        "  elseif string.find(flags, 'r', 1, true) then\n    reply[i + 2] = 'REVOKED'\n",
        "",
        Where::Revoked,
    ),
    mutant(
        "mutex_hand_over_of_a_revoked_claim",
        &lock::CONVERT,
        "if converted and flag == 'r' or not converted and old_flag == 'r' then\n  return { ARGV[1], 'REVOKED' }\nend\n",
        "",
        Where::RevokedConversions,
    ),
    mutant(
        "mutex_token_ignores_the_clock",
        &lock::ACQUIRE,
        "math.max(last_token(counter) + 1, now, token_number(floor) + 1)",
        "math.max(last_token(counter) + 1, token_number(floor) + 1)",
        Where::ClockRight(Incident::CounterLost),
    ),
    mutant(
        "mutex_token_counts_on_however_long_ago_the_counter_was_raised",
        &lock::ACQUIRE,
        "redis.call('PTTL', counter) > COUNTER_MEMORY - RAISED and",
        "redis.call('PTTL', counter) > 0 and",
        Where::ClockRight(Incident::CounterBehind),
    ),
    mutant(
        "mutex_acquire_overwrites_another_librarys_lock",
        &lock::ACQUIRE,
        "    return value == false, fault\n",
        "    return not fault, fault\n",
        Where::TakenByOthers,
    ),
    mutant(
        "mutex_poll_joins_a_queue",
        &lock::ACQUIRE,
        "ARGV[11] ~= 'poll' and ARGV[11] ~= '0' then\n  return stand(name, share, claim, ARGV[1], tonumber(ARGV[11]))",
        "ARGV[11] ~= '0' then\n  return stand(name, share, claim, ARGV[1], tonumber(ARGV[11]) or -1)",
        Where::TakenByOthers,
    ),
    mutant(
        "mutex_poll_leaves_no_sign",
        &lock::ACQUIRE,
        "    redis.call('SET', name.main, polled(name.alone.value), 'KEEPTTL')\n",
        "",
        Where::Small,
    ),
    mutant(
        "reentrant_acquire_ignores_the_tombstone",
        &lock::ACQUIRE,
        "has_left or ",
        "",
        Where::Small,
    ),
    mutant(
        "reentrant_acquire_repeated_does_not_arm",
        &lock::ACQUIRE,
        "put(name, math.max(ends, name.now + ttl)",
        "put(name, ends",
        Where::Small,
    ),
    mutant(
        "reentrant_acquire_lets_others_in_when_one_claim_has_ended",
        &lock::ACQUIRE,
        "name.exclusive = math.max(name.exclusive - 1, 0)",
        "name.exclusive = 0",
        Where::UnequalLeases,
    ),
    mutant(
        "reentrant_acquire_draws_a_token_for_each_re_entry",
        &lock::ACQUIRE,
        "local token = shared and name.token or",
        "local token =",
        Where::Small,
    ),
    mutant(
        "reentrant_acquire_counts_one_claim_however_many_hold",
        &lock::ACQUIRE,
        "name.exclusive + 1, name.live + 1, owner_of(claim)",
        "1, 1, owner_of(claim)",
        Where::Small,
    ),
    mutant(
        "reentrant_renew_revives_the_dead",
        &lock::RENEW_INFLATED,
        "elseif tonumber(found[1] or 0) > now then",
        "elseif tonumber(found[1] or 0) > 0 then",
        Where::UnequalLeases,
    ),
    mutant(
        "reentrant_renew_does_not_arm_the_key",
        &lock::RENEW,
        "    arm(KEYS[i], tonumber(ARGV[2 * i + 1]))\n",
        "",
        Where::Small,
    ),
    mutant(
        "reentrant_release_takes_all_claims_out",
        &lock::RELEASE,
        "name.exclusive = math.max(name.exclusive - 1, 0)",
        "name.exclusive = 0",
        Where::Small,
    ),
    mutant(
        "reentrant_release_wakes_nobody",
        &lock::RELEASE,
        "return name.polled and wake(name.channel, 'free') or '1'",
        "return '1'",
        Where::Small,
    ),
    mutant(
        "reentrant_inflation_forgets_who_polls",
        &lock::ACQUIRE,
        "name.polled and 'p' or '' })",
        "'' })",
        Where::Small,
    ),
    mutant(
        "reentrant_inflation_leaves_the_marker_the_ttl_of_the_lease",
        &lock::ACQUIRE,
        "name.queue or name.holders, name.main }, math",
        "name.queue or name.holders }, math",
        Where::UnequalLeases,
    ),
    mutant(
        "reentrant_inflation_keeps_what_a_lost_marker_left",
        &lock::ACQUIRE,
        "  redis.call('UNLINK', name.holders, name.queue, name.state)\n",
        "",
        Where::MainKeyLost,
    ),
    mutant(
        "reentrant_release_into_a_cooldown_lets_others_in",
        &lock::RELEASE,
        "    name.exclusive = name.exclusive + (share == 'x' and 1 or 0)\n",
        "",
        Where::Cooldown,
    ),
    mutant(
        "reentrant_acquire_joins_a_revoked_claim",
        &lock::ACQUIRE,
        "name.owner == owner_of(claim) and not name.revoked",
        "name.owner == owner_of(claim)",
        Where::Revoked,
    ),
    mutant(
        "reentrant_renewal_of_a_revoked_claim_of_two_extends_it",
        &lock::RENEW_INFLATED,
        "  elseif tonumber(found[2] or 0) > now then\n    reply[i + 2] = 'REVOKED'\n",
        "  elseif tonumber(found[2] or 0) > now then\n    reply[i + 2] = 'RENEWED'\n",
        Where::Revoked,
    ),
    mutant(
        "reentrant_inflation_forgets_the_first_claim",
        &lock::ACQUIRE,
        "  put(name, alone.ends, member_of(alone.flag, alone.share, alone.claim))\n",
        "",
        Where::Small,
    ),
    mutant(
        "reentrant_inflation_gives_the_first_claim_a_whole_lease",
        &lock::ACQUIRE,
        "alone.ends, member_of(alone.flag",
        "name.now + 1000, member_of(alone.flag",
        Where::Small,
    ),
    mutant(
        "reentrant_thin_release_deletes_a_marker",
        &lock::RELEASE_THIN,
        "if is_marker(value) then\n  return { ARGV[1], 'INFLATED' }\nend\n",
        "if is_marker(value) then\n  redis.call('DEL', KEYS[1])\n  return { ARGV[1], 'RELEASED', '1', 0 }\nend\n",
        Where::Small,
    ),
    mutant(
        "reentrant_thin_renewal_takes_a_marker_for_the_end",
        &lock::RENEW,
        "    reply[i + 2] = 'INFLATED'\n",
        "    reply[i + 2] = 'GONE'\n",
        Where::Small,
    ),
];
