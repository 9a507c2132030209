//! Number of requests that an API server answered, by its own metrics.

use std::collections::BTreeMap;

use crate::Cluster;
use crate::metrics::Metrics;

const METRIC: &str = "apiserver_request_total{";
const WRITES: [&str; 6] = [
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
];

/// Kind of requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// POST, PUT, PATCH, APPLY (server-side), DELETE, DELETECOLLECTION, GET, LIST, WATCH, ...
    pub verb: String,
    /// For instance `endpointslices`.
    pub resource: String,
    /// For instance `status`; empty without one.
    pub subresource: String,
}

/// Requests by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts(BTreeMap<Kind, u64>);

impl RequestCounts {
    /// The requests that came since `earlier`; kinds without any are left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.0.iter().map(|(kind, count)| {
            let before = earlier.0.get(kind).copied().unwrap_or_default();
            (kind.clone(), count.saturating_sub(before))
        });
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }

    /// Only requests that write.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.only(|kind| WRITES.contains(&kind.verb.as_str()))
    }

    /// Only requests of this verb.
    #[must_use]
    pub fn with(&self, verb: &str) -> Self {
        self.only(|kind| kind.verb == verb)
    }

    /// Only requests for this resource.
    #[must_use]
    pub fn of(&self, resource: &str) -> Self {
        self.only(|kind| kind.resource == resource)
    }

    /// Only requests for other resources than this.
    #[must_use]
    pub fn without(&self, resource: &str) -> Self {
        self.only(|kind| kind.resource != resource)
    }

    /// Returns the sum of all kinds.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    fn only(&self, wanted: impl Fn(&Kind) -> bool) -> Self {
        let wanted = self.0.iter().filter(|(kind, _)| wanted(kind));
        Self(wanted.map(|(kind, count)| (kind.clone(), *count)).collect())
    }

    fn parse(metrics: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            let Some((labels, count)) = line
                .strip_prefix(METRIC)
                .and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let label = |name: &str| {
                let start = format!("{name}=\"");
                let value = labels
                    .split(',')
                    .find_map(|label| label.strip_prefix(&start));
                value.unwrap_or_default().trim_end_matches('"').to_owned()
            };
            let kind = Kind {
                verb: label("verb"),
                resource: label("resource"),
                subresource: label("subresource"),
            };
            let count: f64 = count.trim().parse().expect("a count in the metrics");
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a counter of whole requests"
            )]
            let count = count as u64;
            *counts.entry(kind).or_default() += count;
        }
        Self(counts)
    }
}

impl Cluster {
    /// All requests that the API server answered so far: `apiserver_request_total`.
    pub async fn request_counts(&self) -> RequestCounts {
        RequestCounts::parse(&self.metrics().await)
    }

    /// Returns the number of open requests that last, such as watches, with these labels of
    /// `apiserver_longrunning_requests`.
    pub async fn lasting_requests(&self, labels: &[(&str, &str)]) -> f64 {
        let metrics = Metrics::parse(&self.metrics().await);
        let requests = metrics.get("apiserver_longrunning_requests", labels);
        requests.unwrap_or_default()
    }

    async fn metrics(&self) -> String {
        let request = http::Request::get("/metrics")
            .body(Vec::new())
            .expect("a request");
        let metrics = self.client().request_text(request).await;
        metrics.expect("the metrics of an API server")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# HELP apiserver_request_total Counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="discovery.k8s.io",resource="endpointslices",scope="resource",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="",group="discovery.k8s.io",resource="endpointslices",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 1.2e+02
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 7
"#;

    #[test]
    fn requests_are_counted_by_kind_over_all_codes() {
        let counts = RequestCounts::parse(METRICS);
        assert_eq!(counts.of("endpointslices").total(), 4);
        assert_eq!(counts.of("pods").total(), 127);
        assert_eq!(counts.with("LIST").total(), 120);
        assert_eq!(counts.of("pods").writes().total(), 7);
        assert_eq!(counts.writes().without("pods").total(), 4);
    }

    #[test]
    fn what_came_since_leaves_out_what_was_before() {
        let before = RequestCounts::parse(METRICS);
        let after = RequestCounts::parse(&METRICS.replace("} 7", "} 9"));
        let since = after.since(&before);
        assert_eq!(since, since.of("pods").writes());
        assert_eq!(since.total(), 2);
    }
}
