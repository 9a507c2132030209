//! Rates of a controller, from the difference between two scrapes of its metrics.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::metrics::Samples;

const WRITES: &str = "causeway_controller_writes_total";
const RETRIES: &str = "causeway_controller_retries_total";
const QUEUE: &str = "causeway_controller_queue_keys";
const OLDEST: &str = "causeway_controller_queue_oldest_seconds";
const PROPAGATION: &str = "causeway_controller_propagation_seconds";
const STATE: &str = "causeway_controller_member_state";
const LAST_EVENT: &str = "causeway_controller_member_last_event_timestamp_seconds";

/// Rates from the metrics of a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControllerRates {
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
pub(crate) struct MemberRates {
    /// `synced`, `syncing` or `unreachable`. Empty if unknown.
    pub state: String,
    pub writes_per_second: f64,
    pub failed_writes_per_second: f64,
    /// Seconds since the last event.
    pub silent_seconds: Option<f64>,
}

/// Returns the rates between two scrapes that are `seconds` apart.
pub(crate) fn rates(
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
