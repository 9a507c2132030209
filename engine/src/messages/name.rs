//! Sentences about names that DNS publishes.

use std::fmt;

use causeway::api::labels::{HOSTNAME, HOSTNAME_ROUTING_VALUE};
use causeway::domain::ServiceKey;

use super::{Diagnosis, NAMED_AT_MOST, first, status};
use crate::model::RecordedTargets;
use crate::observed::Index;
use crate::plan::dns::{Basis, NamePlan, NameState, Routing};
use crate::reasons::Reason;

/// Remedy where a person may not read names.
const NAMES_UNREAD: &str = "grant list of dnsendpoints.externaldns.k8s.io and of multiclusterservices.networking.karmada.io in all namespaces";

/// Definition of DNSEndpoint, as ExternalDNS publishes it.
const DEFINITION: &str = "https://raw.githubusercontent.com/kubernetes-sigs/external-dns/master/config/crd/standard/dnsendpoints.externaldns.k8s.io.yaml";

/// Describes the state of the names of a service, with the remedy.
pub(crate) fn sentence(key: &ServiceKey, names: &[&str], state: &NameState<'_>) -> String {
    let sentence = describe(key, names, state);
    match remedy(key, state) {
        Some(remedy) => format!("{sentence}: {remedy}"),
        None => sentence,
    }
}

/// Reports the states of the names that a service requests to a person who reads the hub with own
/// rights.
pub(crate) fn diagnoses(index: &Index, key: &ServiceKey, plan: &NamePlan) -> Vec<Diagnosis> {
    let name = plan.wanted().into_iter();
    let states = name.flat_map(|name| name.states(index, key, None));
    let all = states.map(|(names, state)| diagnosis(key, &names, &state));
    all.collect()
}

/// Reports the state of the names of a service to a person who reads the hub with own rights.
pub(super) fn diagnosis(key: &ServiceKey, names: &[&str], state: &NameState<'_>) -> Diagnosis {
    let reason = match state {
        NameState::Unreadable(failure) => {
            let names = first(names, NAMED_AT_MOST);
            let message = format!("unknown whether ExternalDNS gets {names}: {failure}");
            return Diagnosis::new(Reason::NameNotRead, message).fix(NAMES_UNREAD);
        }
        NameState::Published { basis, .. } if *basis == Basis::Last => Reason::NameHeld,
        NameState::Published { .. } => Reason::NamePublished,
        NameState::NoValue { .. } => Reason::NoRoutingValue,
        _ => Reason::NameNotPublished,
    };
    let diagnosis = Diagnosis::new(reason, describe(key, names, state));
    match remedy(key, state) {
        Some(remedy) => diagnosis.fix(remedy),
        None => diagnosis,
    }
}

fn describe(key: &ServiceKey, names: &[&str], state: &NameState<'_>) -> String {
    let (lead, is, does) = match names {
        [_] => ("leads", "is", "does"),
        _ => ("lead", "are", "do"),
    };
    let names = first(names, NAMED_AT_MOST);
    let not = |why: &dyn fmt::Display| format!("{names} {is} not published: {why}");
    match state {
        NameState::Published {
            targets,
            routing,
            basis,
            awaited,
        } => {
            let waits = awaited.map_or_else(String::new, |host| {
                format!(", and to other clusters once {host} has an address")
            });
            let leads = format!("{names} {lead} to {}{waits}", listed(targets, *routing));
            match basis {
                Basis::Serving => leads,
                Basis::Standby => {
                    format!("{leads}, out of reach, because no other cluster has a ready endpoint")
                }
                Basis::Last => {
                    format!("{leads} still, although no cluster has a ready endpoint")
                }
            }
        }
        NameState::NotServed => {
            not(&"the hub has no definition of DNSEndpoint (externaldns.k8s.io/v1alpha1)")
        }
        NameState::Unreadable(failure) => not(&format!(
            "DNSEndpoints of the hub cannot be read ({failure})"
        )),
        NameState::Foreign => not(&format!("DNSEndpoint {key} is not causeway's")),
        NameState::NotWritten(failure) => {
            not(&format!("DNSEndpoint {key} cannot be written ({failure})"))
        }
        NameState::Taken(owner) => not(&format!("MultiClusterService {owner} has the name")),
        NameState::Unsettled => format!(
            "{names} {is} not published as planned: DNSEndpoint {key} is still to be written"
        ),
        NameState::NoTarget { own } => not(&no_target(*own)),
        NameState::NoValue { routing, is_held } => {
            let property = &routing.property;
            let without = first(&routing.without_value, NAMED_AT_MOST);
            match is_held {
                false => {
                    format!("{names} {does} not lead to {without} (no value for {property})")
                }
                true => format!(
                    "no record of {names} changes, because no cluster with a value for {property} \
                     can serve (without a value: {without})"
                ),
            }
        }
    }
}

fn no_target(own: Option<&str>) -> String {
    let other = own.map_or_else(String::new, |own| {
        format!(" other than {own}, which is a name of the service itself,")
    });
    format!("no cluster has a load balancer with an address{other} and a ready endpoint")
}

fn remedy(key: &ServiceKey, state: &NameState<'_>) -> Option<String> {
    let ServiceKey { namespace, name } = key;
    Some(match state {
        NameState::Published { basis, .. } if *basis != Basis::Last => return None,
        NameState::Published { .. } | NameState::NoTarget { .. } => {
            format!("kubectl -n {namespace} get services,endpointslices, in the providers")
        }
        NameState::NotServed => {
            format!(
                "kubectl apply -f {DEFINITION}, and run ExternalDNS on the hub with --source=crd"
            )
        }
        NameState::Unreadable(_) | NameState::NotWritten(_) => {
            "kubectl describe clusterrole causeway-controller".to_owned()
        }
        NameState::Foreign => format!("kubectl -n {namespace} delete dnsendpoint {name}"),
        NameState::Taken(owner) => format!(
            "kubectl -n {namespace} annotate --overwrite mcs {name} {HOSTNAME}=OTHER-NAME, or give \
             the name up there: kubectl -n {} annotate --overwrite mcs {} {HOSTNAME}-",
            owner.namespace, owner.name
        ),
        NameState::Unsettled => status(key),
        NameState::NoValue { routing, .. } => format!(
            "kubectl annotate --overwrite cluster {} {HOSTNAME_ROUTING_VALUE}=VALUE",
            routing.without_value.first()?
        ),
    })
}

/// Lists targets: `192.0.2.1 (member1), 192.0.2.2 (member2)`, with the values by which DNS routes:
/// `192.0.2.1 (member1: eu-west-1)`.
fn listed(targets: &RecordedTargets, routing: Option<&Routing>) -> String {
    let all = targets.iter().flat_map(|(cluster, targets)| {
        let of = match routing.and_then(|routing| routing.values.get(cluster)) {
            Some(value) => format!("{cluster}: {value}"),
            None => cluster.to_string(),
        };
        let targets = targets.iter();
        targets.map(move |target| format!("{target} ({of})"))
    });
    first(all, NAMED_AT_MOST)
}
