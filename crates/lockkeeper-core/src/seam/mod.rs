//! What a client library, a kind of lock and a user's observer must provide.

pub mod clock;
pub(crate) mod observer;
pub mod protocol;
pub mod store;
