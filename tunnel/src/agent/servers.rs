//! The replicas of causeway-tunnel that an agent is connected to, and whether it needs more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::hello::Hello;
use crate::metrics::Metrics;

/// Time after which a connection has stayed: another takes its place at once. After a shorter one
/// the agent pauses.
const STAYED: Duration = Duration::from_secs(30);

/// Replicas that an agent is connected to. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    /// Whether a replica is connected, and its connection is not about to end.
    connected: watch::Sender<bool>,
    metrics: Metrics,
}

#[derive(Debug)]
struct State {
    /// Whether the latest connection to each replica is about to end.
    draining: BTreeMap<String, Arc<AtomicBool>>,
    /// Number of replicas, as the latest introduction reports it.
    replicas: usize,
    /// Connections that were lost since the last dial.
    lost: Lost,
}

/// Connections that were lost since the last dial, or are about to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// Whether one had stayed for [`STAYED`].
    pub(super) has_stayed: bool,
    /// Whether causeway-tunnel or the network ended one before that.
    pub(super) was_short: bool,
}

impl State {
    fn needs_more(&self) -> bool {
        self.staying() < self.replicas
    }

    /// Returns the number of replicas whose connections are not about to end.
    fn staying(&self) -> usize {
        let draining = self.draining.values();
        let staying = draining.filter(|draining| !draining.load(Ordering::Relaxed));
        staying.count()
    }
}

/// A connection to a replica, until it is dropped.
#[derive(Debug)]
pub(super) struct Connected {
    servers: Servers,
    server: String,
    since: Instant,
    is_draining: Arc<AtomicBool>,
}

impl Servers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            // The first introduction reports the number.
            state: Arc::new(Mutex::new(State {
                draining: BTreeMap::new(),
                replicas: 1,
                lost: Lost::default(),
            })),
            changed: Arc::new(Notify::new()),
            connected: watch::Sender::new(false),
            metrics: metrics.clone(),
        }
    }

    /// Records a connection; `None` if the replica is connected already by one that stays.
    pub(super) fn add(&self, hello: &Hello) -> Option<Connected> {
        let mut state = self.state.lock();
        state.replicas = usize::try_from(hello.replicas).unwrap_or(usize::MAX);
        let known = state.draining.get(&hello.server);
        if known.is_some_and(|draining| !draining.load(Ordering::Relaxed)) {
            return None;
        }
        let is_draining = Arc::<AtomicBool>::default();
        state
            .draining
            .insert(hello.server.clone(), is_draining.clone());
        self.metrics.tunnels(state.draining.len());
        self.connected.send_replace(true);
        Some(Connected {
            servers: self.clone(),
            server: hello.server.clone(),
            since: Instant::now(),
            is_draining,
        })
    }

    /// Whether a replica is connected, and its connection is not about to end.
    pub(super) fn is_connected(&self) -> bool {
        *self.connected.borrow()
    }

    /// Returns the connections that were lost since the last call.
    pub(super) fn take_lost(&self) -> Lost {
        std::mem::take(&mut self.state.lock().lost)
    }

    /// Waits until a further replica is to be connected to.
    pub(super) async fn needed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().needs_more() {
                return;
            }
            changed.await;
        }
    }

    /// Waits until a replica is connected by a connection that stays, or until none is.
    pub(super) async fn wait_until(&self, is_connected: bool) {
        let mut connected = self.connected.subscribe();
        // Its sender is this.
        connected.wait_for(|now| *now == is_connected).await.ok();
    }
}

impl Connected {
    /// Records that causeway-tunnel is about to end the connection, so that another takes its
    /// place.
    pub(super) fn drains(&self) {
        self.ends(&mut self.servers.state.lock(), true);
    }

    /// Records that the agent is about to end the connection, so that another takes its place at
    /// once.
    pub(super) fn closes(&self) {
        self.ends(&mut self.servers.state.lock(), false);
    }

    /// Records the end of the connection, and whether it is a loss.
    fn ends(&self, state: &mut State, is_loss: bool) {
        if !self.is_draining.swap(true, Ordering::Relaxed) {
            let has_stayed = self.since.elapsed() >= STAYED;
            state.lost.has_stayed |= has_stayed;
            state.lost.was_short |= is_loss && !has_stayed;
        }
        let connected = &self.servers.connected;
        connected.send_replace(state.staying() > 0);
        self.servers.changed.notify_one();
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut state = self.servers.state.lock();
        // Another connection may have taken its place.
        let latest = state.draining.get(&self.server);
        if latest.is_some_and(|latest| Arc::ptr_eq(latest, &self.is_draining)) {
            state.draining.remove(&self.server);
        }
        self.servers.metrics.tunnels(state.draining.len());
        self.ends(&mut state, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(server: &str, replicas: u32) -> Hello {
        Hello {
            server: server.to_owned(),
            replicas,
            protocol: 1,
        }
    }

    #[test]
    fn each_replica_is_connected_once() {
        let servers = Servers::new(&Metrics::default());
        let needs_more = || servers.state.lock().needs_more();
        assert!(needs_more() && !servers.is_connected());
        let one = servers.add(&hello("tunnel-0", 2)).expect("the first");
        assert!(needs_more() && servers.is_connected());
        assert!(servers.add(&hello("tunnel-0", 2)).is_none());
        let two = servers.add(&hello("tunnel-1", 2)).expect("the second");
        assert!(!needs_more());
        drop(one);
        assert!(needs_more() && servers.is_connected());
        drop(two);
        assert!(!servers.is_connected());
    }

    #[test]
    fn draining_replica_is_replaced_before_it_ends() {
        let servers = Servers::new(&Metrics::default());
        let needs_more = || servers.state.lock().needs_more();
        let one = servers.add(&hello("tunnel-0", 1)).expect("the first");
        assert!(!needs_more());
        one.drains();
        assert!(needs_more());
        let _two = servers.add(&hello("tunnel-1", 1)).expect("its successor");
        assert!(!needs_more());
        drop(one);
        assert!(!needs_more());
    }

    #[test]
    fn agent_is_connected_while_a_connection_stays() {
        let servers = Servers::new(&Metrics::default());
        let one = servers.add(&hello("tunnel-0", 2)).expect("the first");
        let two = servers.add(&hello("tunnel-1", 2)).expect("the second");
        one.drains();
        assert!(servers.is_connected());
        two.drains();
        assert!(!servers.is_connected());
        let next = servers.add(&hello("tunnel-0", 2)).expect("the next");
        drop((one, two));
        assert!(servers.is_connected());
        drop(next);
        assert!(!servers.is_connected());
    }

    #[test]
    fn short_connections_differ_from_those_that_stayed() {
        let servers = Servers::new(&Metrics::default());
        let none = Lost::default();
        let short = Lost {
            was_short: true,
            ..none
        };
        let stayed = Lost {
            has_stayed: true,
            ..none
        };
        let ends: [(fn(Connected), Lost); 3] = [
            (drop, short),
            (|connected| connected.drains(), short),
            (|connected| connected.closes(), none),
        ];
        for (end, of_a_short_one) in ends {
            for (time, expected) in [(Duration::ZERO, of_a_short_one), (STAYED, stayed)] {
                let connected = servers.add(&hello("tunnel-0", 1));
                let mut connected = connected.expect("a connection");
                connected.since -= time;
                end(connected);
                assert_eq!(servers.take_lost(), expected);
            }
        }
        assert_eq!(servers.take_lost(), none);
    }

    #[test]
    fn draining_connection_is_replaced_by_one_to_the_same_replica() {
        let servers = Servers::new(&Metrics::default());
        let needs_more = || servers.state.lock().needs_more();
        let one = servers.add(&hello("tunnel-0", 1)).expect("the first");
        one.drains();
        let two = servers.add(&hello("tunnel-0", 1)).expect("the next");
        assert!(!needs_more());
        assert!(servers.add(&hello("tunnel-0", 1)).is_none());
        one.drains();
        drop(one);
        assert!(!needs_more());
        drop(two);
        assert!(needs_more());
    }
}
