//! What a guard holds: its lease, its release, its conversion.

pub(crate) mod convert;
pub(crate) mod guard;
pub(crate) mod hold;
pub(crate) mod lease;
pub(crate) mod release;
