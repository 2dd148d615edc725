//! The store against real servers, broken networks and servers that lie. Each test starts its own servers on free
//! loopback ports and stops them by process id.

mod cluster;
mod connecting;
mod faults;
mod messages;
mod scripts;
#[cfg(test)]
mod support;
