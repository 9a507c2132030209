//! The exchange by which an agent gets its certificate: one request of HTTP/1.1 on a connection of
//! its own, to the port for agents.
//!
//! The agent sends `POST /enrol` with its token and no certificate, or `POST /renew` with its
//! current certificate. The application protocol in the TLS handshake tells them apart, so that
//! connections without a certificate take no places of those that have one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Application protocol of a connection that enrols.
pub const ENROL_ALPN: &[u8] = b"causeway-enrol/1";
/// Application protocol of a connection that renews.
pub const RENEW_ALPN: &[u8] = b"causeway-renew/1";
/// Path of the request of an agent with a token.
pub const ENROL: &str = "/enrol";
/// Path of the request of an agent with a certificate.
pub const RENEW: &str = "/renew";
/// Maximum size of a request, in bytes.
pub const REQUEST_MAX: usize = 8 * 1024;
/// Maximum size of an answer, in bytes.
pub const ANSWER_MAX: usize = 64 * 1024;
/// Validity of the certificates.
pub const LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Request of an agent with a token.
#[derive(Serialize, Deserialize)]
pub struct Enrol {
    /// The token, as the Secret has it.
    pub token: String,
    /// Name of the member.
    pub name: String,
    /// Request of a certificate (PKCS#10), PEM.
    pub csr: String,
}

/// Request of an agent with a certificate.
#[derive(Serialize, Deserialize)]
pub struct Renew {
    /// Request of a certificate (PKCS#10), PEM.
    pub csr: String,
}

/// Answer to both.
#[derive(Serialize, Deserialize)]
pub struct Issued {
    /// The certificate, PEM.
    pub certificate: String,
}
