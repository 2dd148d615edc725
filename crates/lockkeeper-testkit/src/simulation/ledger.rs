//! Checks what a client's observer is told: every acquisition that begins ends once, and so does every granted lease.

use std::collections::BTreeMap;

use lockkeeper::{AcquisitionEvent, LeaseEvent, Observed, Observer};
use parking_lot::Mutex;

/// The ledger of one client.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    /// By name and owner: how many are in progress, and how many of those wait.
    acquisitions: BTreeMap<(String, String), (u32, u32)>,
    /// By claim: whether it is over.
    leases: BTreeMap<String, bool>,
    wrong: Option<String>,
}

impl Observer for Ledger {
    fn on_acquisition(&self, of: &Observed<'_>, event: AcquisitionEvent) {
        let mut books = self.0.lock();
        let key = (of.name.to_owned(), of.owner.to_string());
        let (under_way, waiting) = books.acquisitions.entry(key).or_default();
        let after = match event {
            AcquisitionEvent::Began => under_way.checked_add(1).zip(Some(*waiting)),
            AcquisitionEvent::Waiting => Some(*under_way).zip(waiting.checked_add(1)),
            AcquisitionEvent::Ended { waited, .. } => {
                let waits = waiting.checked_sub(u32::from(waited));
                under_way.checked_sub(1).zip(waits)
            }
            _ => None,
        };
        match after.filter(|(under_way, waiting)| waiting <= under_way) {
            Some(after) => (*under_way, *waiting) = after,
            None => books.wrong = Some(format!("{event:?} of an acquisition of {}", of.name)),
        }
    }

    fn on_lease(&self, _: &Observed<'_>, claim: &str, event: LeaseEvent) {
        let mut books = self.0.lock();
        let before = books.leases.get(claim).copied();
        let after = match event {
            LeaseEvent::Granted { .. } => (before.is_none()).then_some(false),
            LeaseEvent::Lost { .. }
            | LeaseEvent::Released { .. }
            | LeaseEvent::Unconfirmed { .. } => (before == Some(false)).then_some(true),
            // An event about a renewal may come after the end, and one about a limit comes before the grant.
            _ => return,
        };
        match after {
            Some(over) => drop(books.leases.insert(claim.to_owned(), over)),
            None => books.wrong = Some(format!("{event:?} of claim {claim}")),
        }
    }
}

impl Ledger {
    /// An event that cannot be true, or one that is missing although everything has ended.
    pub(super) fn mistake(&self) -> Option<String> {
        let books = self.0.lock();
        let open = books.acquisitions.iter().find(|(_, it)| **it != (0, 0));
        let open = open.map(|((name, owner), _)| format!("the end of {owner} acquiring {name}"));
        let held = books.leases.iter().find(|(_, over)| !**over);
        let held = held.map(|(claim, _)| format!("the end of claim {claim}"));
        books.wrong.clone().or(open).or(held)
    }
}
