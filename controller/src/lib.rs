//! The controller of causeway: it keeps every cluster in line with the hub's MultiClusterServices.
//!
//! The data's way through the files: [`watch`] -> [`queue`] -> the engine ([`causeway_engine`]),
//! which decides -> [`apply`]. [`controller`] is the one loop that runs it.

pub mod apply;
pub mod args;
pub mod clock;
pub mod cluster_profiles;
pub mod controller;
pub mod credentials;
mod encoding;
pub mod event;
pub mod event_recorder;
pub mod failure;
pub mod fleet;
pub mod given;
pub mod hostnames;
pub mod hub_identity;
pub mod hub_watches;
pub mod lease;
pub mod lookup;
pub mod member;
pub mod metrics;
pub mod queue;
pub mod seal;
mod traces;
pub mod watch;
