//! What a server stores for a name, read from its keys as the wire format defines them.

use lockkeeper_core::Name;
use lockkeeper_core::store::Value;
use lockkeeper_memory::MemoryStore;

use crate::kinds::{KindModel, Mode, Standing};

/// A name on a server.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) model: &'a KindModel,
    /// The main key.
    pub(super) main: &'a str,
    pub(super) server: &'a MemoryStore,
}

impl Shown<'_> {
    /// What the server has granted by itself: nothing if the kind grants only in reply to the acquiring claim.
    pub(super) fn standing(self) -> Vec<Standing> {
        match self.model.waits_in_a_queue {
            true => self.grants(),
            false => Vec::new(),
        }
    }

    /// The claims that hold the name.
    pub(super) fn holders(self) -> Vec<String> {
        if self.model.is_a_latch() {
            return Vec::new();
        }
        let grants = self.grants().into_iter();
        grants.flat_map(|grant| grant.claims).collect()
    }

    /// Whether the name, held by `holders`, is available to the next waiter. A reader at the front of the queue may enter unless a
    /// writer holds or the readers are asked to release; a claim for permits may enter if that many are left. Work that has a
    /// result is never available.
    pub(super) fn is_free(self, holders: &[String]) -> bool {
        if self.model.is_a_latch() || self.model.stores() && self.result().is_some() {
            return false;
        }
        if !self.model.has_permits() && !self.model.has_modes() {
            return holders.is_empty();
        }
        let first = self.waiters().into_iter().next();
        let value = self.text();
        let words: Vec<&str> = value.split(' ').collect();
        let fits = |permits: u8| {
            let held = Standing::permits_of(&self.grants());
            let limit = self.limit();
            permits > 0 && limit.is_some_and(|limit| held + u32::from(permits) <= limit)
        };
        let reads_go_on =
            || matches!(words[..], [_, "*", "0", _, _, _, flags, _] if !flags.contains('r'));
        match first.map(|(share, _)| Mode::of_share(&share)) {
            Some(Mode::Permits { permits, .. }) if fits(permits) => !value.contains(" -r"),
            Some(Mode::Read) if reads_go_on() => true,
            _ => holders.is_empty(),
        }
    }

    /// The limit of a semaphore.
    pub(super) fn limit(self) -> Option<u32> {
        let value = self.text();
        let parts = match value.split(' ').collect::<Vec<_>>()[..] {
            [_, "*", _, _, parts, ..] => parts,
            [_, share, _, _] => share,
            _ => return None,
        };
        parts.split_once('/')?.1.parse().ok()
    }

    /// The latch: how many of how many counts are missing, and the claim that armed it.
    pub(super) fn latch(self) -> Option<(u32, u32, String)> {
        let value = self.text();
        let ["latch", share, claim, _] = value.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (left, n) = share.split_once('/')?;
        Some((left.parse().ok()?, n.parse().ok()?, claim.to_owned()))
    }

    /// Whether the server stores ids that have counted down the latch.
    pub(super) fn has_ids(self) -> bool {
        let found = self.server.execute(&["EXISTS", &self.part("counted")]);
        found.is_ok_and(|found| found == Value::Integer(1))
    }

    /// The result of work: its claim, its token and its value.
    pub(super) fn result(self) -> Option<(String, u64, String)> {
        let fields = ["HMGET", &self.part("record"), "claim", "token", "value"];
        let Ok(Value::List(fields)) = self.server.execute(&fields) else {
            return None;
        };
        let text = |at: usize| fields.get(at).and_then(Value::as_str).map(str::to_owned);
        Some((text(0)?, text(1)?.parse().ok()?, text(2)?))
    }

    /// Whether a claim waits in the queue.
    pub(super) fn waits(self, claim: &str) -> bool {
        self.waiters().iter().any(|(_, waiting)| waiting == claim)
    }

    /// The shares and claims in the queue, in order.
    fn waiters(self) -> Vec<(String, String)> {
        let members = self
            .server
            .execute(&["ZRANGE", &self.part("queue"), "0", "-1"]);
        let Ok(Value::List(members)) = members else {
            return Vec::new();
        };
        let parts = |member: &Value| {
            let (share, claim) = member.as_str()?.split_once(':')?;
            Some((share.to_owned(), claim.to_owned()))
        };
        members.iter().filter_map(parts).collect()
    }

    /// All grants by which claims hold, by owner and token.
    fn grants(self) -> Vec<Standing> {
        let value = self.text();
        match value.split(' ').collect::<Vec<_>>()[..] {
            [_, "*", _, _, _, token, _, _] => self.inflated(token.parse().ok()),
            [_, share, claim, token] if !token.contains('c') => {
                let token = token.trim_end_matches(char::is_alphabetic).parse();
                let grant = token.ok().and_then(|token| grant(claim, share, token));
                grant.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The same for an inflated name, whose claims share this token unless they have their own.
    fn inflated(self, token: Option<u64>) -> Vec<Standing> {
        let members = ["ZRANGE", &self.part("holders"), "0", "-1", "WITHSCORES"];
        let Ok(Value::List(members)) = self.server.execute(&members) else {
            return Vec::new();
        };
        let now = self.now();
        let mut found: Vec<Standing> = Vec::new();
        for pair in members.chunks(2) {
            let [member, ends] = pair else { continue };
            let member = member.as_str().unwrap_or_default();
            let alive = ends.as_i64().is_some_and(|ends| ends > now) && !member.starts_with('c');
            let Some((share, claim)) = member
                .trim_start_matches('r')
                .split_once(':')
                .filter(|_| alive)
            else {
                continue;
            };
            let token = match share {
                "x" => token,
                _ => self.own_token(share, claim),
            };
            let Some(grant) = grant(claim, share, token.unwrap_or_default()) else {
                continue;
            };
            match found
                .iter_mut()
                .find(|other| other.is_one_with(&grant) && other.mode == grant.mode)
            {
                Some(other) => other.claims.extend(grant.claims),
                None => found.push(grant),
            }
        }
        // Within one run, a claim to write is granted before the claims that read inside it.
        // Claims with tokens of their own are granted in the order of their tokens.
        let own = |grant: &Standing| (grant.mode.permits() > 0).then_some(grant.token);
        found.sort_by_key(|grant| (grant.mode.reads(), own(grant)));
        found
    }

    /// The token that belongs to the claim itself, or to an owner that reads.
    fn own_token(self, share: &str, claim: &str) -> Option<u64> {
        let owner = claim.split_once('/').map_or(claim, |(owner, _)| owner);
        let counted = match Mode::of_share(share) {
            Mode::Permits { .. } => claim,
            _ => owner,
        };
        let entry = ["HGET", &self.part("state"), &format!("o:{counted}")];
        let entry = self.server.execute(&entry).ok()?;
        entry.as_str()?.split_once(' ')?.1.parse().ok()
    }

    /// A key that belongs to the name.
    fn part(self, part: &str) -> String {
        let name = self.main.strip_prefix("lockkeeper:").unwrap_or(self.main);
        Name::new("lockkeeper", name).map_or_else(|_| String::new(), |name| name.part(part))
    }

    /// The value of the main key, or an empty text.
    fn text(self) -> String {
        let value = self.server.execute(&["LINDEX", self.main, "0"]).ok();
        let value = value.as_ref().and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    }

    /// The server's time, ms.
    fn now(self) -> i64 {
        let part = |part: Option<&Value>| part.and_then(Value::as_i64).unwrap_or(0);
        match self.server.execute(&["TIME"]) {
            Ok(Value::List(parts)) => part(parts.first()) * 1000 + part(parts.get(1)) / 1000,
            _ => 0,
        }
    }
}

/// The grant of a claim with this share and token.
fn grant(claim: &str, share: &str, token: u64) -> Option<Standing> {
    let (owner, _) = claim.split_once('/')?;
    Some(Standing {
        owner: owner.to_owned(),
        token,
        mode: Mode::of_share(share),
        claims: vec![claim.to_owned()],
    })
}
