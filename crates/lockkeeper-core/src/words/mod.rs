//! The words that everything else uses: names, owners, tokens, answers, endings, errors.

pub(crate) mod agenda;
pub(crate) mod answer;
pub(crate) mod chance;
pub(crate) mod ending;
pub(crate) mod error;
pub(crate) mod holder;
pub(crate) mod kind;
pub(crate) mod moment;
pub(crate) mod name;
pub(crate) mod owner;
pub(crate) mod record;
pub(crate) mod rules;
pub(crate) mod slot;
pub(crate) mod store_error;
pub(crate) mod token;
