//! The fate of requests and messages.

use lockkeeper_core::store::Event;
use lockkeeper_testkit::simulation::Fates;

#[test]
fn fate_of_a_message_depends_on_its_channel_alone() {
    let message = |channel| Event::message(channel, "x");
    let drawn = |fates: &mut Fates, link, event| fates.of_message(link, &event).0.u64(..);
    let mut one = Fates::new(5);
    let first = drawn(&mut one, 0, message("a"));
    let second = drawn(&mut one, 0, message("a"));
    let mut other = Fates::new(5);
    drawn(&mut other, 0, message("b"));
    drawn(&mut other, 1, message("a"));
    assert_eq!(first, drawn(&mut other, 0, message("a")));
    drawn(&mut other, 0, message("b"));
    assert_eq!(second, drawn(&mut other, 0, message("a")));
    assert_ne!(first, second);
    assert_ne!(first, drawn(&mut Fates::new(6), 0, message("a")));
}
