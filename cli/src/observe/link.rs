//! State of the watches of one cluster.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// State of the connection to a cluster. The page parses the serialized form: names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectionRow {
    pub connected: bool,
    /// Time at which the connection ended. Absent while connected and before the first attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected_since: Option<Timestamp>,
    /// Error that ended the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected_why: Option<String>,
}

/// Watched kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    MultiClusterService,
    Service,
    Cluster,
    Work,
    Namespace,
    EndpointSlice,
    ServiceExport,
    ServiceImport,
    Node,
    DnsEndpoint,
    /// MultiClusterService of any namespace, which may request a name in DNS.
    NameRequest,
}

/// State of the watches of one cluster. The cluster is connected once every list is complete.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Kinds with an incomplete list. `None` without a connection.
    listed: Option<BTreeSet<Kind>>,
    row: ConnectionRow,
    tried: bool,
}

impl Link {
    /// Begins a connection that lists `kinds`.
    pub(crate) fn begin(&mut self, kinds: &[Kind]) {
        self.listed = Some(kinds.iter().copied().collect());
    }

    /// Records that the list of a kind is complete or not required. Returns true if the cluster
    /// becomes connected.
    pub(crate) fn listed(&mut self, kind: Kind) -> bool {
        let Some(awaited) = &mut self.listed else {
            return false;
        };
        let was_connected = self.row.connected;
        awaited.remove(&kind);
        if awaited.is_empty() {
            self.tried = true;
            self.row = ConnectionRow {
                connected: true,
                ..ConnectionRow::default()
            };
        }
        self.row.connected && !was_connected
    }

    /// Records the end of a connection or of an attempt. Returns true if the row changed.
    pub(crate) fn end(&mut self, why: String, now: Timestamp) -> bool {
        self.listed = None;
        self.tried = true;
        let row = ConnectionRow {
            connected: false,
            disconnected_since: self.row.disconnected_since.or(Some(now)),
            disconnected_why: Some(why),
        };
        let is_news = row != self.row;
        self.row = row;
        is_news
    }

    pub(crate) fn row(&self) -> &ConnectionRow {
        &self.row
    }

    /// Whether a connection was complete or failed at least once. The cluster is unknown before.
    pub(crate) fn is_tried(&self) -> bool {
        self.tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_is_connected_once_all_kinds_are_listed() {
        let times = ["2026-11-23T00:00:00Z", "2026-11-23T00:00:05Z"];
        let [first, second] = times.map(|time| time.parse().expect("a time"));
        let mut connection = Link::default();
        assert!(!connection.is_tried());
        connection.begin(&[Kind::Service, Kind::EndpointSlice]);
        assert!(!connection.listed(Kind::Service));
        assert!(connection.listed(Kind::EndpointSlice));
        assert!(!connection.listed(Kind::EndpointSlice), "listed again");
        assert!(connection.end("refused".to_owned(), first));
        assert!(!connection.end("refused".to_owned(), second));
        assert!(connection.end("no answer".to_owned(), second));
        assert_eq!(connection.row().disconnected_since, Some(first));
        connection.begin(&[Kind::Service]);
        assert!(!connection.row().connected, "nothing is listed yet");
        assert!(connection.listed(Kind::Service));
        assert_eq!(connection.row().disconnected_since, None);
    }
}
