//! Sentences and remedies that a person reads: one room for all of them.
//!
//! The plan decides, and its decisions are values. This module words them: it decides nothing.

mod diagnosis;
pub(crate) mod explain;
pub(crate) mod member;
pub(crate) mod problem;

pub use self::diagnosis::Diagnosis;
pub(crate) mod write;
