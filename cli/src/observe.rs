//! Observer of all commands: lists or watches the objects of hub and members, with the user's
//! rights on the hub and the stored credentials of each member.
//!
//! [`once`] lists. [`follow`] lists and watches, and maintains a [`fleet::Fleet`]. Views read a
//! [`service::Snapshot`] of one service, or the clusterset's objects in the members. An unreadable
//! object is unknown, per kind and cluster, and never absent.

pub(crate) mod connect;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod fleet;
pub(crate) mod follow;
pub(crate) mod hub;
pub(crate) mod installation;
pub(crate) mod kubeconfigs;
pub(crate) mod link;
pub(crate) mod member;
pub(crate) mod misplaced;
pub(crate) mod networking;
pub(crate) mod once;
pub(crate) mod pace;
mod reader;
pub(crate) mod scope;
pub(crate) mod service;
mod store;
pub(crate) mod touched;
pub(crate) mod verification;
