//! Leading controller, and the difference between two scrapes of its metrics.

use std::collections::BTreeMap;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::metrics::Samples;
use crate::admin_endpoint::{self, AdminEndpoint, AdminError};
use crate::api_server::{ApiServer, RequestError};
use crate::args::TopArgs;

const LEADER: &str = "causeway_controller_leader";
const WRITES: &str = "causeway_controller_writes_total";
const RETRIES: &str = "causeway_controller_retries_total";
const QUEUE: &str = "causeway_controller_queue_keys";
const OLDEST: &str = "causeway_controller_queue_oldest_seconds";
const PROPAGATION: &str = "causeway_controller_propagation_seconds";
const STATE: &str = "causeway_controller_member_state";
const LAST_EVENT: &str = "causeway_controller_member_last_event_timestamp_seconds";

/// Reason that the controller's metrics are unavailable.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScrapeError {
    #[error("the metrics of the controller are not read: {0}")]
    Admin(#[from] AdminError),
    #[error(
        "the metrics of the controller are not read: you may not list pods in namespace {namespace} of the hub ({message}); give --admin-url \
         with its --admin-bind"
    )]
    Pods { namespace: String, message: String },
    #[error("the metrics of the controller are not read: {0}")]
    Request(RequestError),
    #[error(
        "the metrics of the controller are not read: there is no pod of causeway-controller in namespace {0} of the hub; if it runs elsewhere, \
         give --admin-url http://HOST:8081 with its --admin-bind, else see kubectl mcs check"
    )]
    NoPod(String),
    #[error("no controller leads, of {0}; see kubectl mcs check")]
    NoLeader(String),
}

/// Leading controller with its first scrape.
pub(super) struct Controller {
    endpoint: AdminEndpoint,
    first: Samples,
    at: std::time::Instant,
}

/// Rates from the metrics of a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ControllerRates {
    /// Name of the pod, or the admin address.
    pub name: String,
    pub writes_per_second: f64,
    pub failed_writes_per_second: f64,
    pub retries_per_second: f64,
    /// Number of queued services.
    pub queue_keys: f64,
    /// Age in seconds of the oldest queued service.
    pub queue_oldest_seconds: f64,
    /// Changes that reached their last consumer.
    pub propagated_per_second: f64,
    /// Median and 99th percentile of the time until a change reached its last consumer. Absent
    /// without such changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_p50_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_p99_seconds: Option<f64>,
    #[serde(skip)]
    pub members: BTreeMap<String, MemberRates>,
}

/// Rates of a member or of the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MemberRates {
    /// `synced`, `syncing` or `unreachable`. Empty if unknown.
    pub state: String,
    pub writes_per_second: f64,
    pub failed_writes_per_second: f64,
    /// Seconds since the last event.
    pub silent_seconds: Option<f64>,
}

impl Controller {
    /// Finds the leading controller among the given admin addresses, or else among the pods of the
    /// hub.
    pub(super) async fn find(hub: &ApiServer, args: &TopArgs) -> Result<Self, ScrapeError> {
        let endpoints = endpoints(hub, args).await?;
        let mut failure = None;
        let mut names = Vec::new();
        for endpoint in endpoints {
            match endpoint.get(hub, "/metrics").await {
                Ok(text) => {
                    let first = Samples::parse(&text);
                    if first.value(LEADER) == Some(1.0) {
                        let at = std::time::Instant::now();
                        return Ok(Self {
                            endpoint,
                            first,
                            at,
                        });
                    }
                    names.push(endpoint.name());
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(failure) => Err(failure.into()),
            None => Err(ScrapeError::NoLeader(names.join(", "))),
        }
    }

    /// Returns the rates since the first scrape.
    pub(super) async fn rates(
        &self,
        hub: &ApiServer,
        now: Timestamp,
    ) -> Result<ControllerRates, ScrapeError> {
        let later = Samples::parse(&self.endpoint.get(hub, "/metrics").await?);
        let seconds = self.at.elapsed().as_secs_f64();
        Ok(rates(
            self.endpoint.name(),
            &self.first,
            &later,
            seconds,
            now,
        ))
    }
}

async fn endpoints(hub: &ApiServer, args: &TopArgs) -> Result<Vec<AdminEndpoint>, ScrapeError> {
    if !args.admin.urls.is_empty() {
        let urls = args.admin.urls.iter().cloned();
        return Ok(urls.map(AdminEndpoint::Url).collect());
    }
    let lease = args.controller.lease.0.as_ref();
    let namespace = lease.map_or(DEFAULT_NAMESPACE, |(namespace, _)| namespace);
    let pods = admin_endpoint::pods(hub, namespace).await;
    let pods = pods.map_err(|error| match error {
        RequestError::NotAllowed { message, .. } => ScrapeError::Pods {
            namespace: namespace.to_owned(),
            message,
        },
        other => ScrapeError::Request(other),
    })?;
    let pods = pods
        .iter()
        .filter(|pod| admin_endpoint::is_of(pod, "controller"));
    let endpoints: Vec<_> = pods.map(AdminEndpoint::of).collect();
    if endpoints.is_empty() {
        return Err(ScrapeError::NoPod(namespace.to_owned()));
    }
    Ok(endpoints)
}

fn rates(
    name: String,
    first: &Samples,
    later: &Samples,
    seconds: f64,
    now: Timestamp,
) -> ControllerRates {
    let total = |name: &str| later.growth(first, name).map(|(_, grew)| grew).sum::<f64>() / seconds;
    let mut rates = ControllerRates {
        name,
        retries_per_second: total(RETRIES),
        propagated_per_second: total(&format!("{PROPAGATION}_count")),
        queue_keys: later.value(QUEUE).unwrap_or_default(),
        queue_oldest_seconds: later.value(OLDEST).unwrap_or_default(),
        propagation_p50_seconds: later.quantile(first, PROPAGATION, 0.5),
        propagation_p99_seconds: later.quantile(first, PROPAGATION, 0.99),
        ..ControllerRates::default()
    };
    for (sample, grew) in later.growth(first, WRITES) {
        let member = rates
            .members
            .entry(sample.label("cluster").to_owned())
            .or_default();
        if sample.label("result") == "ok" {
            member.writes_per_second += grew / seconds;
            rates.writes_per_second += grew / seconds;
        } else {
            member.failed_writes_per_second += grew / seconds;
            rates.failed_writes_per_second += grew / seconds;
        }
    }
    for sample in later.of(STATE).filter(|sample| sample.value > 0.0) {
        let member = rates
            .members
            .entry(sample.label("cluster").to_owned())
            .or_default();
        sample.label("state").clone_into(&mut member.state);
    }
    for sample in later.of(LAST_EVENT) {
        let member = rates
            .members
            .entry(sample.label("cluster").to_owned())
            .or_default();
        let silent = now.as_duration().as_secs_f64() - sample.value;
        member.silent_seconds = Some(silent.max(0.0));
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_grew_between_two_scrapes() {
        let first = Samples::parse(
            "causeway_controller_writes_total{cluster=\"a\",kind=\"Service\",verb=\"create\",result=\"ok\"} 10\n\
             causeway_controller_retries_total 1\n",
        );
        let later = Samples::parse(
            "causeway_controller_writes_total{cluster=\"a\",kind=\"Service\",verb=\"create\",result=\"ok\"} 30\n\
             causeway_controller_writes_total{cluster=\"a\",kind=\"Service\",verb=\"create\",result=\"conflict\"} 2\n\
             causeway_controller_writes_total{cluster=\"hub\",kind=\"Cluster\",verb=\"patch\",result=\"ok\"} 2\n\
             causeway_controller_retries_total 3\n\
             causeway_controller_queue_keys 4\n\
             causeway_controller_queue_oldest_seconds 0.5\n\
             causeway_controller_member_state{cluster=\"a\",state=\"synced\"} 1\n\
             causeway_controller_member_state{cluster=\"a\",state=\"unreachable\"} 0\n\
             causeway_controller_member_last_event_timestamp_seconds{cluster=\"a\"} 100\n",
        );
        let now = Timestamp::from_second(107).expect("a time");
        let rates = rates("c".to_owned(), &first, &later, 2.0, now);
        let a = MemberRates {
            state: "synced".to_owned(),
            writes_per_second: 10.0,
            failed_writes_per_second: 1.0,
            silent_seconds: Some(7.0),
        };
        assert_eq!(rates.members["a"], a);
        assert_eq!(
            (rates.writes_per_second, rates.failed_writes_per_second),
            (11.0, 1.0)
        );
        assert_eq!((rates.retries_per_second, rates.queue_keys), (1.0, 4.0));
        assert_eq!(rates.propagation_p50_seconds, None);
    }
}
