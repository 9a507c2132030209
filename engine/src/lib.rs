//! Everything that causeway decides, and nothing that it does: no client, no task, no clock.
//!
//! The data's way through the files: [`index`] -> [`plan`] -> [`diff`] -> [`write_queue`], run by [`reconcile`], one
//! turn of it for one item. [`model`] holds the words that cross the borders. What watches the API servers, carries out
//! the writes and reads the clocks is the controller.

mod by_item;
pub mod diff;
pub mod evidence;
pub mod explain;
pub mod fight;
#[cfg(test)]
mod fixtures;
pub mod index;
pub mod lists;
pub mod model;
pub mod plan;
pub mod preview;
pub mod reconcile;
pub mod removal;
pub mod seal;
pub mod write_queue;
