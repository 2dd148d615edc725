//! For people and tools: inspect and list locks, check rights, give advice.

pub(crate) mod advice;
#[doc(hidden)]
pub mod glob;
pub(crate) mod inspection;
pub(crate) mod listing;
pub(crate) mod permits;
pub(crate) mod question;
pub(crate) mod rights;
mod said;
