//! Sentences about entry clusters of a MultiClusterService of type LoadBalancer.

use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::LoadBalancerIngress;

use super::{Diagnosis, NAMED_AT_MOST, counted, first, in_cluster, join, patch_service};
use crate::plan::entry_clusters::{EntryCluster, EntryClusters, EntryState, NoAddress};
use crate::plan::provider_use::Unused;
use crate::reasons::Reason;

/// Reports the number of entry clusters through which clients reach the service.
pub(crate) fn entered(key: &ServiceKey, serving: usize, all: usize, used: usize) -> String {
    let noun = match all {
        1 => "entry cluster",
        _ => "entry clusters",
    };
    let used = counted(used);
    format!("{key} has {serving} of {all} {noun} in its status, backed by {used}")
}

/// Reports that no entry cluster has an address.
pub(crate) fn without_address(key: &ServiceKey, entries: &EntryClusters) -> String {
    let why = sentences(key, entries.iter());
    format!("no entry cluster of {key} has an address: {why}")
}

/// Describes entry clusters whose addresses are not in the status, each with the remedy.
pub(crate) fn sentences<'a>(
    key: &ServiceKey,
    all: impl Iterator<Item = (&'a ClusterName, &'a EntryCluster)>,
) -> String {
    let all = all.map(|(name, entry)| {
        let Diagnosis {
            message, remedy, ..
        } = diagnosis(key, name, entry);
        match remedy {
            Some(remedy) => format!("{message} ({remedy})"),
            None => message,
        }
    });
    first(all, NAMED_AT_MOST)
}

/// Reports the use of an entry cluster's addresses.
pub(crate) fn diagnosis(key: &ServiceKey, name: &ClusterName, entry: &EntryCluster) -> Diagnosis {
    let addresses = || listed(entry.addresses.as_deref().unwrap_or_default());
    match entry.state {
        EntryState::Serves => {
            let message = format!("{name} is an entry cluster: {} leads to {key}", addresses());
            Diagnosis::new(Reason::EntryCluster, message)
        }
        EntryState::Unknown => {
            let message = format!(
                "entry cluster {name} is unknown: the status retains the addresses of it that it has"
            );
            Diagnosis::new(Reason::EntryHeld, message)
        }
        EntryState::GivenUp => {
            let addresses = match &entry.addresses {
                Some(addresses) => format!("{} is", listed(addresses)),
                None => "its addresses are".to_owned(),
            };
            let message = format!(
                "entry cluster {name} is out of reach: {addresses} not in the status while another \
                 entry cluster serves"
            );
            Diagnosis::new(Reason::EntryUnused, message)
                .fix(format!("kubectl describe cluster {name}"))
        }
        EntryState::NoEndpoint { is_local } => {
            let message = format!(
                "entry cluster {name} has no usable endpoint, so {} is not in the status",
                addresses()
            );
            Diagnosis::new(Reason::EntryNotServing, message).fix(match is_local {
                true => {
                    let patch = patch_service(name, key, r#""externalTrafficPolicy":"Cluster""#);
                    format!("its Service leads to its own pods alone; {patch}")
                }
                false => explain(key),
            })
        }
        EntryState::Unused(why) => {
            let message = format!("entry cluster {name} is not used ({why})");
            Diagnosis::new(Reason::EntryUnused, message).fix(match why {
                Unused::Drained => format!("kubectl mcs drain {name} --undo"),
                _ => join(name),
            })
        }
        EntryState::NoAddress(why) => without(key, name, why),
    }
}

/// Reports an entry cluster without an address.
fn without(key: &ServiceKey, name: &ClusterName, why: NoAddress) -> Diagnosis {
    match why {
        NoAddress::NoService => {
            let message = format!("entry cluster {name} has no Service {key} yet");
            Diagnosis::new(Reason::NoEntryAddress, message).fix(explain(key))
        }
        NoAddress::OtherType => {
            let message = format!(
                "Service {key} of entry cluster {name} was made by somebody else and is not of type LoadBalancer"
            );
            let patch = patch_service(name, key, r#""type":"LoadBalancer""#);
            Diagnosis::new(Reason::EntryNotLoadBalancer, message)
                .fix(format!("{patch}, or delete it, and causeway makes one"))
        }
        NoAddress::NotRequested => {
            let message =
                format!("Service {key} of entry cluster {name} is not of type LoadBalancer yet");
            Diagnosis::new(Reason::NoEntryAddress, message).fix(explain(key))
        }
        NoAddress::Pending(created) => {
            let since = created.map_or_else(String::new, |created| {
                format!(" since {}", created.strftime("%Y-%m-%dT%H:%M:%SZ"))
            });
            let message = format!(
                "no load balancer of entry cluster {name} has given Service {key} an address{since}"
            );
            let describe = format!("describe service {}", key.name);
            Diagnosis::new(Reason::NoEntryAddress, message).fix(in_cluster(name, key, describe))
        }
    }
}

fn explain(key: &ServiceKey) -> String {
    format!("kubectl mcs explain {} -n {}", key.name, key.namespace)
}

fn listed(addresses: &[LoadBalancerIngress]) -> String {
    let all = addresses.iter();
    let all = all.filter_map(|one| one.ip.as_deref().or(one.hostname.as_deref()));
    first(all, NAMED_AT_MOST)
}
