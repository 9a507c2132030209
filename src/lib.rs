//! The shared words of causeway: the API objects as they are on the wire ([`api`]), the types that
//! hold their invariants ([`domain`]), and, as the feature `process`, what every process needs.

pub mod api;
pub mod domain;
#[cfg(feature = "process")]
pub mod process;
