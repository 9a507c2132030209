//! The observer under all commands: the objects that the hub and the members hold, listed once or
//! followed by watches, with the rights of the person and the credentials on the hub.
//!
//! [`once`] lists. [`follow`] lists and watches, and keeps a [`fleet::Fleet`]. Views read a
//! [`service::Snapshot`] of one service, or what members hold of the clusterset. An object that may
//! not be read is unknown, per kind and cluster, and never absent.

pub(crate) mod connect;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod fleet;
pub(crate) mod follow;
pub(crate) mod hub;
pub(crate) mod link;
pub(crate) mod member;
pub(crate) mod once;
pub(crate) mod pace;
mod reader;
pub(crate) mod scope;
pub(crate) mod service;
mod store;
pub(crate) mod touched;
