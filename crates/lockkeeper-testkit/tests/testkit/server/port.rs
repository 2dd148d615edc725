//! Ports that servers get.

use std::net::{Ipv4Addr, TcpListener};

use lockkeeper_testkit::server::Port;

#[test]
fn a_port_stays_with_its_holder_while_nobody_listens_there() {
    let held = Port::reserve().unwrap();
    assert!(Port::try_reserve(held.number()).is_none());
    let number = held.number();
    drop(held);
    assert!(Port::try_reserve(number).is_some());
}

#[test]
fn a_port_is_not_given_again_soon() {
    let number = Port::reserve().unwrap().number();
    let next: Vec<u16> = (0..100)
        .map(|_| Port::reserve().unwrap().number())
        .collect();
    assert!(!next.contains(&number), "{number} in {next:?}");
}

#[test]
fn a_port_on_which_somebody_listens_is_not_given() {
    let number = Port::reserve().unwrap().number();
    let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
    assert!(Port::try_reserve(number).is_none());
}
