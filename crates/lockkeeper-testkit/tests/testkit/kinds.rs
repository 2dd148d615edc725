//! That models of kinds say what the kinds do.

mod rules;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Client;
use lockkeeper_core::Name;
use lockkeeper_core::protocol::Conversion;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::kinds::KindModel;

/// Every kind.
fn every() -> Vec<KindModel> {
    let others = [
        KindModel::QUEUED_REENTRANT,
        KindModel::LATCH,
        KindModel::REDLOCK,
        KindModel::REDISSON,
        KindModel::REDISSON_FAIR,
        KindModel::REDISSON_RWLOCK,
        KindModel::REDISSON_SEMAPHORE,
        KindModel::REDISSON_PERMITS,
    ];
    [&KindModel::ON_ONE_SERVER[..], &others].concat()
}

#[test]
fn a_kind_can_do_what_its_protocol_can() {
    for kind in every() {
        let name = Name::new("", "n").unwrap();
        let protocol = kind.protocol(kind.largest(), name, Duration::from_secs(1));
        assert_eq!(kind.name, protocol.kind().as_str());
        assert_eq!(kind.reenters, protocol.reenters(), "{kind:?}");
        assert_eq!(
            kind.waits_in_a_queue,
            protocol.queue().is_some(),
            "{kind:?}"
        );
        let differ = kind.has_modes() || kind.has_permits();
        assert_eq!(differ, protocol.mode() != kind.name, "{kind:?}");
        let conversion = protocol.conversion();
        assert_eq!(kind.converts(), conversion.is_some(), "{kind:?}");
        let hands_over = conversion.is_some_and(Conversion::has_cohorts);
        assert_eq!(kind.hands_over, hands_over, "{kind:?}");
        let has_limit = protocol.limited().is_some();
        assert_eq!(kind.has_permits(), has_limit, "{kind:?}");
        // A latch is a record and nothing else.
        let has_record = kind.stores() || kind.is_a_latch();
        assert_eq!(has_record, protocol.recorded().is_some(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_kind_makes_locks_of_its_own() {
    let store = Arc::new(MemoryStore::new());
    let client = Client::builder().build(store).unwrap();
    for kind in every() {
        let is_acquired_otherwise = kind.stores() || kind.is_a_latch() || kind.needs_a_majority();
        let name = match is_acquired_otherwise {
            true => KindModel::MUTEX.name,
            false => kind.name,
        };
        let lock = kind.lock(&client, "n", kind.largest());
        assert_eq!(format!("{lock:?}"), format!("{name}(\"n\")"));
    }
}
