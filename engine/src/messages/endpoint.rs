//! State of an endpoint of a provider in a consumer.

use std::net::IpAddr;

use causeway::api::labels;
use causeway::domain::{AddressRefusal, ClusterName, ServiceKey, ServicePort, describe_ports};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::copies::Slice;
use super::{Diagnosis, adopt, edit_service, extend_preference, in_cluster, names, patch_service};
use super::{shares, wait};
use crate::model::slice::{Exposure, SlicePort, SourceEndpoint};
use crate::plan::copies::Skipped;
use crate::plan::entry::{Missed, NoEntry};
use crate::plan::port_fit::MissingPort;
use crate::plan::shares::Shares;
use crate::plan::tiers::{TierState, Tiers};
use crate::reasons::Reason;

/// Endpoint of a provider's slice, in a consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint<'a> {
    /// Service of the MultiClusterService or of the exports.
    pub(crate) key: &'a ServiceKey,
    /// Provider.
    pub(crate) provider: &'a ClusterName,
    /// Consumer.
    pub(crate) consumer: &'a ClusterName,
    /// EndpointSlice of the provider.
    pub(crate) slice: &'a str,
}

impl<'a> Endpoint<'a> {
    /// Returns the slice of the endpoint.
    pub(crate) fn of_slice(&self) -> Slice<'a> {
        Slice {
            key: self.key,
            provider: self.provider,
            name: self.slice,
        }
    }

    /// Reports that the consumer runs the endpoint itself.
    pub(crate) fn own(&self) -> Diagnosis {
        Diagnosis::new(Reason::Own, format!("{} has it itself", self.consumer))
    }

    /// Reports that the consumer has the endpoint.
    pub(crate) fn copied(&self) -> Diagnosis {
        Diagnosis::new(Reason::Copied, format!("{} has it", self.consumer))
    }

    /// Reports that the consumer, of another network, reaches the endpoint by an entry.
    pub(crate) fn by_entry(
        &self,
        door: &SourceEndpoint<'_>,
        ports: &[SlicePort],
        is_ready: bool,
    ) -> Diagnosis {
        let number = ports.first().and_then(|port| port.number);
        let port = number.map_or_else(String::new, |number| format!(" {number}"));
        let (consumer, address) = (self.consumer, door.address);
        let way = match door.node {
            Some(node) => {
                format!("{consumer} reaches it by node port{port} of node {node}, {address}")
            }
            None => format!("{consumer} reaches it by port{port} of {address}"),
        };
        let is_door_ready = door.conditions[0] != Some(false);
        match (is_ready, door.node) {
            (true, Some(node)) if !is_door_ready => {
                let message = format!(
                    "{way}; it gets no traffic: the node is not ready, or has its first endpoint"
                );
                let fix = format!("in {}: kubectl get node {node} -o wide", self.provider);
                Diagnosis::new(Reason::NotReady, message).fix(fix)
            }
            (true, _) => Diagnosis::new(Reason::EntryCopied, way),
            (false, _) => self.not_ready(format!("{way}; it gets no traffic, for it is not ready")),
        }
    }

    /// Reports that the consumer, of another network, does not reach the provider.
    pub(crate) fn unreached(&self, why: &NoEntry) -> Diagnosis {
        let (sentence, remedy) = why.words(self.key, self.provider);
        let message = format!("{} is of another network: {sentence}", self.consumer);
        Diagnosis::new(why.reason(), message).fix(remedy)
    }

    /// Reports that the entry to the provider does not lead to the endpoint, on that node.
    pub(crate) fn missed(&self, missed: Missed, node: Option<&str>) -> Diagnosis {
        let Self {
            key,
            provider,
            consumer,
            slice,
        } = self;
        let open = || patch_service(provider, key, r#""type":"NodePort""#);
        let (why, remedy) = match (missed, node) {
            (Missed::NotSelected, _) => (
                format!(
                    "leads to the pods that Service {key} selects, and EndpointSlice {slice} is of another writer"
                ),
                open(),
            ),
            (Missed::OnNoEntry, None) => (
                format!(
                    "leads by nodes to their own pods, and EndpointSlice {slice} names no node"
                ),
                open(),
            ),
            (Missed::OnNoEntry, Some(node)) => (
                format!("leads by nodes to their own pods, and has no address of node {node}"),
                format!("in {provider}: kubectl get node {node} -o wide"),
            ),
        };
        let message = format!("{consumer} is of another network: the entry to {provider} {why}");
        Diagnosis::new(Reason::EntryRefused, message).fix(remedy)
    }

    /// Reports that the consumer has the endpoint, which is not ready.
    pub(crate) fn unready(&self) -> Diagnosis {
        let consumer = self.consumer;
        self.not_ready(format!(
            "{consumer} has it; it gets no traffic there, for it is not ready"
        ))
    }

    fn not_ready(&self, message: String) -> Diagnosis {
        Diagnosis::new(Reason::NotReady, message).fix(in_cluster(
            self.provider,
            self.key,
            "get pods",
        ))
    }

    /// Reports that the consumer retains the last endpoints of the provider.
    pub(crate) fn kept(&self) -> Diagnosis {
        let message = format!("{} keeps what {} gave last", self.consumer, self.provider);
        Diagnosis::new(Reason::Kept, message)
    }

    /// Reports that no rule of the plan decides about the copy, so it stays.
    pub(crate) fn undecided(&self) -> Diagnosis {
        let message = format!(
            "no rule decides about the copy in {}, so it stays as it is: a fault of causeway, please report it",
            self.consumer
        );
        Diagnosis::new(Reason::Kept, message)
    }

    /// Reports that the provider is unreachable, so its endpoints are standby endpoints.
    pub(crate) fn of_unreachable(&self) -> Diagnosis {
        let (provider, consumer) = (self.provider, self.consumer);
        let message =
            format!("{provider} cannot be reached; {consumer} uses it where no other is ready");
        Diagnosis::new(Reason::Standby, message)
    }

    /// Reports that the consumer has the endpoint, in the role that its tier gives it.
    pub(crate) fn in_tier(&self, tiers: &Tiers, is_standby: bool) -> Diagnosis {
        match (is_standby, tiers.place(self.provider.as_str())) {
            (true, _) => self.standby(tiers),
            (false, Some(place)) if place > 0 => self.promoted(tiers),
            (false, _) => self.copied(),
        }
    }

    /// Reports that the endpoint is a standby endpoint in its tier.
    fn standby(&self, tiers: &Tiers) -> Diagnosis {
        if tiers.place(self.provider.as_str()).is_none() {
            return Diagnosis::new(Reason::Standby, tiers.why_demoted(self.provider));
        }
        let by = match tiers.uses_standby {
            true => "used where no other is ready",
            false => {
                "not ready until the controller promotes it, for the cluster uses no standby endpoints"
            }
        };
        let tier = self.tier(tiers);
        let message = format!("prefer: {}; {tier} is {by}", tiers.why_standby());
        Diagnosis::new(Reason::Standby, message)
    }

    /// Reports that a farther tier is active.
    pub(super) fn promoted(&self, tiers: &Tiers) -> Diagnosis {
        let tier = self.tier(tiers);
        let message = format!("prefer: {tier} is used, for {}", tiers.why_promoted());
        Diagnosis::new(Reason::Promoted, message)
    }

    /// Reports that the endpoint is a standby endpoint, because others suffice for the share of its
    /// provider.
    pub(crate) fn beyond_share(&self, shares: &Shares) -> Diagnosis {
        shares::beyond(self.consumer, shares.of(self.provider))
    }

    fn tier(&self, tiers: &Tiers) -> String {
        let tier = tiers.tier_of(self.provider).map(TierState::name);
        tier.map_or_else(String::new, |name| name.to_string())
    }

    /// Reports that no tier of the consumer includes the provider.
    pub(crate) fn not_preferred(&self, tiers: &Tiers) -> Diagnosis {
        let message = format!(
            "{} is in none of the tiers of {} (prefer: {})",
            self.provider,
            self.consumer,
            names(tiers.all.iter().map(TierState::name))
        );
        Diagnosis::new(Reason::NotPreferred, message).fix(extend_preference())
    }

    /// Reports that the copy is about to get another role.
    pub(crate) fn changes_role(&self, to_standby: bool) -> Diagnosis {
        let role = match to_standby {
            true => "a standby endpoint",
            false => "ready",
        };
        self.progressing(format!(
            "{} has it, and it is to be {role} there",
            self.consumer
        ))
    }

    /// Reports that the copy was made before the last change of the endpoint.
    pub(crate) fn older(&self) -> Diagnosis {
        self.progressing(format!(
            "{} has it as it was before the last change in {}",
            self.consumer, self.provider
        ))
    }

    /// Reports that the copy is to be deleted.
    pub(crate) fn still_there(&self, why: &Diagnosis) -> Diagnosis {
        self.progressing(format!(
            "{} still has it, though {}",
            self.consumer, why.message
        ))
    }

    /// Reports that the copy is to be written: a copy of an older version `is_held`, or none.
    pub(crate) fn not_written(&self, is_held: bool, reported: Option<&str>) -> Diagnosis {
        let (provider, consumer) = (self.provider, self.consumer);
        let message = match is_held {
            true => format!(
                "{consumer} has a copy of an older version of this EndpointSlice of {provider}"
            ),
            false => format!(
                "nothing that is seen stands in the way, and {consumer} has no copy of it yet"
            ),
        };
        let reported =
            reported.map_or_else(String::new, |text| format!("; the controller says {text}"));
        self.progressing(format!("{message}{reported}"))
    }

    fn progressing(&self, message: String) -> Diagnosis {
        Diagnosis::new(Reason::Progressing, message).fix(wait(self.key))
    }

    /// Reports that another writer changes the copy back.
    pub(crate) fn write_conflict(&self, is_held: bool, reported: &str) -> Diagnosis {
        let has = match is_held {
            true => "has a copy that lacks it",
            false => "has no copy of it",
        };
        let message = format!("{} {has}: {reported}", self.consumer);
        let conflict = Diagnosis::new(Reason::WriteConflict, message);
        conflict.fix("stop the other writer that the message names")
    }

    /// Reports that another object has the name of the copy: `of_hub`, of another hub.
    pub(crate) fn name_taken(&self, name: &str, of_hub: bool) -> Diagnosis {
        let consumer = self.consumer;
        let whose = match of_hub {
            true => "is another hub's",
            false => "is not causeway's",
        };
        let message = format!(
            "{consumer} has an EndpointSlice {name} that {whose}, in the place of the copy"
        );
        Diagnosis::new(Reason::NameTaken, message).fix(format!(
            "in {consumer}, if nobody needs it: kubectl -n {} delete endpointslice {name}",
            self.key.namespace
        ))
    }

    /// Reports that the copy was made from a newer version of the slice than the provider shows.
    pub(crate) fn newer_copy(&self, name: &str) -> Diagnosis {
        let Self {
            key,
            provider,
            consumer,
            slice,
        } = self;
        let message = format!(
            "EndpointSlice {name} of {consumer} was made from a newer version of EndpointSlice {slice} than {provider} shows (a \
             restored etcd?); it stays until a second list of {provider} confirms that the version is lost"
        );
        Diagnosis::new(Reason::DeletionsSuspended, message).fix(wait(key))
    }

    /// Reports that Karmada's slice holds the endpoint.
    pub(crate) fn copied_by_karmada(&self) -> Diagnosis {
        let message = format!("{} has it by Karmada's EndpointSlice", self.consumer);
        Diagnosis::new(Reason::CopiedByKarmada, message)
    }

    /// Reports that Karmada's slice holds the endpoint as it was before it was ready.
    pub(crate) fn behind_in_karmadas(&self, slice: &str) -> Diagnosis {
        let message = format!(
            "{} has it by Karmada's EndpointSlice {slice}, as it was before it was ready in {}",
            self.consumer, self.provider
        );
        Diagnosis::new(Reason::NotDispatchedByKarmada, message).fix(adopt(self.key))
    }

    /// Reports that consumers are not given the address. `ranges` are those of the provider.
    pub(crate) fn refused<T: ToString>(&self, refusal: &AddressRefusal, ranges: &[T]) -> Diagnosis {
        let name = self.provider;
        let annotate = |ranges: &str| {
            let annotation = labels::ENDPOINT_CIDRS;
            format!("kubectl annotate cluster {name} --overwrite {annotation}={ranges}")
        };
        let (reason, message, remedy) = match refusal {
            AddressRefusal::NotRoutable(ip) => (
                Reason::AddressNotRoutable,
                format!("{ip} of {name} does not lead to another node"),
                format!(
                    "in {name}: give the pods, or the EndpointSlice, addresses that other clusters can reach"
                ),
            ),
            AddressRefusal::Outside(ip) => {
                let ranges = ranges.iter().map(ToString::to_string).chain([host(ip)]);
                (
                    Reason::AddressOutsideRanges,
                    format!("{ip} is outside the endpoint-cidrs of {name}"),
                    annotate(&ranges.collect::<Vec<_>>().join(",")),
                )
            }
            AddressRefusal::OfAnother(ip, other) => (
                Reason::AddressOutsideRanges,
                format!(
                    "{ip} of {name} is in the endpoint-cidrs of {other}, which alone may give it"
                ),
                annotate(&host(ip)),
            ),
        };
        Diagnosis::new(reason, message).fix(remedy)
    }

    /// Reports that a port that the consumer's Service offers leads to none of the endpoints. The
    /// provider's Service `has` these ports.
    pub(crate) fn missing_port(&self, missing: &MissingPort, has: &[ServicePort]) -> Diagnosis {
        let (key, provider) = (self.key, self.provider);
        match missing {
            MissingPort::NotInProvider(port) => {
                let has = match has {
                    [] => "no port".to_owned(),
                    has => describe_ports(has),
                };
                let message =
                    format!("Service {key} of {provider} has no port {port}; it has {has}");
                let missing = Diagnosis::new(Reason::PortNotInProvider, message);
                missing.fix(edit_service(provider, key))
            }
            MissingPort::NotInSlice(port) => self.not_served(&format!("port {port}")),
        }
    }

    /// Reports that nothing of the slice is copied; `None` where the consumer offers no port that
    /// the slice could lack.
    pub(crate) fn skipped(&self, why: &Skipped) -> Option<Diagnosis> {
        Some(match why {
            Skipped::Behind => self.not_served("a port of it"),
            Skipped::NoPort(missing) => {
                self.missing_port(missing.list().first()?, missing.provider_ports())
            }
            _ => self.of_slice().skipped(why),
        })
    }

    fn not_served(&self, port: &str) -> Diagnosis {
        let (key, provider, slice) = (self.key, self.provider, self.slice);
        let message = format!(
            "the pods behind EndpointSlice {slice} of {provider} do not serve {port} of Service {key}: its targetPort is not one of \
             theirs, or the slice is behind"
        );
        let missing = Diagnosis::new(Reason::PortNotInSlice, message);
        missing.fix(edit_service(provider, key))
    }

    /// Reports that the consumer's Service lacks ports, and has others.
    pub(crate) fn port_not_in_consumer(
        &self,
        service: &ServiceKey,
        missing: &[ServicePort],
        has: &[ServicePort],
    ) -> Diagnosis {
        let consumer = self.consumer;
        let message = format!(
            "Service {service} of {consumer} has no port {}; it has {}",
            describe_ports(missing),
            describe_ports(has)
        );
        let missing = Diagnosis::new(Reason::PortNotInConsumer, message);
        missing.fix(edit_service(consumer, self.key))
    }
}

fn host(address: &IpAddr) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    format!("{address}/{bits}")
}

/// End of the sentence about a service without a ready endpoint.
const HAS_READY: &str = "has a ready endpoint";

/// Reports that no provider has a ready endpoint.
pub(crate) fn none_ready(exposure: Exposure) -> String {
    let role = match exposure {
        Exposure::Native => "provider",
        Exposure::Clusterset => "exporter",
    };
    format!("no {role} {HAS_READY}")
}

/// Whether the stored condition reports that no provider has a ready endpoint. The condition is the
/// one record of it that outlives the process.
pub(crate) fn reports_none_ready(stored: Option<&Condition>) -> bool {
    stored.is_some_and(|ready| ready.message.contains(HAS_READY))
}
