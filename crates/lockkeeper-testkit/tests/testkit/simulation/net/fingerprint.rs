//! The fingerprint of a list of texts.

use lockkeeper_testkit::simulation::net::Fingerprint;

fn texts(number: usize) -> Vec<String> {
    (0..number).map(|it| format!("call {it}")).collect()
}

#[test]
fn fingerprint_survives_its_line() {
    let fingerprint = Fingerprint::of(&texts(60));
    assert_eq!(
        Fingerprint::parse(&fingerprint.to_string()),
        Some(fingerprint)
    );
    assert_eq!(Fingerprint::parse("60 xyz AB"), None);
}

#[test]
fn first_difference_is_in_the_range() {
    let stored = Fingerprint::of(&texts(100));
    for at in 0..100 {
        let mut changed = texts(100);
        changed[at].push('!');
        let range = Fingerprint::of(&changed).first_difference(&stored);
        assert!(range.contains(&at), "{at}: {range:?}");
    }
    assert_eq!(
        Fingerprint::of(&texts(60)).first_difference(&stored),
        50..60
    );
    assert_eq!(
        Fingerprint::of(&texts(50)).first_difference(&stored),
        50..50
    );
}
