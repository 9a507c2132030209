//! The replicas of causeway-tunnel that an agent is connected to, and whether it needs more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::hello::Hello;
use crate::metrics::Metrics;

/// Replicas that an agent is connected to. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    /// Whether a replica is connected.
    connected: watch::Sender<bool>,
    metrics: Metrics,
}

#[derive(Debug)]
struct State {
    /// Whether the latest connection to each replica is about to end.
    draining: BTreeMap<String, Arc<AtomicBool>>,
    /// Number of replicas, as the latest introduction reports it.
    replicas: usize,
}

impl State {
    fn needs_more(&self) -> bool {
        let draining = self.draining.values();
        let staying = draining.filter(|draining| !draining.load(Ordering::Relaxed));
        staying.count() < self.replicas
    }
}

/// A connection to a replica, until it is dropped.
#[derive(Debug)]
pub(super) struct Connected {
    servers: Servers,
    server: String,
    is_draining: Arc<AtomicBool>,
}

impl Servers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            // The first introduction reports the number.
            state: Arc::new(Mutex::new(State {
                draining: BTreeMap::new(),
                replicas: 1,
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
            is_draining,
        })
    }

    /// Whether a replica is connected.
    pub(super) fn is_connected(&self) -> bool {
        *self.connected.borrow()
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

    /// Waits until a replica is connected, or until none is.
    pub(super) async fn wait_until(&self, is_connected: bool) {
        let mut connected = self.connected.subscribe();
        // Its sender is this.
        connected.wait_for(|now| *now == is_connected).await.ok();
    }
}

impl Connected {
    /// Records that the connection is about to end, so that another takes its place.
    pub(super) fn drains(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
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
        self.servers
            .connected
            .send_replace(!state.draining.is_empty());
        self.servers.changed.notify_one();
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
