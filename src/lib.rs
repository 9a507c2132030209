//! The shared words of causeway: the API objects as they are on the wire ([`api`]), the types that
//! hold their invariants ([`domain`]), and what every process needs ([`process`]).

pub mod api;
pub mod domain;
pub mod process;
