//! The tunnel of causeway: it reaches the API servers of members that cannot be dialled.
//!
//! `causeway-agent` runs in a member and dials out to `causeway-tunnel` on the hub. TLS 1.3
//! verifies both sides. Inside, HTTP/2 runs with reversed roles: the agent is the *server*, so it
//! cannot open a stream, and a hostile agent reaches nothing of the hub. `causeway-tunnel` opens a
//! stream for each CONNECT that a client on the hub sends to its front, and the agent joins it to
//! one address, the API server of its member. TLS between the client and that API server runs
//! inside.
//!
//! A member may [enrol](enrolment): its agent makes a key, and causeway-tunnel signs for it, once
//! for each token.
//!
//! [`identity`], [`hello`], [`member`] and [`budget`] are pure. [`tunnel`] is the side of the hub,
//! [`agent`] the side of the member, [`splice`] joins a stream to a socket on both. [`tokens`] is
//! what the controller and an agent say to each other.

pub mod agent;
pub mod args;
pub mod budget;
pub mod credentials;
pub mod digest;
pub mod enrolment;
pub mod hello;
pub mod identity;
pub mod keep_alive;
pub mod limits;
pub mod member;
pub mod metrics;
pub mod passwords;
pub mod paths;
pub mod registry;
pub mod serving;
pub mod splice;
pub mod tokens;
pub mod tunnel;
pub mod verifier;
