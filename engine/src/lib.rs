//! Decisions of causeway, without their effects: no client, no task, no clock.
//!
//! Data flows through [`observed`] -> [`plan`] -> [`diff`] -> [`write_queue`]; [`reconcile`] runs
//! this once for one item. [`model`] holds the types at the crate's border. The controller watches
//! the API servers, carries out the writes and reads the clocks.

mod by_item;
pub mod diff;
mod digest;
pub mod evidence;
pub mod explain;

#[cfg(test)]
mod fixtures;
pub mod lists;
pub mod messages;
pub mod model;
pub mod observed;
pub mod plan;
pub mod preview;
pub mod problem;
pub mod reasons;
pub mod reconcile;
pub mod removal;
pub mod seal;
#[cfg(test)]
mod simulation;
mod status;
pub mod write_conflict;
pub mod write_queue;
