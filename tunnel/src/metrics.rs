//! Metrics of both programs.

use causeway::domain::ClusterName;
use causeway::process::metrics::{ComputedGauge, Labels};
use causeway::register_metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of a program. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    agents: Family<[(&'static str, String); 1], Gauge>,
    tunnels: Gauge,
    streams: Gauge,
    streams_failed: Family<Labels<1>, Counter>,
    connections_failed: Family<Labels<1>, Counter>,
    sent_bytes: Counter,
    received_bytes: Counter,
    certificate_expiry: Gauge,
    clients_refused: Family<Labels<1>, Counter>,
    enrolments: Family<Labels<1>, Counter>,
    front_certificate_expiry: Gauge,
    paths: Family<Labels<1>, Gauge>,
    probes: Family<Labels<1>, Counter>,
    copies_changed: Family<Labels<1>, Counter>,
}

impl Metrics {
    /// Registers the metrics of causeway-tunnel. The bytes held, and the ends of the certificates
    /// of agents that do not renew them and of those that do, are computed when they are read.
    pub fn register_tunnel(
        &self,
        registry: &mut Registry,
        [held, issued, enrolled]: [ComputedGauge; 3],
    ) {
        let metrics = self;
        register_metrics! { registry;
            "causeway_tunnel_agents": "Connections of agents, by cluster", metrics.agents.clone();
            "causeway_tunnel_streams": "Open streams to members", metrics.streams.clone();
            "causeway_tunnel_streams_failed": "Streams refused or reset, by reason",
                metrics.streams_failed.clone();
            "causeway_tunnel_connections_failed":
                "Connections of agents refused or lost, by reason",
                metrics.connections_failed.clone();
            "causeway_tunnel_sent_bytes": "Bytes passed on to members",
                metrics.sent_bytes.clone();
            "causeway_tunnel_received_bytes": "Bytes passed on from members",
                metrics.received_bytes.clone();
            "causeway_tunnel_held_bytes":
                "Bytes held for slow receivers, without the allowance of each stream", held;
            "causeway_tunnel_certificate_expiry_timestamp_seconds":
                "Expiry of the certificate for agents, in Unix time",
                metrics.certificate_expiry.clone();
            "causeway_tunnel_agent_certificate_expiry_timestamp_seconds":
                "Expiry of the certificate of a connected agent that does not renew it, the first \
                 to expire, in Unix time",
                issued;
            "causeway_tunnel_enrolled_agent_certificate_expiry_timestamp_seconds":
                "Expiry of the certificate of a connected agent that renews it, the first to \
                 expire, in Unix time",
                enrolled;
            "causeway_tunnel_clients_refused":
                "Clients of the authenticated front refused, by reason",
                metrics.clients_refused.clone();
            "causeway_tunnel_enrolments":
                "Requests of agents for a certificate, by outcome", metrics.enrolments.clone();
            "causeway_tunnel_front_certificate_expiry_timestamp_seconds":
                "Expiry of the certificate of the authenticated front, in Unix time",
                metrics.front_certificate_expiry.clone();
        }
    }

    /// Registers the metrics of causeway-agent.
    pub fn register_agent(&self, registry: &mut Registry) {
        let metrics = self;
        register_metrics! { registry;
            "causeway_agent_tunnels": "Connections to replicas of causeway-tunnel",
                metrics.tunnels.clone();
            "causeway_agent_streams": "Open streams to the API server", metrics.streams.clone();
            "causeway_agent_streams_failed": "Streams refused or reset, by reason",
                metrics.streams_failed.clone();
            "causeway_agent_connections_failed":
                "Connections to causeway-tunnel that failed or were lost, by reason",
                metrics.connections_failed.clone();
            "causeway_agent_sent_bytes": "Bytes passed on to the hub", metrics.sent_bytes.clone();
            "causeway_agent_received_bytes": "Bytes passed on from the hub",
                metrics.received_bytes.clone();
            "causeway_agent_certificate_expiry_timestamp_seconds":
                "Expiry of the agent's certificate, in Unix time",
                metrics.certificate_expiry.clone();
            "causeway_agent_enrolments":
                "Requests for a certificate of causeway-tunnel, by outcome",
                metrics.enrolments.clone();
            "causeway_agent_paths": "Clusters whose endpoints are probed, by path",
                metrics.paths.clone();
            "causeway_agent_probes": "Connections to endpoints of other clusters, by outcome",
                metrics.probes.clone();
            "causeway_agent_copies_changed":
                "Copies whose endpoints were made standby or ready, or deleted, because no hub answered, by role",
                metrics.copies_changed.clone();
        }
    }

    pub(crate) fn agents_of(&self, name: &ClusterName, connections: usize) {
        let labels = [("cluster", name.to_string())];
        let connections = i64::try_from(connections).unwrap_or(i64::MAX);
        self.agents.get_or_create(&labels).set(connections);
    }

    pub(crate) fn agent_forgotten(&self, name: &ClusterName) {
        self.agents.remove(&[("cluster", name.to_string())]);
    }

    pub(crate) fn tunnels(&self, connections: usize) {
        self.tunnels
            .set(i64::try_from(connections).unwrap_or(i64::MAX));
    }

    pub(crate) fn connection_failed(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.connections_failed.get_or_create(&labels).inc();
    }

    pub(crate) fn stream_failed(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.streams_failed.get_or_create(&labels).inc();
    }

    pub(crate) fn client_refused(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.clients_refused.get_or_create(&labels).inc();
    }

    pub(crate) fn enrolment(&self, outcome: &'static str) {
        let labels = [("outcome", outcome)];
        self.enrolments.get_or_create(&labels).inc();
    }

    /// Records the end of the front's certificate, in seconds of Unix time.
    pub(crate) fn front_certificate_ends(&self, at: i64) {
        self.front_certificate_expiry.set(at);
    }

    /// Counts a stream as open until the guard is dropped.
    pub(crate) fn stream(&self) -> OpenStream {
        self.streams.inc();
        OpenStream(self.streams.clone())
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes
            .inc_by(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes
            .inc_by(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Records how many paths are good, bad and unknown.
    pub(crate) fn paths(&self, good: usize, bad: usize, unknown: usize) {
        for (path, count) in [("good", good), ("bad", bad), ("unknown", unknown)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.paths.get_or_create(&[("path", path)]).set(count);
        }
    }

    pub(crate) fn probed(&self, has_answered: bool) {
        let outcome = if has_answered { "answered" } else { "failed" };
        self.probes.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn changed_copy(&self, role: &'static str) {
        self.copies_changed.get_or_create(&[("role", role)]).inc();
    }

    /// Records the end of the certificate's validity, in seconds of Unix time.
    pub(crate) fn certificate_ends(&self, at: i64) {
        self.certificate_expiry.set(at);
    }
}

/// Guard of an open stream.
#[derive(Debug)]
pub(crate) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
