//! Credentials of one member, which a plugin or its agent renews before they end.

pub mod agent;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::ClusterName;
use causeway::process::backoff::{Backoff, spread};
use causeway::target::Target;
use causeway_engine::model::{Failure, FailureKind};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use self::agent::AgentCall;
use crate::cluster_profiles::plugin::PluginCall;
use crate::event::{Event, Round};
use crate::given::Given;

/// Plugins that run at one time, of one program.
pub const PLUGINS_AT_ONCE: usize = 8;
/// Agents that are asked at one time.
pub const AGENTS_AT_ONCE: usize = 32;

/// First pause after a call failed, or gave a token that the member does not accept.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest such pause for a plugin, which is a process.
const LAST_PLUGIN_RETRY: Duration = Duration::from_secs(300);
/// Longest such pause for an agent, which may connect at any time.
const LAST_AGENT_RETRY: Duration = Duration::from_secs(15);
/// A token is used for no less than this.
const LEAST_USE: Duration = Duration::from_secs(1);
/// Pause after a token that an agent gives with another address or other authorities than before,
/// which lists the member again. API servers issue no token for less than ten minutes.
const PAUSE_ELSEWHERE: Duration = Duration::from_secs(60);

/// Source of credentials that have to be renewed. Equal calls give credentials for the same
/// cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A plugin.
    Plugin(PluginCall),
    /// The agent of the member.
    Agent(AgentCall),
}

impl Call {
    async fn run(&self, is_rejected: bool) -> Result<Given, Failure> {
        let (given, late) = match self {
            Self::Plugin(plugin) => (
                plugin.run().await?,
                "the plugin printed a token that has ended already",
            ),
            Self::Agent(agent) => (
                agent.run(is_rejected).await?,
                "its agent gave a token that has ended already; compare the clocks of both sides",
            ),
        };
        match given.expiry {
            Some(expiry) if expiry <= Timestamp::now() => {
                Err(Failure::new(FailureKind::Other, late))
            }
            _ => Ok(given),
        }
    }

    fn last_retry(&self) -> Duration {
        match self {
            Self::Plugin(_) => LAST_PLUGIN_RETRY,
            Self::Agent(_) => LAST_AGENT_RETRY,
        }
    }
}

/// Renewal of the credentials of one member.
pub struct Renewal {
    /// Member.
    pub member: ClusterName,
    /// Source of its credentials.
    pub call: Call,
    /// Round that every event carries.
    pub round: Round,
    /// Receiver of the credentials.
    pub events: mpsc::Sender<Event>,
    /// Whether the member rejects the last token.
    pub rejected: watch::Receiver<bool>,
    /// Places for calls that run.
    pub places: Arc<Semaphore>,
}

impl Renewal {
    /// Reports credentials, and each renewal of them, until nobody listens or the future is
    /// dropped.
    ///
    /// There is one call for each token: at four fifths of the token's life, or when the member
    /// rejects it. An agent that moves its member is called again no sooner than a minute later.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(FIRST_RETRY, self.call.last_retry());
        let mut target = None;
        loop {
            let outcome = {
                let _place = self.places.acquire().await;
                let is_rejected = *self.rejected.borrow();
                self.call.run(is_rejected).await
            };
            let given = outcome.as_ref().ok();
            let renewal = given.map(|given| due(given, Timestamp::now()));
            let has_moved = given.is_some_and(|given| moves(given, &mut target));
            let event = Event::Credentials {
                name: self.member.clone(),
                round: self.round,
                outcome,
            };
            if self.events.send(event).await.is_err() {
                return;
            }
            if has_moved {
                sleep(PAUSE_ELSEWHERE).await;
            }
            match renewal {
                None => sleep(backoff.pause()).await,
                Some(due) => self.await_renewal(due, &mut backoff).await,
            }
        }
    }

    /// Waits until the token is due, or the member rejects it.
    async fn await_renewal(&mut self, due: Option<Duration>, backoff: &mut Backoff) {
        let end = async {
            match due {
                Some(due) => sleep(due).await,
                None => pending().await,
            }
        };
        let rejected = &mut self.rejected;
        let rejection = async {
            if *rejected.borrow_and_update() {
                // The member rejected the token before. It decides about this one at its next
                // probe.
                let pause = backoff.pause();
                let accepted = timeout(pause, rejected.wait_for(|rejected| !rejected)).await;
                if !matches!(accepted, Ok(Ok(_))) {
                    return;
                }
            }
            backoff.reset();
            // The sender lives as long as this task.
            if rejected.wait_for(|rejected| *rejected).await.is_err() {
                pending().await
            }
        };
        tokio::select! {
            () = end => {}
            () = rejection => {}
        }
    }
}

/// Returns after which time credentials are to be renewed: at about four fifths of their life.
fn due(given: &Given, now: Timestamp) -> Option<Duration> {
    let life = given.expiry?.duration_since(now);
    let life = Duration::try_from(life).unwrap_or_default();
    Some(spread(life.mul_f64(0.75), life.mul_f64(0.85)).max(LEAST_USE))
}

/// Whether credentials come with another target than the last ones. Stores their target.
fn moves(given: &Given, last: &mut Option<Target>) -> bool {
    let Some(target) = &given.target else {
        return false;
    };
    let before = last.replace(target.clone());
    before.is_some_and(|before| before != *target)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::time::{Instant, SystemTime};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use causeway::target::Token;
    use causeway_certs::Authority;

    use super::*;

    #[test]
    fn a_token_is_renewed_at_four_fifths_of_its_life() {
        let now = Timestamp::UNIX_EPOCH;
        let after = |seconds: i64| {
            let expiry = Timestamp::from_second(seconds).expect("a time");
            let token = Token::parse(b"abc").expect("a token");
            let given = Given {
                token,
                expiry: Some(expiry),
                target: None,
            };
            due(&given, now).expect("an end")
        };
        for _ in 0..20 {
            let minute = after(60);
            assert!((45.0..=51.0).contains(&minute.as_secs_f64()), "{minute:?}");
        }
        assert_eq!(after(1), LEAST_USE);
        assert_eq!(after(-5), LEAST_USE);
    }

    #[test]
    fn another_address_or_authority_moves_a_member() {
        let day = Duration::from_secs(24 * 3600);
        let authority = Authority::new("member", day, SystemTime::now()).expect("an authority");
        let authority = STANDARD.encode(authority.pem());
        let front = "http://127.0.0.1:1".parse().expect("a front");
        let mut last = None;
        let mut is_moved = |server: &str| {
            let name = ClusterName::try_from("edge").expect("a name");
            let target = Target::of_agent(name, &front, server, &authority);
            let given = Given {
                token: Token::parse(b"abc").expect("a token"),
                expiry: None,
                target: Some(target.expect("an address")),
            };
            moves(&given, &mut last)
        };
        for (server, expected) in [
            ("https://10.96.0.1:443", false),
            ("https://10.96.0.1:443", false),
            ("https://10.96.0.2:443", true),
            ("https://10.96.0.1:443", true),
            ("https://10.96.0.1:443", false),
        ] {
            assert_eq!(is_moved(server), expected, "{server}");
        }
    }

    struct Run {
        events: mpsc::Receiver<Event>,
        rejected: watch::Sender<bool>,
        _counted: tempfile::TempDir,
        count: std::path::PathBuf,
    }

    /// Runs a plugin that counts its runs and prints that status.
    fn renewing(status: &str) -> Run {
        let counted = tempfile::tempdir().expect("a directory");
        let count = counted.path().join("runs");
        let version = r#""apiVersion":"v1","kind":"ExecCredential""#;
        let text = format!(
            "printf x >> {}; printf '%s' \"{{{}}}\"",
            count.display(),
            format!("{version},\"status\":{status}").replace('"', "\\\"")
        );
        let call = PluginCall {
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), text],
            env: BTreeMap::new(),
            api_version: "v1".to_owned(),
            request: String::new(),
        };
        let (sender, events) = mpsc::channel(8);
        let (rejected, receiver) = watch::channel(false);
        let renewal = Renewal {
            member: ClusterName::try_from("edge").expect("a name"),
            call: Call::Plugin(call),
            round: 1,
            events: sender,
            rejected: receiver,
            places: Arc::new(Semaphore::new(1)),
        };
        tokio::spawn(renewal.run());
        Run {
            events,
            rejected,
            _counted: counted,
            count,
        }
    }

    impl Run {
        async fn next(&mut self) -> Result<Token, Failure> {
            match self.events.recv().await.expect("an event") {
                Event::Credentials { outcome, .. } => outcome.map(|given| given.token),
                other => panic!("{other:?}"),
            }
        }

        fn runs(&self) -> usize {
            fs::read(&self.count).map_or(0, |runs| runs.len())
        }
    }

    #[tokio::test]
    async fn a_rejected_token_is_renewed_at_once_and_an_accepted_one_is_kept() {
        let mut run = renewing(r#"{"token":"abc"}"#);
        assert_eq!(run.next().await, Ok(Token::parse(b"abc").expect("a token")));
        let second = tokio::time::timeout(Duration::from_secs(2), run.next()).await;
        assert!(second.is_err(), "nothing renews what the member accepts");
        assert_eq!(run.runs(), 1);
        let begun = Instant::now();
        run.rejected.send_replace(true);
        assert!(run.next().await.is_ok());
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
        assert!(
            run.next().await.is_ok(),
            "again, for the member rejects it still"
        );
    }

    #[tokio::test]
    async fn a_token_that_has_ended_is_a_failure() {
        let mut run = renewing(r#"{"token":"abc","expirationTimestamp":"2020-01-01T00:00:00Z"}"#);
        let failure = run.next().await.expect_err("it has ended");
        assert!(
            failure.to_string().contains("has ended already"),
            "{failure}"
        );
    }
}
