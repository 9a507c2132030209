//! The admission webhook of causeway: MultiClusterServices are defaulted or refused as they are written.
//!
//! The flow is [`server`] (TLS, connections) -> [`service`] (HTTP) -> [`review`] (the wire) -> [`decide`] (the rules, pure)
//! -> [`review`]. What the rules have to know of the hub comes from [`view`], a cache, and, before anything is refused on its
//! account, from the hub itself.

pub mod args;
mod body;
pub mod callers;
pub mod certificates;
mod connection;
pub mod connections;
pub mod decide;
pub mod drain;
mod fields;
mod hub_cache;
pub mod limits;
pub mod metrics;
mod reload;
pub mod review;
pub mod server;
pub mod service;
pub mod tls;
pub mod view;
mod watch;
