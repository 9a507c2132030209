//! One request for the credentials of a member to its causeway-agent, past causeway-tunnel.

use std::path::PathBuf;
use std::time::Duration;

use causeway::domain::ClusterName;
use causeway::process::supervise::with_causes;
use causeway::target::{Target, Token, TunnelFront};
use causeway_engine::model::{Failure, FailureKind};
use causeway_tunnel::tokens::{AgentCredentials, AskError, ask};
use http::StatusCode;
use tokio::time::timeout;

use crate::failure::classify;
use crate::given::Given;

/// Maximum time of a request, with its connection.
const DEADLINE: Duration = Duration::from_secs(30);

/// Request to the agent of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCall {
    /// Member.
    pub member: ClusterName,
    /// Front of causeway-tunnel.
    pub front: TunnelFront,
    /// Directory of the controller's certificate for agents.
    pub tls_dir: Option<PathBuf>,
}

impl AgentCall {
    /// Sends the request, for 30 seconds at most. `is_rejected` is true if the member rejects the
    /// last token.
    ///
    /// # Errors
    /// [`Failure`]. [`is_unreached`] is true for one that ends without a person.
    pub async fn run(&self, is_rejected: bool) -> Result<Given, Failure> {
        let Some(directory) = &self.tls_dir else {
            return Err(no_certificate("--tunnel-tls-dir is not set"));
        };
        let asked = ask(&self.front, directory, &self.member, is_rejected);
        let answer = timeout(DEADLINE, asked).await;
        let answer = answer.map_err(|_| {
            let text = format!("its agent gave no credentials within {DEADLINE:?}");
            Failure::new(FailureKind::Timeout, text)
        })?;
        self.read(answer.map_err(|error| failure(&error))?)
    }

    fn read(&self, answer: AgentCredentials) -> Result<Given, Failure> {
        let token = Token::parse(answer.token.as_bytes());
        let unsendable = || {
            let text = "its agent gave a token that cannot be sent";
            Failure::new(FailureKind::Invalid, text)
        };
        let name = self.member.clone();
        let authorities = &answer.certificate_authority_data;
        let target = Target::of_agent(name, &self.front, &answer.server, authorities);
        let target =
            target.map_err(|error| Failure::new(FailureKind::Invalid, error.to_string()))?;
        Ok(Given {
            token: token.ok_or_else(unsendable)?,
            expiry: Some(answer.expires),
            target: Some(target),
        })
    }
}

/// Whether an agent is not reached now, rather than refusing until a person acts.
pub fn is_unreached(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::Refused | FailureKind::Timeout | FailureKind::Network
    )
}

fn failure(error: &AskError) -> Failure {
    match error {
        AskError::Certificate(why) => no_certificate(&with_causes(why)),
        AskError::Front(why) => classify(why),
        AskError::Handshake(_) | AskError::Http(_) | AskError::Body(_) => {
            let why = classify(error);
            let message = "the exchange with its agent failed";
            Failure::quoting(why.kind, message, &why.to_string())
        }
        AskError::Refused { status, reason } => {
            let kind = match *status {
                StatusCode::BAD_GATEWAY => FailureKind::Network,
                _ => FailureKind::Invalid,
            };
            Failure::quoting(kind, "its agent gives no credentials", reason)
        }
        AskError::Identity(_) | AskError::Foreign(_) | AskError::Malformed => {
            Failure::new(FailureKind::Invalid, error.to_string())
        }
    }
}

fn no_certificate(why: &str) -> Failure {
    let text = format!(
        "causeway-controller has no certificate that its agent accepts ({why}); run kubectl mcs \
         install --tunnel HOST, and start the controller with --tunnel-tls-dir"
    );
    Failure::new(FailureKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_is_unreached_while_its_api_server_gives_no_token() {
        for (status, expected) in [
            (StatusCode::BAD_GATEWAY, true),
            (StatusCode::INTERNAL_SERVER_ERROR, false),
            (StatusCode::FORBIDDEN, false),
        ] {
            let reason = "no token of account causeway-system/causeway: not now".to_owned();
            let failure = failure(&AskError::Refused { status, reason });
            assert_eq!(is_unreached(&failure), expected, "{status}: {failure}");
        }
    }
}
