//! Recipes: the inputs that decide the content of copies, and the copies made from them.

use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::{
    AddressRefusal, ClusterName, Ranges, ServiceKey, ServicePort, is_label_value,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::inputs::{Consumer, Origin};
use crate::model::slice::{
    AddressType, CONTENT_ANNOTATIONS, CONTENT_LABELS, ContentHash, CopyEndpoint, SourceEndpoint,
    SourceSlice, values,
};
use crate::plan::capabilities::Field;
use crate::plan::entry::Entry;
use crate::plan::port_fit::PortFit;
use crate::plan::providers::{Provider, Unfit};
use crate::plan::shares::Subset;
use crate::plan::tiers::EndpointRole;

/// Result of copying a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Hash of the copy's content, without its owner.
    content: ContentHash,
    /// Number of endpoints that the copy lacks.
    pub(super) refused: u32,
}

/// Reason why an endpoint, or a whole slice, is not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotCopied {
    /// Consumers are not given the address.
    Address(AddressRefusal),
    /// The endpoint has no address of its slice's type.
    NoAddress(AddressType),
    /// The slice is copied to no consumer.
    Unfit(Unfit),
    /// The provider has more slices of the service than are copied.
    TooManySlices,
}

/// Inputs that decide the content of the copies of one provider's slices in one consumer, except
/// the import that owns the copies there. Equal templates produce equal copies.
#[derive(Debug, Hash)]
pub(super) struct CopyTemplate {
    hub: Box<str>,
    owner: Box<str>,
    key: ServiceKey,
    service: Box<str>,
    /// Whether that Service is headless.
    headless: bool,
    multicluster: bool,
    provider: ClusterName,
    /// Id of the provider in the clusterset, if that is not its name and the copies bear it.
    provider_id: Option<Box<str>>,
    /// Value of hints in place of an unknown zone or node.
    remote: Box<str>,
    provider_ports: Box<[ServicePort]>,
    consumer_ports: Box<[ServicePort]>,
    stores: Stores,
    /// Whether the consumer is the provider itself.
    at_home: bool,
    role: EndpointRole,
    /// Choice of the ready endpoints; `None` if all are chosen.
    subset: Option<Subset>,
    /// What copies of IPv4 and of IPv6 record of the choice.
    cuts: [Option<Box<str>>; 2],
    ranges: Arc<Ranges>,
    /// Entry from which the copies are made, where the consumer is of another network.
    entry: Option<Arc<Entry>>,
}

/// Sources of a template's inputs.
#[derive(Clone, Copy)]
pub(super) struct CopyInputs<'a> {
    pub(super) origin: &'a Origin<'a>,
    pub(super) provider: &'a Provider<'a>,
    pub(super) consumer: &'a Consumer<'a>,
    pub(super) role: EndpointRole,
    pub(super) entry: Option<&'a Arc<Entry>>,
}

impl<'a> CopyInputs<'a> {
    /// Returns the id of the provider in the clusterset, if that is not its name and the copies
    /// belong to the clusterset.
    fn provider_id(&self) -> Option<&'a str> {
        let index = self.origin.index;
        index
            .other_id(self.provider.name)
            .filter(|_| self.origin.multicluster)
    }

    fn subset(&self) -> Option<Subset> {
        self.consumer.subset(self.provider.name, self.role)
    }
}

/// Fields of an endpoint that a consumer stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stores {
    /// Whether it stores `serving` and `terminating` besides `ready`.
    all_conditions: bool,
    /// Whether endpoints bear hints for zones (`zone_hints`) and for nodes (`node_hints`).
    zone_hints: bool,
    node_hints: bool,
}

impl Stores {
    fn of(consumer: &Consumer<'_>) -> Self {
        let (preference, capabilities) = (consumer.traffic_distribution, consumer.capabilities);
        Self {
            all_conditions: capabilities.stores(Field::EndpointConditions),
            zone_hints: preference.is_some() && capabilities.stores(Field::ZoneHints),
            node_hints: preference == Some("PreferSameNode")
                && capabilities.stores(Field::NodeHints),
        }
    }
}

impl CopyTemplate {
    pub(super) fn new(inputs: &CopyInputs<'_>) -> Self {
        let CopyInputs {
            origin,
            provider,
            consumer,
            role,
            entry,
        } = *inputs;
        Self {
            hub: origin.index.hub_uid().into(),
            owner: origin.owner.into(),
            key: origin.key.clone(),
            service: origin.service.into(),
            headless: consumer.is_headless,
            multicluster: origin.multicluster,
            provider: provider.name.clone(),
            provider_id: inputs.provider_id().map(Into::into),
            remote: format!("{}.remote", provider.name).into(),
            provider_ports: provider.ports.as_slice().into(),
            consumer_ports: consumer.ports.into(),
            stores: Stores::of(consumer),
            at_home: provider.name == consumer.name,
            role,
            subset: inputs.subset(),
            cuts: inputs.subset().map_or([None, None], |subset| {
                subset.cuts().map(|cut| Some(cut?.to_string().into()))
            }),
            ranges: match entry {
                Some(_) => origin.index.entry_ranges(provider.name),
                None => provider.ranges.clone(),
            },
            entry: entry.cloned(),
        }
    }

    /// Whether the template equals the one for these inputs.
    pub(super) fn is_for(&self, inputs: &CopyInputs<'_>) -> bool {
        let Self {
            hub,
            owner,
            key,
            service,
            headless,
            multicluster,
            provider: name,
            provider_id,
            // Follows from the name.
            remote: _,
            provider_ports,
            consumer_ports,
            stores,
            at_home,
            role,
            subset,
            // Follows from the subset.
            cuts: _,
            ranges,
            entry,
        } = self;
        let CopyInputs {
            origin,
            provider,
            consumer,
            ..
        } = *inputs;
        *name == *provider.name
            && provider_id.as_deref() == inputs.provider_id()
            && *role == inputs.role
            && *subset == inputs.subset()
            && *at_home == (provider.name == consumer.name)
            && *stores == Stores::of(consumer)
            && **consumer_ports == *consumer.ports
            && **provider_ports == *provider.ports
            && *multicluster == origin.multicluster
            && *headless == consumer.is_headless
            && **service == *origin.service
            && *key == *origin.key
            && **owner == *origin.owner
            && **hub == *origin.index.hub_uid()
            && entry.as_ref() == inputs.entry
            // Those of an entry follow from the provider.
            && (entry.is_some() || Arc::ptr_eq(ranges, &provider.ranges) || *ranges == provider.ranges)
    }

    /// Returns the provider whose slices are copied.
    pub(super) fn provider(&self) -> &ClusterName {
        &self.provider
    }

    pub(super) fn role(&self) -> EndpointRole {
        self.role
    }

    /// Returns the role of one endpoint.
    pub(super) fn role_of(&self, endpoint: &SourceEndpoint<'_>) -> EndpointRole {
        let is_chosen = self
            .subset
            .is_none_or(|subset| subset.has(endpoint.address));
        if is_chosen {
            self.role
        } else {
            EndpointRole::Standby
        }
    }

    /// Whether the copies are made from an entry, not from slices of pods.
    pub(super) fn is_of_entry(&self) -> bool {
        self.entry.is_some()
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the ports of both Services.
    pub(super) fn fit(&self) -> PortFit<'_> {
        PortFit {
            provider: &self.provider_ports,
            consumer: &self.consumer_ports,
        }
    }

    /// Returns the result of copying the slice, without making the copy.
    pub(super) fn outcome(&self, source: &SourceSlice) -> Outcome {
        let (label, annotation) = (
            |name: &_| self.label(name),
            |name: &_| self.annotation(name, source),
        );
        let values = values(label, annotation);
        let mut copied = 0;
        let endpoints = self.endpoints(source).inspect(|_| copied += 1);
        let ports: Vec<_> = self.fit().ports(source).collect();
        let address_type = source.address_type.as_str();
        Outcome {
            content: ContentHash::of_copy(values, address_type, endpoints, &ports),
            refused: u32::try_from(source.len() - copied)
                .unwrap_or(u32::MAX)
                .saturating_add(source.odd),
        }
    }

    /// Returns a hash of the content of a copy that belongs to this import.
    pub(super) fn content(outcome: &Outcome, import: Option<&OwnerReference>) -> ContentHash {
        outcome
            .content
            .owned_by(import.map(|import| &*import.uid).into_iter())
    }

    /// Returns the copy, without identity.
    pub(super) fn slice(
        &self,
        name: &str,
        source: &SourceSlice,
        import: Option<&OwnerReference>,
    ) -> EndpointSlice {
        EndpointSlice {
            metadata: self.metadata(name, source, import),
            address_type: source.address_type.as_str().to_owned(),
            endpoints: self.endpoints(source).map(Into::into).collect(),
            ports: Some(self.fit().ports(source).collect()),
        }
    }

    /// Returns the first of the reasons why endpoints of the slice are not copied. The order is
    /// independent of the endpoints' order and addresses.
    pub(super) fn first_refusal(&self, source: &SourceSlice) -> Option<NotCopied> {
        let refusals = source.endpoints().filter_map(|one| self.refusal(&one));
        let refusal = refusals.min_by(|one, other| rank(one).cmp(&rank(other)));
        let odd = (source.odd > 0).then_some(NotCopied::NoAddress(source.address_type));
        refusal.map(NotCopied::Address).or(odd)
    }

    pub(super) fn refusal(&self, endpoint: &SourceEndpoint<'_>) -> Option<AddressRefusal> {
        let mut addresses = endpoint.addresses();
        addresses.find_map(|address| self.ranges.refusal(address))
    }

    fn metadata(
        &self,
        name: &str,
        source: &SourceSlice,
        import: Option<&OwnerReference>,
    ) -> ObjectMeta {
        let given = |name: &str, value: Option<&str>| Some((name.to_owned(), value?.to_owned()));
        let labels = CONTENT_LABELS.iter();
        let annotations = CONTENT_ANNOTATIONS.iter();
        let annotations = annotations.filter_map(|name| given(name, self.annotation(name, source)));
        let version = (labels::SOURCE.to_owned(), source.version.to_string());
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.key.namespace.to_string()),
            labels: Some(
                labels
                    .filter_map(|name| given(name, self.label(name)))
                    .collect(),
            ),
            owner_references: import.map(|import| vec![import.clone()]),
            annotations: Some(annotations.chain([version]).collect()),
            ..ObjectMeta::default()
        }
    }

    fn label(&self, name: &str) -> Option<&str> {
        match name {
            labels::SERVICE_NAME => Some(&self.service),
            labels::HEADLESS_SERVICE => self.headless.then_some(""),
            labels::SLICE_MANAGED_BY => Some(labels::SLICE_DISPATCHER),
            labels::SOURCE_CLUSTER => Some(
                self.provider_id
                    .as_deref()
                    .unwrap_or(self.provider.as_str()),
            ),
            labels::MULTICLUSTER_SERVICE_NAME => self.multicluster.then_some(&*self.key.name),
            labels::MANAGED_BY => Some(labels::MANAGER),
            labels::HUB => Some(&self.hub),
            _ => None,
        }
    }

    fn annotation(&self, name: &str, source: &SourceSlice) -> Option<&str> {
        match name {
            labels::PROVISION_CLUSTER => Some(self.provider.as_str()),
            labels::OWNER => Some(&self.owner),
            labels::STANDBY => (self.role != EndpointRole::Ready).then_some("true"),
            labels::SHARE => {
                let [ipv4, ipv6] = &self.cuts;
                let of_ipv6 = source.address_type == AddressType::Ipv6;
                if of_ipv6 { ipv6 } else { ipv4 }.as_deref()
            }
            _ => None,
        }
    }

    /// Returns the endpoints of the copy.
    fn endpoints<'a>(&'a self, source: &'a SourceSlice) -> impl Iterator<Item = CopyEndpoint<'a>> {
        let endpoints = source.endpoints();
        endpoints
            .filter(|endpoint| self.refusal(endpoint).is_none())
            .map(|endpoint| self.endpoint(endpoint))
    }

    /// Returns the copy of an endpoint. It names the node only in a consumer that is the provider
    /// itself: in any other cluster the name would mean another node.
    fn endpoint<'a>(&'a self, source: SourceEndpoint<'a>) -> CopyEndpoint<'a> {
        let [ready, serving, terminating] = self.role_of(&source).conditions(source.conditions);
        let carried = SourceEndpoint {
            node: source.node.filter(|_| self.at_home),
            conditions: [
                ready,
                serving.filter(|_| self.stores.all_conditions),
                terminating.filter(|_| self.stores.all_conditions),
            ],
            ..source
        };
        let has_hints = self.stores.zone_hints || self.stores.node_hints;
        CopyEndpoint {
            hints: has_hints.then(|| self.hints(&carried)),
            carried,
        }
    }

    /// Returns the hints for zone and node. Under a preference every endpoint bears hints: one
    /// without would switch the preference off for the whole Service.
    fn hints<'a>(&'a self, carried: &SourceEndpoint<'a>) -> [Option<&'a str>; 2] {
        // No API server checks a zone; one that is checked in hints would have the whole copy
        // refused.
        let zone = carried.zone.filter(|zone| is_label_value(zone));
        let zone = zone.unwrap_or(&self.remote);
        let node = carried.node.unwrap_or(&self.remote);
        [
            self.stores.zone_hints.then_some(zone),
            self.stores.node_hints.then_some(node),
        ]
    }
}

/// Returns the rank of a refusal among those of a slice.
fn rank(refusal: &AddressRefusal) -> (u8, Option<&ClusterName>) {
    match refusal {
        AddressRefusal::NotRoutable(_) => (0, None),
        AddressRefusal::Outside(_) => (1, None),
        AddressRefusal::OfAnother(_, other) => (2, Some(other)),
    }
}
