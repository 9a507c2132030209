//! Agents that are connected to causeway-tunnel, by member.

pub(crate) mod replica;
pub(crate) mod report;
pub(crate) mod text;
