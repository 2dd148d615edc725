//! The names of what differs without a difference in behaviour.

use lockkeeper_testkit::simulation::net::Names;

#[test]
fn random_halves_and_uuids_are_named_by_first_appearance() {
    let (one, other) = (
        "0a1b2c3d-0000-4000-8000-000000000001",
        "0a1b2c3d-0000-4000-8000-000000000002",
    );
    let mut names = Names::default();
    let text = format!("key:{{{one}}} {one}:7/00112233445566ff {other}:7/00112233445566ff");
    assert_eq!(names.named(&text), "key:{u1} u1:7/1 u2:7/1");
    let text = format!("{one}:7/ffff223344556677 {one}:8 {one}:7/00112233445566ff x");
    assert_eq!(names.named(&text), "u1:7/2 u1:8 u1:7/1 x");
    assert_eq!(names.named("lockkeeper:näme"), "lockkeeper:näme");
}
