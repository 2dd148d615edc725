//! Mutants of the scripts: one mistake each, as a checked patch of the text that is shipped.
//!
//! Some are mistakes that others in this field have made, the rest are the laws of the design left out one by one. The
//! search runs the patched text in place of the shipped one and must find a violation in one of [`Mutant::scopes`].

use anyhow::{Context as _, Result, ensure};
use lockkeeper_lua::{Script, fair, mutex, reentrant};

mod modes;
mod several;

pub use modes::RWLOCK;
pub use several::MULTI;

use crate::kinds::KindModel;
use crate::search::{Bounds, Scope, Sets};

/// One script with one mistake.
#[derive(Debug, Clone)]
pub struct Patch {
    script: &'static str,
    source: String,
}

impl Patch {
    /// `script` with `replacement` in place of `text`.
    ///
    /// # Errors
    ///
    /// If `text` does not stand in the script exactly once: the script has changed, and the patch must follow it.
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

/// A mistake in one script, by name.
#[derive(Debug)]
#[non_exhaustive]
pub struct Mutant {
    /// What the script does wrong, as a sentence without blanks.
    pub name: &'static str,
    /// Which script.
    pub script: &'static Script,
    /// What stands there, once.
    pub text: &'static str,
    /// What stands there instead.
    pub replacement: &'static str,
    /// Where it shows.
    world: Where,
}

/// Which bounds show a mutant.
#[derive(Debug, Clone, Copy)]
enum Where {
    /// The [small](Bounds::small) ones.
    Small,
    /// A lease that lasts longer than the one after it.
    UnequalLeases,
    /// A server that loses the key of the last token, and one client: tokens of others are not promised then.
    Forgetting,
    /// Three claims want the same name.
    Queue,
    /// Two claims each, of which the second takes the place of the first.
    Conversions,
    /// Sets that share a re-entrant lock, or a mutex.
    Sets,
    /// More clients than a search has: the simulation finds it.
    FourClients,
}

impl Mutant {
    /// The text patch.
    ///
    /// # Errors
    ///
    /// As for [`Patch::new`].
    pub fn patch(&self) -> Result<Patch> {
        Patch::new(self.script, self.text, self.replacement)
            .with_context(|| format!("the mutant {} no longer applies", self.name))
    }

    /// The kind whose script it is.
    pub fn kind(&self) -> &'static str {
        self.script
            .name
            .split_once('/')
            .map_or(self.script.name, |(kind, _)| kind)
    }

    /// Its name as a sentence.
    pub fn what(&self) -> String {
        self.name.replace('_', " ")
    }

    /// What is searched for it, one after the other until it shows.
    pub fn scopes(&self) -> Vec<Scope> {
        let bounds = match self.world {
            Where::FourClients => return Vec::new(),
            Where::Sets => {
                return [Sets::SMALL, Sets::SMALL_OF_MUTEXES]
                    .map(Scope::Sets)
                    .into();
            }
            Where::Small => Bounds::small(),
            Where::Queue => Bounds::new(3, &[2], 4, 1, 1),
            Where::Conversions => Bounds::conversions(),
            Where::UnequalLeases => Bounds::new(2, &[3, 2], 4, 1, 1),
            Where::Forgetting => Bounds {
                clients: 1,
                forgets: true,
                ..Bounds::small()
            },
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
    let single = ALL.iter().chain(FAIR).chain(RWLOCK);
    single.chain(modes::SEARCHED).chain(MULTI)
}

/// Mutants of the scripts of the fair lock, which the simulation must find too.
pub const FAIR: &[Mutant] = &[
    mutant(
        "fair_release_gives_no_turn",
        &fair::RELEASE,
        "local told = advance(name)\n",
        "local told = '1'\n",
        Where::Queue,
    ),
    mutant(
        "fair_release_keeps_the_place",
        &fair::RELEASE,
        "name.waits and withdraw(name, claim) > 0",
        "false",
        Where::Queue,
    ),
    mutant(
        "fair_release_tells_nobody",
        &fair::RELEASE,
        "return client and wake(string.format('%s:%s', name.channel, client), message) or '0'",
        "return client and message and '1'",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_creates",
        &fair::HEARTBEAT,
        "      reply[i + 2] = 'GONE'\n",
        "      join(name, claim, request)\n      reply[i + 2] = { 'WAITING', 1 }\n",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_gives_no_turn",
        &fair::HEARTBEAT,
        "  advance(name)\n",
        "",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_passes_the_queue",
        &fair::ACQUIRE,
        "\nadvance(name)\nlocal held",
        "\nlocal held",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_repeated_loses_its_place",
        &fair::ACQUIRE,
        "  local place = place_of(name, claim)\n",
        "  redis.call('ZREM', name.queue, claim)\n  local place = place_of(name, claim)\n",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_joins_in_front",
        &fair::ACQUIRE,
        "tonumber(last[2] or 0) + 1",
        "tonumber(last[2] or 0) - 1",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_ignores_the_tombstone",
        &fair::ACQUIRE,
        " or redis.call('EXISTS', KEYS[3]) == 1",
        "",
        Where::Queue,
    ),
];

/// Mutants of scripts that the search alone must find.
pub const ALL: &[Mutant] = &[
    mutant(
        "mutex_renew_creates",
        &mutex::RENEW,
        "    reply[i + 2] = 'GONE'\n",
        "    if not holder then\n      redis.call('SET', KEYS[i], ARGV[2 * i], 'PX', ARGV[2 * i + 1])\n    end\n    reply[i + 2] = holder and 'GONE' or 'RENEWED'\n",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_repeated_does_not_arm",
        &mutex::ACQUIRE,
        "  arm(KEYS[1], ttl)\n",
        "",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_ignores_the_tombstone",
        &mutex::ACQUIRE,
        " or redis.call('EXISTS', KEYS[3]) == 1",
        "",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_takes_what_is_held",
        &mutex::ACQUIRE,
        "if holder then\n",
        "if holder and redis.call('PTTL', KEYS[1]) > 5 then\n",
        Where::Small,
    ),
    mutant(
        "mutex_acquire_arms_nothing",
        &mutex::ACQUIRE,
        "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])",
        "redis.call('SET', KEYS[1], ARGV[2])",
        Where::Small,
    ),
    mutant(
        "mutex_release_does_not_compare",
        &mutex::RELEASE,
        "if claim ~= ARGV[2] then",
        "if not claim then",
        Where::Small,
    ),
    mutant(
        "mutex_release_wakes_nobody",
        &mutex::RELEASE,
        "wake(ARGV[3], 'free')",
        "'1'",
        Where::Small,
    ),
    mutant(
        "mutex_release_in_doubt_sets_no_tombstone",
        &mutex::RELEASE_IN_DOUBT,
        "redis.call('SET', KEYS[2], '1', 'PX', ARGV[5])\n",
        "",
        Where::Small,
    ),
    mutant(
        "mutex_token_is_the_last_one_again",
        &mutex::ACQUIRE,
        "math.max(last + 1, now,",
        "math.max(last, now,",
        Where::Small,
    ),
    mutant(
        "mutex_token_ignores_the_floor",
        &mutex::ACQUIRE,
        "math.max(last + 1, now, token_number(floor) + 1)",
        "math.max(last + 1, now)",
        Where::Forgetting,
    ),
    mutant(
        "reentrant_acquire_ignores_the_tombstone",
        &reentrant::ACQUIRE,
        " or redis.call('EXISTS', KEYS[3]) == 1",
        "",
        Where::Small,
    ),
    mutant(
        "reentrant_acquire_repeated_does_not_arm",
        &reentrant::ACQUIRE,
        "math.max(lease, now + ttl)",
        "lease > 0 and lease or now + ttl",
        Where::Small,
    ),
    mutant(
        "reentrant_acquire_shortens_the_key",
        &reentrant::ACQUIRE,
        "if redis.call('PTTL', key) < ttl then",
        "if ttl then",
        Where::UnequalLeases,
    ),
    mutant(
        "reentrant_acquire_lets_others_in_when_one_claim_has_ended",
        &reentrant::ACQUIRE,
        "if held.taken and (held.owner ~= ARGV[6] or",
        "if held.taken and (held.owner ~= ARGV[6] and #held.dead == 0 or",
        Where::UnequalLeases,
    ),
    mutant(
        "reentrant_acquire_draws_a_token_for_each_re_entry",
        &reentrant::ACQUIRE,
        "  redis.call('HSET', KEYS[1], ARGV[2], ends)\n",
        "  held.token = draw_token(KEYS[2], ARGV[4], ttl, now_us)\n  redis.call('HSET', KEYS[1], ARGV[2], ends, 'token', held.token)\n",
        Where::Small,
    ),
    mutant(
        "reentrant_renew_revives_the_dead",
        &reentrant::RENEW,
        "if lease <= now then",
        "if lease <= 0 then",
        Where::UnequalLeases,
    ),
    mutant(
        "reentrant_renew_does_not_arm_the_key",
        &reentrant::RENEW,
        "    arm(KEYS[i], ttl)\n",
        "",
        Where::Small,
    ),
    mutant(
        "reentrant_release_takes_all_claims_out",
        &reentrant::RELEASE,
        "  if rest > 0 then\n",
        "  if false then\n",
        Where::Small,
    ),
    mutant(
        "reentrant_release_wakes_nobody",
        &reentrant::RELEASE,
        "return alive, 0, 0, channel and wake(channel, 'free') or '1'",
        "return alive, 0, 0, '1'",
        Where::Small,
    ),
    mutant(
        "fair_heartbeat_is_not_noted",
        &fair::HEARTBEAT,
        "  if #heard > 0 then\n",
        "  if false then\n",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_shortens_a_grant",
        &fair::HEARTBEAT,
        "local ends = math.max(held.leases[claim] or 0, name.now + ttl)",
        "local ends = name.now + ttl",
        Where::Queue,
    ),
    mutant(
        "fair_release_grants_for_too_long",
        &fair::RELEASE,
        "grant(name, claim, owner_of(claim), first_hold(name, ends))",
        "grant(name, claim, owner_of(claim), 2 * first_hold(name, ends))",
        Where::Queue,
    ),
    mutant(
        "fair_release_leaves_facts_of_an_empty_queue",
        &fair::RELEASE,
        "  if not name.waits then\n    redis.call('DEL', name.waiters)\n  end\n  return gone",
        "  return gone",
        Where::Queue,
    ),
];
