//! What requests say about claims.

use lockkeeper_lua::Status;
use lockkeeper_testkit::simulation::changes_a_claim;

/// Unknown scripts would go unchecked.
#[test]
fn every_script_that_changes_a_claim_is_known() {
    let changes = [
        Status::Granted,
        Status::Renewed,
        Status::Released,
        Status::Dropped,
    ];
    for script in lockkeeper_lua::ALL {
        let by_force = script.name.ends_with("/free");
        let of_a_claim = script.args.contains(&"request") && !by_force;
        if of_a_claim && script.replies.iter().any(|it| changes.contains(it)) {
            assert!(changes_a_claim(script), "{}", script.name);
        }
    }
}
