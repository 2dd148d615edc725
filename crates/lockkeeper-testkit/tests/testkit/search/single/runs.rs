//! The clients in the texts of a server.

use lockkeeper_core::ClaimId;
use lockkeeper_testkit::search::{owner, rename};

#[test]
fn renaming_exchanges_the_clients_wherever_they_are_named() {
    let claim = |client| ClaimId::new(owner(client).unwrap(), client.into());
    let text = |one, other| {
        let (one, other) = (claim(one), claim(other));
        format!("gone:{{n}}:{} {}", one.owner(), other.owner()).into_bytes()
    };
    assert_eq!(rename(&text(0, 1), [1, 0, 2]), text(1, 0));
    assert_eq!(rename(&text(0, 1), [0, 1, 2]), text(0, 1));
}
