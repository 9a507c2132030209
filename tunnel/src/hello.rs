//! The first exchange on a connection: causeway-tunnel introduces itself, and the agent answers.

use serde::{Deserialize, Serialize};

/// Application protocol in the TLS handshake.
pub const ALPN: &[u8] = b"causeway-tunnel/1";
/// Version of what is sent inside.
pub const PROTOCOL: u32 = 1;
/// Path of the introduction.
pub const HELLO: &str = "/hello";
/// Path of the notice that causeway-tunnel is about to close the connection.
pub const DRAIN: &str = "/drain";
/// Path of the request that becomes the connection of an agent through the hub's API server.
pub const UPGRADE_PATH: &str = "/connect";
/// Protocol that this request asks for in the header `Upgrade`.
pub const UPGRADE: &str = "causeway-tunnel";
/// Authority of CONNECT to the API server of the member.
pub const API: &str = "api";
/// Authority of CONNECT to the agent itself ([`crate::tokens`]).
pub const AGENT: &str = "agent";
/// Header with the reason of a refusal.
pub const REASON: &str = "x-causeway-reason";

/// Maximum size of an introduction or its answer, in bytes.
pub const BODY_MAX: usize = 4 * 1024;
/// Maximum length of a text of the other side that is kept or shown, in bytes.
pub const TEXT_MAX: usize = 256;
/// Maximum number of replicas that an agent connects to.
const REPLICAS_MAX: u32 = 8;

/// Introduction of a replica of causeway-tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name of the process, which differs from that of every other.
    pub server: String,
    /// Number of replicas.
    pub replicas: u32,
    /// Version of the protocol.
    pub protocol: u32,
}

/// Answer of an agent. It is shown and decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Version of the agent.
    pub agent: String,
    /// Address of the API server that it reaches.
    pub api: String,
}

/// Reason why an introduction or an answer is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// It is too long.
    #[error("it has more than {BODY_MAX} bytes")]
    TooLong,
    /// It is no JSON of that form.
    #[error("it cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The other side speaks another protocol.
    #[error("it speaks version {0} of the protocol, not {PROTOCOL}")]
    Protocol(u32),
    /// A text is empty, too long, or not printable.
    #[error("{0} is empty, longer than {TEXT_MAX} bytes or not printable")]
    Text(&'static str),
}

impl Hello {
    /// Parses an introduction. The number of replicas is brought into its bounds.
    ///
    /// # Errors
    /// [`HelloError`].
    pub fn parse(body: &[u8]) -> Result<Self, HelloError> {
        let mut hello: Self = read(body)?;
        if hello.protocol != PROTOCOL {
            return Err(HelloError::Protocol(hello.protocol));
        }
        if !is_text(&hello.server) {
            return Err(HelloError::Text("server"));
        }
        hello.replicas = hello.replicas.clamp(1, REPLICAS_MAX);
        Ok(hello)
    }
}

impl Answer {
    /// Parses an answer.
    ///
    /// # Errors
    /// [`HelloError`].
    pub fn parse(body: &[u8]) -> Result<Self, HelloError> {
        let answer: Self = read(body)?;
        for (field, text) in [("agent", &answer.agent), ("api", &answer.api)] {
            if !is_text(text) {
                return Err(HelloError::Text(field));
            }
        }
        Ok(answer)
    }
}

/// Returns the printable ASCII characters of a text, at most [`TEXT_MAX`].
pub fn printable(text: &str) -> String {
    let printable = text.chars().filter(|c| matches!(c, ' '..='~'));
    printable.take(TEXT_MAX).collect()
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, HelloError> {
    if body.len() > BODY_MAX {
        return Err(HelloError::TooLong);
    }
    Ok(serde_json::from_slice(body)?)
}

fn is_text(text: &str) -> bool {
    let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    !text.is_empty() && text.len() <= TEXT_MAX && is_printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_is_read_within_its_bounds() {
        let body = |server: &str, replicas: u32, protocol: u32| {
            format!(
                r#"{{"server":"{server}","replicas":{replicas},"protocol":{protocol},"new":1}}"#
            )
        };
        let read = |server: &str, replicas, protocol| {
            Hello::parse(body(server, replicas, protocol).as_bytes())
        };
        for (given, bounded) in [(0, 1), (2, 2), (4_000_000_000, REPLICAS_MAX)] {
            assert_eq!(read("tunnel-0", given, 1).unwrap().replicas, bounded);
        }
        assert!(matches!(read("a", 1, 2), Err(HelloError::Protocol(2))));
        for server in ["", "a b", "\u{f6}", &"a".repeat(TEXT_MAX + 1)] {
            assert!(matches!(
                read(server, 1, 1),
                Err(HelloError::Text("server"))
            ));
        }
        let long = vec![b' '; BODY_MAX + 1];
        assert!(matches!(Hello::parse(&long), Err(HelloError::TooLong)));
        assert!(matches!(Hello::parse(b"[]"), Err(HelloError::Json(_))));
    }

    #[test]
    fn answer_with_unprintable_text_is_rejected() {
        let answer =
            |api: &str| Answer::parse(format!(r#"{{"agent":"0.2","api":"{api}"}}"#).as_bytes());
        assert_eq!(answer("10.96.0.1:443").unwrap().api, "10.96.0.1:443");
        assert!(answer("a\\nb").is_err());
        assert!(answer("").is_err());
    }

    #[test]
    fn reason_of_the_other_side_is_cut_and_cleaned() {
        assert_eq!(printable("a\r\nb: \u{1b}[1mc"), "ab: [1mc");
        assert_eq!(printable(&"a".repeat(TEXT_MAX + 1)).len(), TEXT_MAX);
    }
}
