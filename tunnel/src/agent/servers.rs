//! The replicas of causeway-tunnel that an agent is connected to, and whether it needs more.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::hello::Hello;
use crate::metrics::Metrics;

/// Replicas that an agent is connected to. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    connected: watch::Sender<bool>,
    metrics: Metrics,
}

#[derive(Debug)]
struct State {
    /// The latest connection to each replica.
    connections: BTreeMap<String, Entry>,
    /// Number of the next connection.
    next: u64,
    /// Number of replicas, as the latest introduction reports it.
    replicas: usize,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// Whether the connection is about to end.
    is_draining: bool,
}

impl State {
    fn needs_more(&self) -> bool {
        let staying = self.connections.values().filter(|one| !one.is_draining);
        staying.count() < self.replicas
    }
}

/// A connection to a replica, until it is dropped.
#[derive(Debug)]
pub(super) struct Connected {
    servers: Servers,
    server: String,
    number: u64,
}

impl Servers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            // The first introduction reports the number.
            state: Arc::new(Mutex::new(State {
                connections: BTreeMap::new(),
                next: 0,
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
        let known = state.connections.get(&hello.server);
        if known.is_some_and(|one| !one.is_draining) {
            return None;
        }
        let number = state.next;
        state.next += 1;
        let entry = Entry {
            number,
            is_draining: false,
        };
        state.connections.insert(hello.server.clone(), entry);
        self.metrics.tunnels(state.connections.len());
        self.connected.send_replace(true);
        Some(Connected {
            servers: self.clone(),
            server: hello.server.clone(),
            number,
        })
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

    /// Waits until a replica is connected.
    pub(super) async fn first(&self) {
        let mut connected = self.connected.subscribe();
        // Its sender is this.
        connected.wait_for(|connected| *connected).await.ok();
    }
}

impl Connected {
    /// Records that the connection is about to end, so that another takes its place.
    pub(super) fn drains(&self) {
        let mut state = self.servers.state.lock();
        if let Some(own) = self.own(&mut state) {
            own.is_draining = true;
        }
        self.servers.changed.notify_one();
    }

    /// Returns the entry of this connection, unless another took its place.
    fn own<'a>(&self, state: &'a mut State) -> Option<&'a mut Entry> {
        let entry = state.connections.get_mut(&self.server)?;
        (entry.number == self.number).then_some(entry)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut state = self.servers.state.lock();
        if self.own(&mut state).is_some() {
            state.connections.remove(&self.server);
        }
        self.servers.metrics.tunnels(state.connections.len());
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
        assert!(needs_more());
        let one = servers.add(&hello("tunnel-0", 2)).expect("the first");
        assert!(needs_more());
        assert!(servers.add(&hello("tunnel-0", 2)).is_none());
        let _two = servers.add(&hello("tunnel-1", 2)).expect("the second");
        assert!(!needs_more());
        drop(one);
        assert!(needs_more());
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
