//! The texts of script calls, in which what differs without a difference in behaviour has a name: uuids, the random halves of
//! claims, the notes of claims and request numbers are numbered in the order in which they first appear.

use std::collections::BTreeMap;

use lockkeeper_core::store::Form;

use crate::simulation::checks::{claims, labels};
use crate::simulation::record::Sent;

/// What follows from the time of a call, or from that of earlier ones.
const OF_TIME: [&str; 4] = ["floor", "token", "proposal", "term"];

/// The length of a uuid in its usual form, and where its hyphens are.
const UUID: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The length of a claim's random half.
const RANDOM: usize = 16;

/// The names that were given so far.
#[derive(Debug, Default)]
pub struct Names {
    /// By uuid; by owner and random half; by claim and request number.
    given: BTreeMap<String, usize>,
    /// How many were given by what they belong to.
    counts: BTreeMap<String, usize>,
}

impl Names {
    /// The number of a thing among those that belong to `of`.
    fn number(&mut self, of: &str, thing: &str) -> usize {
        let key = format!("{of} {thing}");
        if let Some(number) = self.given.get(&key) {
            return *number;
        }
        let count = self.counts.entry(of.to_owned()).or_default();
        *count += 1;
        self.given.insert(key, *count);
        *count
    }

    /// A text with names for the uuids and claims in it.
    pub fn named(&mut self, text: &str) -> String {
        let (mut named, mut rest) = (String::new(), text);
        while let Some(at) = first_uuid(rest) {
            let uuid = &rest[at..at + UUID];
            named.push_str(&rest[..at]);
            named.push_str(&format!("u{}", self.number("", uuid)));
            rest = &rest[at + UUID..];
            let end = rest.find(|it: char| it != ':' && !it.is_ascii_digit());
            let (number, random) = rest.split_at(end.unwrap_or(rest.len()));
            named.push_str(number);
            rest = random;
            if let Some(random) = random.strip_prefix('/').and_then(|it| it.get(..RANDOM)) {
                let claim = self.number(&format!("{uuid}{number}"), random);
                named.push_str(&format!("/{claim}"));
                rest = &rest[1 + RANDOM..];
            } else if let Some(digest) = rest.strip_prefix("}:").filter(|it| is_digest(it)) {
                let note = self.number(&format!("note of {uuid}"), digest);
                named.push_str(&format!("}}:note{note}"));
                rest = "";
            }
        }
        named + rest
    }

    /// Everything about a call except when it was sent and how long its client waits for the reply.
    pub(super) fn exact(&mut self, sent: &Sent) -> String {
        self.call(sent, |_| false)
    }

    /// The same without what follows from times.
    pub(super) fn timeless(&mut self, sent: &Sent) -> String {
        self.call(sent, |label| OF_TIME.contains(&label))
    }

    fn call(&mut self, sent: &Sent, is_left_out: impl Fn(&str) -> bool) -> String {
        let call = &sent.call;
        let form = match call.form {
            Form::Source => " by text",
            _ => "",
        };
        let of = claims(call).first().copied().unwrap_or_default();
        let request = self.number(&format!("request of {of}"), &call.request.to_string());
        let keys: Vec<_> = call.item.keys.iter().map(|key| self.named(key)).collect();
        let args = labels(call).zip(call.item.args.iter());
        let args = args.map(|(label, arg)| match is_left_out(label) {
            true => format!("{label}=*"),
            false => format!("{label}={}", self.named(arg)),
        });
        let args: Vec<_> = args.collect();
        let (link, server, script) = (sent.link, sent.server, call.item.script.name);
        let (keys, args) = (keys.join(" "), args.join(" "));
        format!("c{link} s{server} {script}{form} #{request} [{keys}] {args}")
    }
}

/// Whether it is the end of a note's key, which follows from the claim.
fn is_digest(text: &str) -> bool {
    text.len() == RANDOM && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where the first uuid in a text begins.
fn first_uuid(text: &str) -> Option<usize> {
    let hyphens = text.match_indices('-');
    let mut starts = hyphens.filter_map(|(at, _)| at.checked_sub(HYPHENS[0]));
    starts.find(|at| is_uuid(text.as_bytes(), *at))
}

fn is_uuid(text: &[u8], at: usize) -> bool {
    let is_right = |(index, byte): (usize, &u8)| match HYPHENS.contains(&index) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    let text = text.get(at..at + UUID);
    text.is_some_and(|text| text.iter().enumerate().all(is_right))
}
