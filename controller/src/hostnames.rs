//! Looks up the addresses of load balancers that have hostnames.
//!
//! The system's resolver is asked, as it is for API servers. It gives no time to live, so each
//! hostname is looked up again every ten seconds: the records of load balancers live for a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::event::Event;

/// Time between two lookups of the same hostname.
pub const EVERY: Duration = Duration::from_secs(10);

/// Maximum time of a lookup.
const DEADLINE: Duration = Duration::from_secs(5);
/// Number of lookups at one time.
const WIDTH: usize = 8;

/// Looks up the hostnames, and reports good answers as [`Event::Resolved`], until nobody listens.
pub async fn run(hostnames: watch::Receiver<BTreeSet<Box<str>>>, events: mpsc::Sender<Event>) {
    look_up_all(hostnames, events, EVERY, system).await;
}

/// Asks the system's resolver for the addresses of a hostname.
async fn system(host: Box<str>) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((&*host, 0)).await?;
    Ok(found.map(|address| address.ip()).collect())
}

async fn look_up_all<F>(
    mut hostnames: watch::Receiver<BTreeSet<Box<str>>>,
    events: mpsc::Sender<Event>,
    every: Duration,
    look_up: impl Fn(Box<str>) -> F,
) where
    F: Future<Output = io::Result<Vec<IpAddr>>>,
{
    let mut outages = Outages::default();
    loop {
        let all = hostnames.borrow_and_update().clone();
        outages.0.retain(|host, _| all.contains(host));
        let is_idle = all.is_empty();
        let answers = stream::iter(all).map(|host| answer(host, &look_up));
        let mut answers = pin!(answers.buffer_unordered(WIDTH));
        while let Some((host, answer)) = answers.next().await {
            outages.note(&host, answer.as_ref().err(), Instant::now());
            let Ok(addresses) = answer else { continue };
            let resolved = Event::Resolved { host, addresses };
            if events.send(resolved).await.is_err() {
                return tracing::debug!("lookup result dropped, shutting down");
            }
        }
        tokio::select! {
            changed = hostnames.changed() => {
                if changed.is_err() { return }
            }
            () = events.closed() => return,
            () = sleep(every), if !is_idle => {}
        }
    }
}

/// Looks up a hostname once. Returns its addresses, at least one, or the failure.
async fn answer<F>(
    host: Box<str>,
    look_up: impl Fn(Box<str>) -> F,
) -> (Box<str>, Result<Vec<IpAddr>, String>)
where
    F: Future<Output = io::Result<Vec<IpAddr>>>,
{
    let answer = match timeout(DEADLINE, look_up(host.clone())).await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("no address".to_owned()),
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("timeout".to_owned()),
    };
    (host, answer)
}

/// Hostnames whose lookups fail. An outage is logged when it begins and when it ends.
#[derive(Debug, Default)]
struct Outages(BTreeMap<Box<str>, Outage>);

/// Time since which the lookups of a hostname fail, and their number.
#[derive(Debug)]
struct Outage {
    since: Instant,
    failures: u32,
}

/// Begin or end of an outage.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Begins,
    Ends { failures: u32, after: Duration },
}

impl Outages {
    /// Notes the failure of a lookup, or that it did not fail. Logs and returns what changed.
    fn note(&mut self, host: &str, failure: Option<&String>, now: Instant) -> Option<Change> {
        match (failure, self.0.get_mut(host)) {
            (Some(_), Some(outage)) => {
                outage.failures = outage.failures.saturating_add(1);
                None
            }
            (Some(error), None) => {
                let first = Outage {
                    since: now,
                    failures: 1,
                };
                self.0.insert(host.into(), first);
                tracing::warn!(%host, %error, "load balancer hostname lookup failed, last addresses kept");
                Some(Change::Begins)
            }
            (None, _) => {
                let Outage { since, failures } = self.0.remove(host)?;
                let after = now.saturating_duration_since(since);
                tracing::info!(%host, failures, ?after, "load balancer hostname lookup works again");
                Some(Change::Ends { failures, after })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const SOON: Duration = Duration::from_millis(10);

    /// Answers lookups from a list, one after the other; none is left, and they fail.
    struct Answers(Mutex<Vec<io::Result<Vec<IpAddr>>>>);

    impl Answers {
        fn next(&self) -> io::Result<Vec<IpAddr>> {
            let mut left = self.0.lock().expect("no test panics here");
            left.pop()
                .unwrap_or_else(|| Err(io::Error::other("no answer left")))
        }
    }

    fn hosts(names: &[&str]) -> BTreeSet<Box<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[tokio::test]
    async fn good_answers_are_reported_and_failures_repeat_nothing() {
        let (requests, hostnames) = watch::channel(hosts(&["lb.example"]));
        let (events, mut reported) = mpsc::channel(8);
        let [first, second] =
            ["203.0.113.7", "203.0.113.8"].map(|ip| vec![ip.parse().expect("an address")]);
        let answers = vec![
            Ok(second.clone()),
            Err(io::Error::other("SERVFAIL")),
            Ok(Vec::new()),
            Ok(first.clone()),
        ];
        let answers = Answers(Mutex::new(answers));
        let looked_up = look_up_all(hostnames, events, SOON, |_| async { answers.next() });
        let check = async {
            for expected in [first, second] {
                let Some(Event::Resolved { host, addresses }) = reported.recv().await else {
                    panic!("no answer is reported");
                };
                assert_eq!((&*host, addresses), ("lb.example", expected));
            }
            drop(requests);
            drop(reported);
        };
        tokio::join!(looked_up, check);
    }

    #[test]
    fn outage_is_logged_when_it_begins_and_when_it_ends() {
        let mut outages = Outages::default();
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let failure = "SERVFAIL".to_owned();
        let mut note =
            |failure, seconds| outages.note("lb.example", failure, begin + second * seconds);
        assert_eq!(note(None, 0), None);
        assert_eq!(note(Some(&failure), 0), Some(Change::Begins));
        assert_eq!(note(Some(&failure), 10), None);
        assert_eq!(note(Some(&failure), 20), None);
        let end = Change::Ends {
            failures: 3,
            after: second * 30,
        };
        assert_eq!(note(None, 30), Some(end));
        assert_eq!(note(None, 40), None);
    }

    #[tokio::test]
    async fn nothing_is_looked_up_that_nobody_needs() {
        let (requests, hostnames) = watch::channel(hosts(&[]));
        let (events, mut reported) = mpsc::channel(8);
        let one = || Ok(vec![IpAddr::from([203, 0, 113, 7])]);
        let looked_up = look_up_all(hostnames, events, SOON, |_| async move { one() });
        let check = async {
            sleep(SOON * 3).await;
            assert!(reported.try_recv().is_err());
            requests.send_replace(hosts(&["lb.example"]));
            assert!(reported.recv().await.is_some());
            drop(reported);
        };
        tokio::join!(looked_up, check);
    }

    #[tokio::test]
    async fn system_knows_this_machine() {
        let found = system("localhost".into()).await.expect("an answer");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
