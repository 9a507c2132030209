//! Tokens of the member, which an agent gives to the controller of its hub.
//!
//! CONNECT to [`AGENT_HOST`] at the front opens a stream to the agent itself. Inside, TLS 1.3
//! verifies both sides: the agent is the server, with the certificate of its member, and the
//! controller is the client, with a certificate of its own role. causeway-tunnel passes ciphertext
//! on, and its own certificate opens nothing.

mod account;
mod client;
mod issuer;

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::account::{Account, AccountError};
pub use self::client::{AskError, ControllerTls, ask};
pub use self::issuer::{IssueError, Issuer};

/// Host and port of CONNECT at the front that mean the agent. All others mean the API server.
pub const AGENT_HOST: &str = "agent.causeway.internal:443";

/// Application protocol in the TLS handshake.
const ALPN: &[u8] = b"causeway-credentials/1";
/// The one path.
const PATH: &str = "/credentials";
/// Maximum size of an answer, in bytes.
const BODY_MAX: usize = 64 * 1024;
/// Maximum size of the head of a request or an answer, in bytes.
const HEAD_MAX: usize = 8 * 1024;

/// Answer of an agent: the way to the API server of its member, and a token for it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentCredentials {
    /// URL of the API server.
    pub server: String,
    /// Authorities that verify the API server: PEM in base64.
    pub certificate_authority_data: String,
    /// Bearer token.
    pub token: String,
    /// End of the token's validity.
    pub expires: Timestamp,
}

/// Leaves the token out.
impl fmt::Debug for AgentCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AgentCredentials")
            .field("server", &self.server)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
