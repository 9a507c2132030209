//! Report of `diff`. Programs read this format, and its field names must not change.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::{DNSEndpoint, MultiClusterService, labels, ownership};
use causeway::domain::{self, ClusterName, ServiceKey};
use causeway_engine::explain::Diagnosis;
use causeway_engine::lists::{HubLists, MemberLists, Members, NameLists};
use causeway_engine::model::Failure;
use causeway_engine::preview::{CHOSEN_LATER, Preview};
use causeway_engine::reasons::Reason;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::Admitted;
use crate::observe::service::is_ready;
use crate::term::output::OutputError;

/// Changes that applying one MultiClusterService would cause.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub namespace: String,
    pub name: String,
    /// Warnings of the hub's admission.
    pub warnings: Vec<String>,
    /// Reasons that the changes are incomplete: unknown inputs beside the members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Change of the MultiClusterService, or `None` if it would not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Change>,
    /// Change of the DNSEndpoint on the hub, or `None` if it would not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_endpoint: Option<Change>,
    /// Names that ExternalDNS would not get, or not with all clusters, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpublished: Vec<Diagnosis>,
    /// Members that would change, and members that cannot be read.
    pub clusters: Vec<ClusterReport>,
}

/// Changes in one member.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterReport {
    pub cluster: String,
    /// Reason that the member cannot be read. Its changes are then unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    pub objects: Vec<Change>,
    /// Ready addresses that clients of the Service gain.
    pub gained: Vec<Address>,
    /// Ready addresses that clients of the Service lose.
    pub lost: Vec<Address>,
    /// Providers in other networks whose endpoints do not reach clients in this member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<Unreached>,
    /// Whether the member provides the service and gets the Service only now. Kubernetes creates
    /// its EndpointSlices later, and `gained` of no member includes its endpoints.
    pub endpoints_unknown: bool,
}

/// Provider in another network whose endpoints do not reach the clients of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unreached {
    pub provider: String,
    pub message: String,
    pub remedy: String,
    /// Whether the endpoints may become reachable without another change.
    pub pending: bool,
    /// Whether the provider is unreachable because its Nodes could not be read.
    #[serde(skip)]
    pub unread: bool,
}

/// Address of a ready endpoint, and the cluster of its pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Address {
    pub cluster: String,
    pub address: String,
}

/// Kind of change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    Created,
    Changed,
    Deleted,
}

/// Change of one object.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub kind: String,
    pub name: String,
    pub action: Action,
    /// Unified diff of the object's YAML.
    pub diff: String,
}

impl Report {
    pub(crate) fn new(
        key: &ServiceKey,
        admitted: Admitted,
        (hub, before): (&HubLists, &Members),
        after: &Preview,
    ) -> Result<Self, OutputError> {
        let stored = admitted.stored.as_ref();
        let requests = |one: &MultiClusterService| one.annotations().contains_key(labels::HOSTNAME);
        let requests_names = stored.into_iter().chain([&admitted.object]).any(requests);
        let [now, then] = [&hub.names, &after.names].map(|names| dns_endpoint(names, key));
        let dns_endpoint = change("hub", now, then)?;
        let object = change("hub", stored, Some(&admitted.object))?;
        let mut clusters = Vec::new();
        let wanted = domain::MultiClusterService::try_from(&admitted.object).ok();
        for (name, now) in before {
            let provides = wanted
                .as_ref()
                .is_some_and(|wanted| wanted.providers.includes(name));
            let report = ClusterReport::new(key, name, provides, now, after)?;
            clusters.extend(report);
        }
        Ok(Self {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            warnings: admitted.warnings,
            unknown: unknown(key, (hub, before), requests_names),
            object,
            dns_endpoint,
            unpublished: after.unpublished.clone(),
            clusters,
        })
    }

    /// Whether a member could not be compared, or another input is unknown.
    pub(crate) fn is_incomplete(&self) -> bool {
        let is_unread = |one: &Unreached| one.unread;
        let mut clusters = self.clusters.iter();
        let is_unread =
            |one: &ClusterReport| one.unread.is_some() || one.unreached.iter().any(is_unread);
        self.unknown.is_some() || clusters.any(is_unread)
    }

    /// Whether any object would change.
    pub(crate) fn has_changes(&self) -> bool {
        let changes = |cluster: &ClusterReport| !cluster.objects.is_empty();
        self.object.is_some() || self.dns_endpoint.is_some() || self.clusters.iter().any(changes)
    }
}

/// Returns the reasons that inputs beside the members are unknown: the Namespace, Karmada's import
/// of an exported service, and names in DNS if the service requests any.
fn unknown(
    key: &ServiceKey,
    (hub, members): (&HubLists, &Members),
    requests_names: bool,
) -> Option<String> {
    let mut read = members.values().flatten();
    let is_exported = read.any(|lists| !lists.exports.is_empty());
    let import = hub.unread_import(key).filter(|_| is_exported);
    let names = match &hub.names {
        NameLists::Unreadable(failure) if requests_names => Some(failure),
        _ => None,
    };
    let inputs = [
        (Reason::NamespaceNotRead, hub.unread_defaults(key)),
        (Reason::ImportNotRead, import),
        (Reason::NameNotRead, names),
    ];
    let unread = inputs.into_iter();
    let unread = unread.filter_map(|(reason, why)| Some(format!("{reason}: {}", why?)));
    let all: Vec<_> = unread.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the DNSEndpoint of a service, if it exists.
fn dns_endpoint<'a>(names: &'a NameLists, key: &ServiceKey) -> Option<&'a DNSEndpoint> {
    let NameLists::Listed { endpoints, .. } = names else {
        return None;
    };
    let mut endpoints = endpoints.iter();
    endpoints.find(|one| {
        one.name_any() == *key.name && one.namespace().as_deref() == Some(&*key.namespace)
    })
}

impl ClusterReport {
    /// Compares one member. Returns `None` if nothing would change.
    fn new(
        key: &ServiceKey,
        name: &ClusterName,
        provides: bool,
        now: &Result<MemberLists, Failure>,
        preview: &Preview,
    ) -> Result<Option<Self>, OutputError> {
        let mut report = Self {
            cluster: name.to_string(),
            unread: None,
            objects: Vec::new(),
            gained: Vec::new(),
            lost: Vec::new(),
            unreached: unreached(name, preview),
            endpoints_unknown: false,
        };
        let (now, then) = match (now, preview.members.get(name)) {
            (Ok(now), Some(Ok(then))) => (now, then),
            (Err(failure), _) | (_, Some(Err(failure))) => {
                report.unread = Some(failure.to_string());
                return Ok(Some(report));
            }
            (Ok(_), None) => return Ok(None),
        };
        let objects = &mut report.objects;
        objects.extend(changes(name, &now.namespaces, &then.namespaces)?);
        objects.extend(changes(name, &now.services, &then.services)?);
        objects.extend(changes(name, &now.slices, &then.slices)?);
        let (before, after) = (addresses(key, name, now), addresses(key, name, then));
        report.gained = after.difference(&before).cloned().collect();
        report.lost = before.difference(&after).cloned().collect();
        let has =
            |lists: &MemberLists| lists.services.iter().any(|one| one.name_any() == *key.name);
        report.endpoints_unknown = provides && !has(now) && has(then);
        let is_shown = !report.objects.is_empty() || !report.unreached.is_empty();
        Ok(is_shown.then_some(report))
    }
}

/// Lists the providers whose endpoints do not reach clients in a member, because no entry leads to
/// them from its network.
fn unreached(name: &ClusterName, preview: &Preview) -> Vec<Unreached> {
    let unreached = preview.unreached.iter();
    let unreached = unreached.filter(|one| one.consumer == *name);
    let unreached = unreached.map(|one| Unreached {
        provider: one.provider.to_string(),
        message: one.message.clone(),
        remedy: one.remedy.clone(),
        pending: one.is_pending,
        unread: one.is_unread,
    });
    unreached.collect()
}

/// Returns the ready addresses behind the Service in a member.
fn addresses(key: &ServiceKey, name: &ClusterName, lists: &MemberLists) -> BTreeSet<Address> {
    let of_slice = |slice: &EndpointSlice| {
        let source = ownership::source_member(slice.meta());
        let cluster = source.unwrap_or(name.as_str()).to_owned();
        let ready = slice.endpoints.iter().filter(|one| is_ready(one));
        let addresses = ready.flat_map(|endpoint| endpoint.addresses.clone());
        addresses
            .map(|address| Address {
                cluster: cluster.clone(),
                address,
            })
            .collect::<Vec<_>>()
    };
    let slices = lists.slices.iter().filter(|slice| {
        let service = slice.labels().get(labels::SERVICE_NAME);
        service.is_some_and(|service| **service == *key.name)
    });
    slices.flat_map(of_slice).collect()
}

/// Returns the changes of all objects of one kind.
fn changes<K>(name: &ClusterName, now: &[K], then: &[K]) -> Result<Vec<Change>, OutputError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let (now, then) = (by_name(now), by_name(then));
    let names: BTreeSet<_> = now.keys().chain(then.keys()).collect();
    let pairs = names.into_iter().map(|one| (now.get(one), then.get(one)));
    let changes = pairs.map(|(now, then)| change(name.as_str(), now.copied(), then.copied()));
    changes.filter_map(Result::transpose).collect()
}

fn by_name<K: Resource>(objects: &[K]) -> BTreeMap<String, &K> {
    objects.iter().map(|one| (one.name_any(), one)).collect()
}

/// Returns the change of one object, or `None` if the object does not change.
fn change<K>(
    cluster: &str,
    now: Option<&K>,
    then: Option<&K>,
) -> Result<Option<Change>, OutputError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let Some(either) = now.or(then) else {
        return Ok(None);
    };
    let (kind, name) = (K::kind(&()).into_owned(), either.name_any());
    let (old, new) = (yaml(now)?, yaml(then)?);
    if old == new {
        return Ok(None);
    }
    let action = match (now, then) {
        (None, _) => Action::Created,
        (_, None) => Action::Deleted,
        _ => Action::Changed,
    };
    let title = match either.namespace() {
        Some(namespace) => format!("{cluster} {kind} {namespace}/{name}"),
        None => format!("{cluster} {kind} {name}"),
    };
    let diff = TextDiff::from_lines(&old, &new);
    let mut diff = diff.unified_diff();
    let diff = diff.header(&format!("now   {title}"), &format!("after {title}"));
    Ok(Some(Change {
        kind,
        name,
        action,
        diff: diff.to_string(),
    }))
}

/// Returns the YAML of the fields that a user may write, or an empty string for no object.
fn yaml<K: Serialize>(object: Option<&K>) -> Result<String, OutputError> {
    let Some(object) = object else {
        return Ok(String::new());
    };
    let mut value = serde_json::to_value(object)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if value.get("kind").is_some_and(|kind| kind == "DNSEndpoint")
        && let Some(owner) = value.pointer_mut("/metadata/ownerReferences/0")
    {
        // A dry run makes up the UID of a new MultiClusterService.
        owner.as_object_mut().and_then(|owner| owner.remove("uid"));
    }
    if let Some(Value::Object(meta)) = value.get_mut("metadata") {
        for field in [
            "managedFields",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "selfLink",
        ] {
            meta.remove(field);
        }
    }
    name_chosen_ports(&mut value);
    Ok(serde_saphyr::to_string(&value)?)
}

/// Replaces each node port that the cluster has yet to choose with a description.
fn name_chosen_ports(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(name_chosen_ports),
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_port = name == "port" || name == "nodePort";
                match is_port && value.as_i64() == Some(CHOSEN_LATER.into()) {
                    true => *value = "a node port that the cluster chooses".into(),
                    false => name_chosen_ports(value),
                }
            }
        }
        _ => {}
    }
}
