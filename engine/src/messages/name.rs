//! Sentences about names that DNS publishes.

use std::fmt;

use causeway::domain::{Hostnames, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Diagnosis, first};
use crate::model::RecordedTargets;
use crate::plan::dns::{Basis, NameState};
use crate::reasons::Reason;

/// Maximum number of targets and names in a message.
const NAMED_AT_MOST: usize = 5;

/// Verbs that follow the names.
const VERBS: [&str; 4] = [" leads to ", " lead to ", " is ", " are "];
const NOT_PUBLISHED: &str = "not published: ";
const STILL: &str = " still, although ";

/// Definition of DNSEndpoint, as ExternalDNS publishes it.
const DEFINITION: &str = "https://raw.githubusercontent.com/kubernetes-sigs/external-dns/master/config/crd/standard/dnsendpoints.externaldns.k8s.io.yaml";

/// Describes the state of the names of a service, with the remedy.
pub(super) fn sentence(key: &ServiceKey, hostnames: &Hostnames, state: &NameState<'_>) -> String {
    let sentence = describe(key, hostnames, state);
    match remedy(key, state) {
        Some(remedy) => format!("{sentence}: {remedy}"),
        None => sentence,
    }
}

/// Reports the state of the names of a service, as the Ready condition describes it; `None` where
/// it says nothing about them.
pub(crate) fn reported(hostnames: &Hostnames, ready: &Condition) -> Option<Diagnosis> {
    let names = shown(hostnames);
    let mut parts = ready.message.split("; ");
    let part = parts.find(|part| {
        let rest = part.strip_prefix(&*names);
        rest.is_some_and(|rest| VERBS.iter().any(|verb| rest.starts_with(verb)))
    })?;
    let reason = match part {
        _ if part.contains(NOT_PUBLISHED) => Reason::NameNotPublished,
        _ if part.contains(STILL) => Reason::NameHeld,
        _ => return Some(Diagnosis::new(Reason::NamePublished, part.to_owned())),
    };
    let (message, remedy) = part.rsplit_once(": ").unwrap_or((part, ""));
    Some(Diagnosis::new(reason, message.to_owned()).fix(remedy.to_owned()))
}

fn shown(hostnames: &Hostnames) -> String {
    first(&hostnames.iter().collect::<Vec<_>>(), NAMED_AT_MOST)
}

fn describe(key: &ServiceKey, hostnames: &Hostnames, state: &NameState<'_>) -> String {
    let (names, many) = (shown(hostnames), hostnames.iter().nth(1).is_some());
    let [leads_to, lead_to, is, are] = VERBS;
    let leads = |targets| {
        let verb = if many { lead_to } else { leads_to };
        format!("{names}{verb}{}", listed(targets))
    };
    let verb = if many { are } else { is };
    let not = |why: &dyn fmt::Display| format!("{names}{verb}{NOT_PUBLISHED}{why}");
    match state {
        NameState::Published { targets, basis } => match basis {
            Basis::Serving => leads(targets),
            Basis::Standby => format!(
                "{}, out of reach, because no other cluster has a ready endpoint",
                leads(targets)
            ),
            Basis::Last => format!("{}{STILL}no cluster has a ready endpoint", leads(targets)),
        },
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
        NameState::NoTarget => {
            not(&"no cluster has a load balancer with an address and a ready endpoint")
        }
    }
}

fn remedy(key: &ServiceKey, state: &NameState<'_>) -> Option<String> {
    let ServiceKey { namespace, name } = key;
    Some(match state {
        NameState::Published { basis, .. } if *basis != Basis::Last => return None,
        NameState::Published { .. } | NameState::NoTarget => {
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
    })
}

/// Lists targets: `192.0.2.1 (member1), 192.0.2.2 (member2)`.
fn listed(targets: &RecordedTargets) -> String {
    let all = targets.iter().flat_map(|(cluster, targets)| {
        let targets = targets.iter();
        targets.map(move |target| format!("{target} ({cluster})"))
    });
    first(&all.collect::<Vec<_>>(), NAMED_AT_MOST)
}
