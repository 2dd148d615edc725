//! The store against real servers, broken networks and servers that lie. Each test starts its own servers on free
//! loopback ports and stops them by process id.

mod connecting;
mod faults;
mod hostile;
mod scripts;
// Their helpers unwrap, which the lints allow in what is compiled for tests alone.
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod messages;
mod native;
#[cfg(test)]
mod resp3;
#[cfg(test)]
mod sentinel;
#[cfg(test)]
mod sharded;
#[cfg(test)]
mod support;
#[cfg(test)]
#[cfg(feature = "tls")]
mod tls;
