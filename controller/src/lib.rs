//! The controller of causeway: it keeps every cluster in line with the hub's MultiClusterServices.
//!
//! The data's way through the files: [`watch`] -> [`index`] -> [`queue`] -> [`plan`] -> [`diff`] -> [`outbox`] ->
//! [`apply`]. [`controller`] is the one loop that carries it, [`reconcile`] one turn of it for one item.

pub mod announce;
pub mod apply;
pub mod args;
pub mod ask;
pub mod controller;
pub mod departure;
pub mod diff;
pub mod event;
pub mod failure;
pub mod fight;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod hub_watches;
pub mod index;
pub mod karmada;
pub mod lease;
pub mod member;
pub mod metrics;
pub mod outbox;
pub mod plan;
pub mod queue;
pub mod reconcile;
pub mod seal;
pub mod time_point;
pub mod watch;
