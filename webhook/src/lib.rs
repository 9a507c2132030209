//! The admission webhook of causeway: MultiClusterServices are defaulted, validated or denied as they are written.
//!
//! The flow is [`server`] (TLS, connections) -> [`service`] (HTTP) -> [`review`] (the wire) -> [`decide`] (the rules, pure)
//! -> [`review`]. What the rules need of the hub comes from the cache of [`hub`] and, before anything is denied on its
//! account, from the hub itself.

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
mod reload;
mod request_span;
pub mod review;
pub mod server;
pub mod service;
pub mod tls;
mod watch;
