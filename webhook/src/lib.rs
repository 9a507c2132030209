//! The admission webhook of causeway: it defaults and validates MultiClusterServices on their way
//! into the hub.
//!
//! The flow is [`server`] (TLS, connections) -> [`service`] (HTTP) -> [`review`] (the wire format)
//! -> [`decide`] (the rules, pure) -> [`review`]. The rules read the hub from the cache of [`hub`].
//! A live request to the hub confirms the cache before a denial.

pub mod args;
mod body;
pub mod callers;
pub mod certificates;
mod connection;
pub mod connections;
pub mod decide;
pub mod drain;
mod entries;
mod fields;
pub mod hub;
mod hub_cache;
pub mod limits;
mod lookups;
pub mod metrics;
mod request_span;
pub mod review;
pub mod server;
pub mod service;
pub mod tls;
mod watch;
