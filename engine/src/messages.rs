//! Sentences that a person reads in conditions, Events and explanations.

pub(crate) mod member;
pub(crate) mod problem;
