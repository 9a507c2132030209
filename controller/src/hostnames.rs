//! Looks up the addresses of load balancers that have hostnames.
//!
//! The system's resolver is asked, as it is for API servers. It gives no time to live, so each
//! hostname is looked up again every ten seconds: the records of load balancers live for a minute.
//!
//! A hostname with a dot is looked up as an absolute name: a wildcard record in a search domain of
//! the pod would answer first, or for a name that does not exist. `/etc/hosts`, and with it
//! `hostAliases` of the pod, does not apply to it, because it has no absolute names.
//!
//! A member chooses the hostnames of its load balancers, and their DNS servers may answer late or
//! never. Each hostname has its own due time, and those that answer promptly have lookups reserved.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use causeway::process::backoff::Backoff;
use futures::StreamExt as _;
use futures::future::pending;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

use crate::event::Event;

/// Time between two lookups of the same hostname.
pub const EVERY: Duration = Duration::from_secs(10);

/// Maximum time between two lookups of a hostname whose lookups fail.
const LONGEST: Duration = Duration::from_secs(300);
/// Maximum time of a lookup.
const DEADLINE: Duration = Duration::from_secs(5);
/// Maximum time of a prompt answer.
const PROMPT: Duration = Duration::from_secs(1);
/// Number of lookups at one time.
const WIDTH: usize = 32;
/// Number of them for hostnames that were not answered promptly at the last lookup.
const SLOW_WIDTH: usize = 24;

/// Looks up the hostnames, and reports good answers as [`Event::Resolved`], until nobody listens.
pub async fn run(hostnames: watch::Receiver<BTreeSet<Box<str>>>, events: mpsc::Sender<Event>) {
    look_up_all(hostnames, events, EVERY, system).await;
}

/// Asks the system's resolver for the addresses of a hostname.
async fn system(host: Box<str>) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((absolute(&host), 0)).await?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Returns a hostname as an absolute name. A single label stays relative: only `/etc/hosts` and
/// search domains have such names.
fn absolute(host: &str) -> String {
    match host.contains('.') {
        true => format!("{host}."),
        false => host.to_owned(),
    }
}

async fn look_up_all<F>(
    mut hostnames: watch::Receiver<BTreeSet<Box<str>>>,
    events: mpsc::Sender<Event>,
    every: Duration,
    look_up: impl Fn(Box<str>) -> F,
) where
    F: Future<Output = io::Result<Vec<IpAddr>>>,
{
    let mut schedule = Schedule::new(every);
    let mut running = FuturesUnordered::new();
    schedule.follow(&hostnames.borrow_and_update(), Instant::now());
    loop {
        while let Some(lookup) = schedule.start(Instant::now()) {
            running.push(answer(lookup, &look_up));
        }
        tokio::select! {
            changed = hostnames.changed() => {
                if changed.is_err() { return }
                schedule.follow(&hostnames.borrow_and_update(), Instant::now());
            }
            () = events.closed() => return,
            () = until(schedule.next_due()) => {}
            Some((lookup, answer)) = running.next() => {
                if !schedule.end(&lookup, answer.as_ref().err(), Instant::now()) { continue }
                let Ok(addresses) = answer else { continue };
                let resolved = Event::Resolved { host: lookup.host, addresses };
                if events.send(resolved).await.is_err() {
                    return tracing::debug!("lookup result dropped, shutting down");
                }
            }
        }
    }
}

/// Waits until that time; for ever without one.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}

/// Looks up a hostname once. Returns its addresses, at least one, or the failure.
async fn answer<F>(
    lookup: Lookup,
    look_up: impl Fn(Box<str>) -> F,
) -> (Lookup, Result<Vec<IpAddr>, String>)
where
    F: Future<Output = io::Result<Vec<IpAddr>>>,
{
    let answer = match timeout(DEADLINE, look_up(lookup.host.clone())).await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("no address".to_owned()),
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("timeout".to_owned()),
    };
    (lookup, answer)
}

/// Due times of the lookups.
#[derive(Debug)]
struct Schedule {
    every: Duration,
    hosts: BTreeMap<Box<str>, Turn>,
    /// Number of lookups under way.
    running: usize,
    /// Number of those that count as slow.
    slow: usize,
}

/// Turn of a hostname.
#[derive(Debug)]
struct Turn {
    /// Time of the next lookup; none while one is under way.
    due: Option<Instant>,
    /// Whether the last lookup was answered promptly.
    is_prompt: bool,
    /// Pauses after failures.
    backoff: Backoff,
    /// Time of the first failure, if the last lookup failed.
    failing_since: Option<Instant>,
}

/// Lookup under way.
#[derive(Debug)]
struct Lookup {
    host: Box<str>,
    begun: Instant,
    is_prompt: bool,
}

impl Schedule {
    /// Returns an empty schedule. A hostname that is answered is due again after `every`.
    fn new(every: Duration) -> Self {
        Self {
            every,
            hosts: BTreeMap::new(),
            running: 0,
            slow: 0,
        }
    }

    /// Drops the hostnames that are not among `all`, and adds the others. New ones are due.
    fn follow(&mut self, all: &BTreeSet<Box<str>>, now: Instant) {
        self.hosts.retain(|host, _| all.contains(host));
        for host in all {
            self.hosts.entry(host.clone()).or_insert_with(|| Turn {
                due: Some(now),
                is_prompt: false,
                backoff: Backoff::new(self.every, LONGEST),
                failing_since: None,
            });
        }
    }

    /// Begins the lookup that is due for longest, if one is due that may begin.
    fn start(&mut self, now: Instant) -> Option<Lookup> {
        let may_begin = self.may_begin();
        let turns = self.hosts.iter_mut();
        let turns = turns.filter(|(_, turn)| may_begin(turn));
        let due = turns.filter(|(_, turn)| turn.due.is_some_and(|due| due <= now));
        let (host, turn) = due.min_by_key(|(_, turn)| turn.due)?;
        turn.due = None;
        self.running += 1;
        self.slow += usize::from(!turn.is_prompt);
        Some(Lookup {
            host: host.clone(),
            begun: now,
            is_prompt: turn.is_prompt,
        })
    }

    /// Returns the time at which the next lookup may begin, unless another one has to end before.
    fn next_due(&self) -> Option<Instant> {
        let may_begin = self.may_begin();
        let turns = self.hosts.values().filter(|turn| may_begin(turn));
        turns.filter_map(|turn| turn.due).min()
    }

    /// Returns whether a lookup of such a hostname may begin beside those that are under way.
    fn may_begin(&self) -> impl Fn(&Turn) -> bool + use<> {
        let (any, slow) = (self.running < WIDTH, self.slow < SLOW_WIDTH);
        move |turn| any && (slow || turn.is_prompt)
    }

    /// Notes the end of a lookup. Returns whether the hostname is still looked up. Logs the
    /// beginning and the end of an outage.
    fn end(&mut self, lookup: &Lookup, failure: Option<&String>, now: Instant) -> bool {
        self.running -= 1;
        self.slow -= usize::from(!lookup.is_prompt);
        let host = &lookup.host;
        let Some(turn) = self.hosts.get_mut(host) else {
            return false;
        };
        let took = now.saturating_duration_since(lookup.begun);
        turn.is_prompt = failure.is_none() && took <= PROMPT;
        let pause = match failure {
            Some(error) => {
                if turn.failing_since.is_none() {
                    tracing::warn!(%host, %error, "load balancer hostname lookup failed, last addresses kept");
                    turn.failing_since = Some(now);
                }
                turn.backoff.pause()
            }
            None => {
                if let Some(since) = turn.failing_since.take() {
                    let failures = turn.backoff.attempts();
                    let after = now.saturating_duration_since(since);
                    tracing::info!(%host, failures, ?after, "load balancer hostname lookup works again");
                }
                turn.backoff.reset();
                self.every
            }
        };
        turn.due = Some(now + pause);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use tokio::time::sleep;
    use tracing::Level;

    use super::*;
    use crate::watch::tests::Logged;

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
        let logged = Arc::<AtomicUsize>::default();
        let _guard = tracing::subscriber::set_default(Logged(Level::INFO, logged.clone()));
        let (mut now, error) = (Instant::now(), "SERVFAIL".to_owned());
        let mut schedule = schedule(1, now);
        let mut since = None;
        for (failures, lines) in [(0, 0), (1, 1), (2, 1), (3, 1), (0, 2), (0, 2), (1, 3)] {
            let lookup = schedule.start(now).expect("it is due");
            assert!(schedule.end(&lookup, (failures > 0).then_some(&error), now));
            since = (failures > 0).then(|| since.unwrap_or(now));
            let turn = &schedule.hosts[&lookup.host];
            let outage = (turn.failing_since, turn.backoff.attempts());
            assert_eq!(outage, (since, failures));
            assert_eq!(logged.load(Ordering::Relaxed), lines);
            now = schedule.next_due().expect("it is looked up again");
        }
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

    /// Returns a schedule with that many hostnames.
    fn schedule(count: usize, now: Instant) -> Schedule {
        let names = (0..count).map(|number| Box::<str>::from(format!("lb{number}.example")));
        let names: BTreeSet<_> = names.collect();
        let mut schedule = Schedule::new(EVERY);
        schedule.follow(&names, now);
        schedule
    }

    #[test]
    fn hostnames_without_an_answer_leave_lookups_to_prompt_ones() {
        let begin = Instant::now();
        let mut schedule = schedule(100, begin);
        let first = schedule.start(begin).expect("a lookup is due");
        assert!(schedule.end(&first, None, begin));
        let dead = std::iter::from_fn(|| schedule.start(begin));
        assert_eq!(dead.count(), SLOW_WIDTH);
        assert_eq!(schedule.next_due(), Some(begin + EVERY));
        let again = schedule.start(begin + EVERY).expect("it is due again");
        assert_eq!(again.host, first.host);
        assert!(schedule.start(begin + EVERY).is_none());
        assert_eq!(schedule.next_due(), None);
    }

    #[test]
    fn late_answer_is_not_prompt() {
        let begin = Instant::now();
        let mut schedule = schedule(1, begin);
        for (took, is_prompt) in [(PROMPT, true), (DEADLINE, false)] {
            let due = schedule.next_due().expect("it is due");
            let lookup = schedule.start(due).expect("it may begin");
            assert!(schedule.end(&lookup, None, due + took));
            assert_eq!(schedule.next_due(), Some(due + took + EVERY));
            let mut turns = schedule.hosts.values();
            assert!(turns.all(|turn| turn.is_prompt == is_prompt));
        }
    }

    #[test]
    fn pause_after_failures_grows_to_five_minutes() {
        let mut now = Instant::now();
        let mut schedule = schedule(1, now);
        let failure = "SERVFAIL".to_owned();
        for most in [10, 20, 40, 80, 160, 300, 300] {
            let lookup = schedule.start(now).expect("it is due");
            assert!(schedule.end(&lookup, Some(&failure), now));
            let due = schedule.next_due().expect("it is looked up again");
            let most = Duration::from_secs(most);
            assert!((most / 2..=most).contains(&(due - now)), "{most:?}");
            now = due;
        }
        let lookup = schedule.start(now).expect("it is due");
        schedule.follow(&BTreeSet::new(), now);
        assert!(!schedule.end(&lookup, None, now));
        assert_eq!((schedule.running, schedule.slow), (0, 0));
    }

    #[test]
    fn search_domains_answer_for_no_name_with_a_dot() {
        for (host, looked_up) in [
            ("lb.example", "lb.example."),
            ("a.b.c.d.lb.example", "a.b.c.d.lb.example."),
            ("localhost", "localhost"),
        ] {
            assert_eq!(absolute(host), looked_up);
        }
    }

    #[tokio::test]
    async fn system_knows_this_machine() {
        let found = system("localhost".into()).await.expect("an answer");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
