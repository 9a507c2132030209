//! Credentials of a member, as a plugin or its agent gives them.

use causeway::target::{Target, Token};
use k8s_openapi::jiff::Timestamp;

/// Credentials that a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Token.
    pub token: Token,
    /// Time at which it ends, if the source says one.
    pub expiry: Option<Timestamp>,
    /// Connection data of the member, if the source gives them.
    pub target: Option<Target>,
}
