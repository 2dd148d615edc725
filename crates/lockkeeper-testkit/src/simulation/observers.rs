//! Tasks that observe a leader.

use lockkeeper::Election;
use tokio::time::sleep;

use super::host::Host;
use super::place::Place;

/// Observes the leader of a name until the history ends or the client is closed.
pub(super) async fn observe(host: Host, name: usize) {
    let (world, link) = (&*host.world, host.link_of(name));
    let Place {
        server, name: text, ..
    } = &world.places()[name];
    let mut leaders = Election::new(&host.clients[*server], text).observe();
    let began = world.now();
    world.check(|checks| checks.leaders.observes(name, link, began));
    let _observing = world.check_at_end(|checks| checks.leaders.observes_no_more(name, link));
    while !world.is_ending() {
        let told = tokio::select! {
            biased;
            told = leaders.next() => told,
            () = sleep(world.plan.heartbeat()) => continue,
        };
        match told {
            Some(Ok(leader)) => {
                let leader = leader.as_ref();
                let seen = leader.map(|it| (it.term, it.value.as_str()));
                world.tell(format_args!("c{link} sees name{name} led by {seen:?}"));
                world.check(|checks| checks.observed(name, link, leader));
            }
            Some(Err(error)) => {
                let _ = host.judge(&error, began);
                return;
            }
            None => return,
        }
    }
}
