//! The answer of a command or a script, before the store's [`Value`] drops the difference between text and status.

use std::borrow::Cow;

use lockkeeper_core::store::{StoreError, Value};

/// A reply of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Resp {
    Nil,
    Integer(i64),
    Bulk(Vec<u8>),
    Status(Cow<'static, str>),
    Error(String),
    Array(Vec<Self>),
}

impl Resp {
    pub(crate) const OK: Self = Self::Status(Cow::Borrowed("OK"));

    /// As a client sees it: an error at the top is the server's refusal.
    pub(crate) fn into_result(self) -> Result<Value, StoreError> {
        match self {
            Self::Error(text) => Err(StoreError::refused(text)),
            reply => Ok(reply.into_value()),
        }
    }

    /// The store has no errors within an array; the array contains the text instead, as for a status.
    fn into_value(self) -> Value {
        match self {
            Self::Nil => Value::Nil,
            Self::Integer(number) => Value::Integer(number),
            Self::Bulk(bytes) => Value::Bytes(bytes),
            Self::Status(text) => Value::Bytes(text.into_owned().into_bytes()),
            Self::Error(text) => Value::Bytes(text.into_bytes()),
            Self::Array(items) => Value::List(items.into_iter().map(Self::into_value).collect()),
        }
    }
}

/// The text of an error reply; its first word is the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Cow<'static, str>);

impl Refusal {
    pub(crate) const NOSCRIPT: Self = Self::of("NOSCRIPT No matching script. Please use EVAL.");
    pub(crate) const NOT_AN_INTEGER: Self = Self::of("ERR value is not an integer or out of range");
    pub(crate) const NOT_A_FLOAT: Self = Self::of("ERR value is not a valid float");
    pub(crate) const SYNTAX: Self = Self::of("ERR syntax error");
    pub(crate) const WRONG_TYPE: Self =
        Self::of("WRONGTYPE Operation against a key holding the wrong kind of value");

    pub(crate) const fn of(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(crate) fn invalid_expire_time(command: &str) -> Self {
        Self(format!("ERR invalid expire time in '{command}' command").into())
    }

    pub(crate) fn wrong_number_of_arguments(command: &str) -> Self {
        Self(format!("ERR wrong number of arguments for '{command}' command").into())
    }
}

impl From<Refusal> for Resp {
    fn from(refusal: Refusal) -> Self {
        Self::Error(refusal.0.into_owned())
    }
}

impl From<Result<Self, Refusal>> for Resp {
    fn from(outcome: Result<Self, Refusal>) -> Self {
        outcome.unwrap_or_else(Self::from)
    }
}
