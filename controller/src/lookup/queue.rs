//! LookupQueue of MultiClusterServices on the hub. What a member holds decides how many are wanted,
//! so a member must not decide how many requests the hub gets: they are made [`WIDTH`] at a time,
//! members take turns, and an answer is remembered.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

use causeway::domain::{ClusterName, ServiceKey};

/// LookupQueue under way at one time.
const WIDTH: usize = 8;
/// For how long after a result the same is not looked up again.
pub const REMEMBERED: Duration = Duration::from_secs(30);

/// The lookups that wait, are under way, or were answered lately.
#[derive(Debug, Default)]
pub struct LookupQueue {
    /// By the member that is the reason.
    waiting: BTreeMap<ClusterName, VecDeque<ServiceKey>>,
    /// Member whose service was looked up last.
    last: Option<ClusterName>,
    under_way: HashSet<ServiceKey>,
    /// Services that wait or are under way.
    wanted: HashSet<ServiceKey>,
    not_before: HashMap<ServiceKey, Instant>,
    /// Entries of `not_before`, about in the order in which they end.
    remembered: VecDeque<(Instant, ServiceKey)>,
}

impl LookupQueue {
    /// Wants a lookup because these members hold something of the service: it waits in the shortest
    /// of their queues. When to want it again, where it was answered lately.
    pub fn want<'a>(
        &mut self,
        key: &ServiceKey,
        holders: impl Iterator<Item = &'a ClusterName>,
        now: Instant,
    ) -> Option<Instant> {
        if self.wanted.contains(key) {
            return None;
        }
        if let Some(at) = self.not_before.get(key).filter(|at| **at > now) {
            return Some(*at);
        }
        let length = |name: &&ClusterName| self.waiting.get(*name).map_or(0, VecDeque::len);
        let shortest = holders.min_by_key(length)?.clone();
        let queue = self.waiting.entry(shortest).or_default();
        queue.push_back(key.clone());
        self.wanted.insert(key.clone());
        None
    }

    /// The next that may be under way, of those that `matter` still.
    pub fn begin(&mut self, matters: impl Fn(&ServiceKey) -> bool) -> Option<ServiceKey> {
        while self.under_way.len() < WIDTH {
            let key = self.next()?;
            if matters(&key) {
                self.under_way.insert(key.clone());
                return Some(key);
            }
            self.wanted.remove(&key);
        }
        None
    }

    /// A lookup was answered, or failed: it is not begun again for so long.
    pub fn answered(&mut self, key: &ServiceKey, pause: Duration, now: Instant) {
        self.under_way.remove(key);
        self.wanted.remove(key);
        while let Some((end, _)) = self.remembered.front()
            && *end <= now
            && let Some((end, old)) = self.remembered.pop_front()
        {
            if self.not_before.get(&old) == Some(&end) {
                self.not_before.remove(&old);
            }
        }
        self.not_before.insert(key.clone(), now + pause);
        self.remembered.push_back((now + pause, key.clone()));
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.wanted.clone_from(&self.under_way);
    }

    /// The first of the member whose turn it is.
    fn next(&mut self) -> Option<ServiceKey> {
        let after = self.last.take();
        let after = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self
            .waiting
            .range::<ClusterName, _>((after, Bound::Unbounded));
        let turn = later.next().or_else(|| self.waiting.first_key_value());
        let name = turn.map(|(name, _)| name.clone())?;
        let queue = self.waiting.get_mut(&name)?;
        let key = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&name);
        }
        self.last = Some(name);
        key
    }
}

#[cfg(test)]
mod tests {
    use kube::Client;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::event::Event;
    use crate::lookup::multi_cluster_service;
    use crate::watch::tests::http::{self, PATIENCE, Received};

    fn key(name: &str) -> ServiceKey {
        ServiceKey::new("shop", name)
    }

    fn name(text: &str) -> ClusterName {
        ClusterName::try_from(text).expect("a name")
    }

    /// A request that comes, and the service that it is about.
    async fn request(requests: &mut mpsc::Receiver<Received>) -> (String, Received) {
        let asked = timeout(PATIENCE, requests.recv()).await;
        let asked = asked.expect("in time").expect("a request");
        let service = asked.path.rsplit('/').next().unwrap_or_default();
        (service.to_owned(), asked)
    }

    struct Bench {
        hub: Client,
        events: mpsc::Sender<Event>,
        lookups: LookupQueue,
        requests: mpsc::Receiver<Received>,
        answers: mpsc::Receiver<Event>,
        open: VecDeque<(String, Received)>,
        now: Instant,
    }

    async fn bench() -> Bench {
        let (hub, requests, _) = http::listen().await;
        let (events, answers) = mpsc::channel(256);
        Bench {
            hub,
            events,
            lookups: LookupQueue::default(),
            requests,
            answers,
            open: VecDeque::new(),
            now: Instant::now(),
        }
    }

    impl Bench {
        fn want(&mut self, service: &str, member: &str) -> Option<Instant> {
            let holders = [name(member)];
            let again = self.lookups.want(&key(service), holders.iter(), self.now);
            self.begin();
            again
        }

        fn begin(&mut self) {
            while let Some(key) = self.lookups.begin(|_| true) {
                let (hub, events) = (self.hub.clone(), self.events.clone());
                tokio::spawn(multi_cluster_service(hub, key, events));
            }
        }

        /// Takes all requests that may be under way.
        async fn fill(&mut self) {
            while self.open.len() < self.lookups.under_way.len() {
                self.open.push_back(request(&mut self.requests).await);
            }
        }

        /// Says of the oldest request that nothing is there; which service it was about.
        async fn answer(&mut self) -> String {
            let (service, asked) = self.open.pop_front().expect("a request");
            asked.not_found(&service).await;
            let event = timeout(PATIENCE, self.answers.recv())
                .await
                .expect("in time");
            let Some(Event::LookedUp { key, exists }) = event else {
                panic!("{event:?}");
            };
            assert_eq!((&*key.name, exists), (&*service, Ok(false)));
            self.lookups.answered(&key, REMEMBERED, self.now);
            self.begin();
            service
        }
    }

    #[tokio::test]
    async fn lookups_are_few_at_a_time_and_never_repeated() {
        let mut bench = bench().await;
        for _ in 0..3 {
            for number in 0..100 {
                assert_eq!(bench.want(&format!("s{number}"), "member1"), None);
            }
        }
        bench.fill().await;
        let more = timeout(Duration::from_millis(300), bench.requests.recv()).await;
        assert!(more.is_err(), "more than {WIDTH} at a time");
        let mut seen = HashSet::new();
        while !bench.open.is_empty() {
            assert!(bench.open.len() <= WIDTH);
            assert!(seen.insert(bench.answer().await), "{seen:?}");
            bench.fill().await;
        }
        assert_eq!(seen.len(), 100);
        assert!(bench.requests.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_member_that_wants_much_keeps_no_other_waiting() {
        let mut bench = bench().await;
        for number in 0..100 {
            bench.want(&format!("s{number}"), "member1");
        }
        bench.want("mine", "member2");
        bench.fill().await;
        assert!(!bench.open.iter().any(|(service, _)| service == "mine"));
        for _ in 0..2 {
            bench.answer().await;
            bench.fill().await;
        }
        assert!(bench.open.iter().any(|(service, _)| service == "mine"));
    }

    #[tokio::test]
    async fn lookup_waits_with_its_least_busy_member() {
        let mut bench = bench().await;
        for number in 0..100 {
            bench.want(&format!("s{number}"), "member1");
        }
        let holders = [name("member1"), name("member2")];
        bench.lookups.want(&key("both"), holders.iter(), bench.now);
        assert_eq!(bench.lookups.waiting[&name("member2")], [key("both")]);
    }

    #[tokio::test]
    async fn answers_expire_and_obsolete_lookups_are_dropped() {
        let mut bench = bench().await;
        bench.want("foo", "member1");
        bench.fill().await;
        bench.answer().await;
        let end = bench.now + REMEMBERED;
        assert_eq!(bench.want("foo", "member1"), Some(end));
        assert!(bench.lookups.under_way.is_empty());
        bench.now = end;
        let holders = [name("member1")];
        let again = bench.lookups.want(&key("foo"), holders.iter(), bench.now);
        assert_eq!((again, bench.lookups.begin(|_| false)), (None, None));
        assert_eq!(bench.want("foo", "member1"), None);
        bench.fill().await;
        bench.answer().await;
        bench.now += REMEMBERED;
        bench.lookups.answered(&key("bar"), REMEMBERED, bench.now);
        assert_eq!(bench.lookups.not_before.len(), 1);
    }
}
