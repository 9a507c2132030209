//! Order of the providers of a consumer, by the rules of docs/near-first.md. Every cluster answers
//! when the oracle computes, and has answered for long enough: no grace period is running.

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use kube::api::ObjectMeta;

use super::ports::{Port, endpoint, translated};

/// Role of a provider's ready endpoints in a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Ready,
    Standby,
    /// They are not copied.
    Absent,
}

/// A preference. Members bear neither regions nor zones here.
pub(super) struct Tiers<'a> {
    words: Vec<&'a str>,
    /// The percentage that has to be ready.
    least: usize,
}

impl<'a> Tiers<'a> {
    /// Reads the preference from the annotations of a MultiClusterService or a ServiceExport.
    pub(super) fn of(metadata: &'a ObjectMeta) -> Option<Self> {
        let annotations = metadata.annotations.as_ref()?;
        let words = annotations.get(labels::PREFER)?;
        let least = annotations.get(labels::MIN_READY);
        let least = least.and_then(|least| least.trim_end_matches('%').parse().ok());
        Some(Self {
            words: words.split(',').map(str::trim).collect(),
            least: least.unwrap_or_default(),
        })
    }

    fn place(&self, consumer: &str, provider: &str) -> Option<usize> {
        let takes = |word: &&str| match *word {
            "local" => provider == consumer,
            "any" => true,
            other => other.strip_prefix("cluster/") == Some(provider),
        };
        self.words.iter().position(takes)
    }

    /// Returns the role of a provider's endpoints in a consumer. `all` are the clusters whose pods
    /// the consumer may use, with their numbers of ready endpoints and of all endpoints.
    pub(super) fn standing(
        &self,
        consumer: &str,
        provider: &str,
        all: &[(&str, [usize; 2])],
    ) -> Standing {
        let carries = |tier: &usize| {
            let own = all.iter();
            let own = own.filter(|(name, _)| self.place(consumer, name) == Some(*tier));
            let [ready, total] = own.fold([0, 0], |[ready, total], (_, [more, of])| {
                [ready + more, total + of]
            });
            ready > 0 && ready * 100 >= total * self.least
        };
        let last = (0..self.words.len()).find(carries);
        let last = last.unwrap_or(self.words.len());
        match self.place(consumer, provider) {
            None => Standing::Absent,
            Some(place) if place <= last => Standing::Ready,
            Some(_) => Standing::Standby,
        }
    }
}

/// Returns the number of ready endpoints and of all endpoints of slices, without terminating ones
/// and those that the ports of the consumer's Service do not lead to.
pub(super) fn readiness(slices: &[EndpointSlice], ports: &[Port], offered: &[Port]) -> [usize; 2] {
    let fitting = slices.iter();
    let fitting = fitting.filter(|slice| !translated(slice, ports, offered).is_empty());
    let mut counted = [0, 0];
    for endpoint in fitting.flat_map(|slice| &slice.endpoints) {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let ready = conditions.ready.unwrap_or(true);
        if ready || conditions.terminating != Some(true) {
            counted = [counted[0] + usize::from(ready), counted[1] + 1];
        }
    }
    counted
}

/// An endpoint as a copy has it that stands so.
pub(super) fn standing_endpoint(source: &Endpoint, standing: Standing) -> String {
    if standing != Standing::Standby {
        return endpoint(source);
    }
    let conditions = source.conditions.clone().unwrap_or_default();
    let ready = conditions.ready.unwrap_or(true);
    let terminating = if ready {
        Some(true)
    } else {
        conditions.terminating
    };
    let conditions = EndpointConditions {
        ready: Some(false),
        serving: Some(ready),
        terminating,
    };
    endpoint(&Endpoint {
        conditions: Some(conditions),
        ..source.clone()
    })
}

#[test]
fn first_tiers_with_enough_are_active_and_others_standby() {
    let tiers = |words: &'static str, least| Tiers {
        words: words.split(", ").collect(),
        least,
    };
    let [a, b] = [("a", [1, 4]), ("b", [2, 2])];
    for (words, least, all, provider, expected) in [
        ("local, any", 0, [a, b], "a", Standing::Ready),
        ("local, any", 0, [a, b], "b", Standing::Standby),
        ("local, any", 50, [a, b], "b", Standing::Ready),
        ("local, any", 25, [a, b], "b", Standing::Standby),
        ("cluster/b, local", 50, [a, b], "a", Standing::Standby),
        ("cluster/b", 0, [a, b], "a", Standing::Absent),
        ("local, any", 0, [("a", [0, 0]), b], "b", Standing::Ready),
        (
            "local, any",
            0,
            [("a", [0, 0]), ("b", [0, 3])],
            "b",
            Standing::Ready,
        ),
    ] {
        let standing = tiers(words, least).standing("a", provider, &all);
        assert_eq!(standing, expected, "{provider} of {words}, {least}%");
    }
}

#[test]
fn endpoints_without_an_offered_port_are_not_counted() {
    let slice = serde_json::json!({
        "metadata": {
            "namespace": "red", "name": "n2-by-hand", "labels": {labels::SERVICE_NAME: "n2"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}],
        "ports": [{"name": "http", "port": 8080}],
    });
    let slices = [serde_json::from_value(slice).expect("a slice")];
    let port = |name: &str, number| Port {
        name: name.to_owned(),
        number,
        protocol: "TCP".to_owned(),
    };
    let [http, metrics] = [port("http", 80), port("metrics", 9090)];
    let of_service = [http.clone(), metrics.clone()];
    for (offered, expected) in [
        (&of_service[..], [1, 1]),
        (&[http], [1, 1]),
        (&[metrics], [0, 0]),
    ] {
        assert_eq!(readiness(&slices, &of_service, offered), expected);
    }
}
