//! Objects of causeway on the hub.

use std::collections::BTreeSet;

use causeway::api::{Cluster, labels};
use causeway::domain::ServiceKey;
use causeway::domain::protected::MEMBERS_NAMESPACE;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::Request;
use super::archive::Archive;
use super::listing::{Listed, Listing, note_more};
use crate::cluster::api_server::RequestError;
use crate::cluster::credentials;
use crate::observe::once;
use crate::observe::verification::{KEY, LABEL, PREFIX, Verification};

/// Keys of Secrets whose values are public, or common words.
const PUBLIC: [&str; 7] = [
    "ca.crt",
    "caBundle",
    "tls.crt",
    "namespace",
    "username",
    "next-tls.crt",
    "type",
];

/// Results that the rest of the report depends on.
pub(super) struct Found {
    pub clusters: Vec<Cluster>,
    /// UID of the hub's namespace kube-system, which labels the objects that causeway writes into
    /// members.
    pub uid: Option<String>,
}

/// Reads the Secrets of causeway and of its members, and registers their values with the redactor.
/// Returns outlines without values for the archive.
pub(super) async fn know_secrets(request: &Request<'_>, archive: &mut Archive) -> Vec<Value> {
    let mut namespaces =
        BTreeSet::from([request.own_namespace.clone(), MEMBERS_NAMESPACE.to_owned()]);
    // Another request than the listing of objects, so that its error is recorded apart.
    let clusters = clusters(request, archive, "Clusters, which name Secrets").await;
    let references = clusters.into_iter().filter_map(|one| one.spec.secret_ref);
    namespaces.extend(references.map(|reference| reference.namespace));
    let mut outlines = Vec::new();
    for namespace in namespaces {
        match secrets(request, &namespace).await {
            Ok(secrets) => {
                for secret in secrets {
                    know(archive, &secret);
                    outlines.push(outline(secret));
                }
            }
            Err(error) => archive.missing(
                format!("Secrets of namespace {namespace}, by which their values are recognised"),
                error,
            ),
        }
    }
    outlines
}

/// Lists the Secrets of a namespace. Returns none of a namespace that a Cluster references and from
/// which the controller reads no credentials.
async fn secrets(request: &Request<'_>, namespace: &str) -> Result<Vec<Secret>, RequestError> {
    let hub = &request.hub;
    let is_own = namespace == request.own_namespace;
    if !is_own && !credentials::may_read(hub, namespace).await? {
        return Ok(Vec::new());
    }
    hub.list(hub.within(namespace), &ListParams::default())
        .await
}

/// Lists the Clusters. Records a failure as missing, as `what`.
async fn clusters(request: &Request<'_>, archive: &mut Archive, what: &str) -> Vec<Cluster> {
    match once::clusters(&request.hub).await {
        Ok(clusters) => clusters.unwrap_or_default(),
        Err(error) => {
            archive.missing(what, error);
            Vec::new()
        }
    }
}

fn know(archive: &mut Archive, secret: &Secret) {
    for (key, value) in secret.data.iter().flatten() {
        if !PUBLIC.contains(&key.as_str())
            && let Ok(text) = std::str::from_utf8(&value.0)
        {
            archive.know(text);
        }
    }
}

/// Returns an outline of a Secret: its metadata, its type, and the names and sizes of its keys.
fn outline(secret: Secret) -> Value {
    let keys = secret.data.iter().flatten();
    let keys: serde_json::Map<_, _> = keys
        .map(|(key, value)| (key.clone(), format!("{} bytes", value.0.len()).into()))
        .collect();
    let meta = secret.metadata;
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": secret.type_,
        "metadata": {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "creationTimestamp": meta.creation_timestamp,
            "labels": meta.labels,
            "annotations": meta.annotations,
        },
        "keys": keys,
    })
}

/// Adds the versions of this program and of the hub. Returns whether the hub responds.
pub(super) async fn versions(request: &Request<'_>, archive: &mut Archive) -> bool {
    let hub = &request.hub;
    let version = hub.request(hub.client.apiserver_version()).await;
    let answers = !matches!(version, Err(RequestError::Unreachable { .. }));
    let version = match version {
        Ok(version) => format!("{} ({})", version.git_version, version.platform),
        Err(error) => {
            let what = match answers {
                true => "version of the hub",
                false => "the hub and the members",
            };
            archive.missing(what, &error);
            "unknown".to_owned()
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    archive.text(
        "versions.txt",
        &format!("kubectl-mcs: v{own}\nhub: {version} at {}\n", hub.url()),
    );
    answers
}

/// Gathers objects and Events of the hub.
pub(super) async fn gather(request: &Request<'_>, archive: &mut Archive) -> Found {
    let hub = &request.hub;
    for listing in listings(request) {
        let listed = read(request, archive, &listing).await;
        archive.objects(format!("hub/objects/{}", listing.file()), listed.objects);
    }
    verified(request, archive).await;
    services(request, archive).await;
    definitions(request, archive).await;
    events(request, archive).await;
    let clusters = clusters(request, archive, "Clusters, which name the members").await;
    let uid = hub.uid().await;
    let uid = uid.map_err(|error| archive.missing("identity of the hub", error));
    Found {
        clusters,
        uid: uid.ok(),
    }
}

/// Returns the listings of objects that are archived without a filter.
fn listings(request: &Request<'_>) -> Vec<Listing> {
    let services = request.namespace.as_deref();
    let own = Some(request.own_namespace.as_str());
    let of_causeway = || format!("{}={}", labels::NAME, labels::MANAGER);
    let registration = "admissionregistration.k8s.io";
    let rbac = "rbac.authorization.k8s.io";
    let mut listings = vec![
        Listing::of("networking.karmada.io", "v1alpha1", "MultiClusterService").within(services),
        Listing::of("cluster.karmada.io", "v1alpha1", "Cluster"),
    ];
    listings.extend(Listing::clusterset(services));
    listings.extend([
        Listing::of("apps", "v1", "Deployment").within(own),
        Listing::of("apps", "v1", "ReplicaSet").within(own),
        Listing::of("", "v1", "Pod").within(own),
        Listing::of("discovery.k8s.io", "v1", "EndpointSlice").within(own),
        Listing::of("coordination.k8s.io", "v1", "Lease").within(own),
        Listing::of("", "v1", "ServiceAccount").within(own),
        Listing::of("policy", "v1", "PodDisruptionBudget").within(own),
        Listing::of("networking.k8s.io", "v1", "NetworkPolicy").within(own),
        Listing::of(rbac, "v1", "ClusterRole").labelled(of_causeway()),
        Listing::of(rbac, "v1", "ClusterRoleBinding").labelled(of_causeway()),
        Listing::of(rbac, "v1", "Role").within(own),
        Listing::of(rbac, "v1", "RoleBinding").within(own),
        Listing::of(registration, "v1", "MutatingWebhookConfiguration"),
        Listing::of(registration, "v1", "ValidatingWebhookConfiguration"),
    ]);
    listings
}

async fn read(request: &Request<'_>, archive: &mut Archive, listing: &Listing) -> Listed {
    match listing.read(&request.hub).await {
        Ok(listed) => {
            note_more(archive, &format!("{} of the hub", listing.title()), &listed);
            listed
        }
        Err(error) => {
            archive.missing(format!("{} of the hub", listing.title()), error);
            Listed::default()
        }
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Gathers the last results of `verify`. Each is a file of its own, because the redactor removes
/// the data of ConfigMaps.
async fn verified(request: &Request<'_>, archive: &mut Archive) {
    let listing = Listing::of("", "v1", "ConfigMap")
        .within(request.namespace.as_deref())
        .labelled(LABEL);
    let listed = read(request, archive, &listing).await;
    for (key, result) in listed.objects.iter().filter_map(result) {
        match serde_json::to_string_pretty(&result) {
            Ok(json) => {
                archive.text(format!("verify/{}/{}.json", key.namespace, key.name), &json);
            }
            Err(error) => archive.missing(format!("last result of verify of {key}"), error),
        }
    }
    archive.objects(format!("hub/objects/{}", listing.file()), listed.objects);
}

/// Returns the service and the result of a ConfigMap of `verify`. Returns `None` if another program
/// wrote the ConfigMap.
fn result(map: &Value) -> Option<(ServiceKey, Verification)> {
    let name = text(map, "/metadata/name").strip_prefix(PREFIX)?;
    let result = Verification::parse(text(map, &format!("/data/{KEY}")))?;
    let key = ServiceKey::new(text(map, "/metadata/namespace"), name);
    Some((key, result))
}

/// Gathers the Services of causeway's namespace, and those with the name of a MultiClusterService.
async fn services(request: &Request<'_>, archive: &mut Archive) {
    let listing = Listing::of("networking.karmada.io", "v1alpha1", "MultiClusterService");
    let mcs = listing
        .within(request.namespace.as_deref())
        .read(&request.hub)
        .await;
    let mcs = mcs.unwrap_or_default().objects;
    let named: BTreeSet<_> = mcs
        .iter()
        .map(|one| {
            (
                text(one, "/metadata/namespace"),
                text(one, "/metadata/name"),
            )
        })
        .collect();
    let own = request.own_namespace.as_str();
    let namespaces: BTreeSet<_> = named
        .iter()
        .map(|(namespace, _)| *namespace)
        .chain([own])
        .collect();
    let mut found = Vec::new();
    for namespace in namespaces {
        let listing = Listing::of("", "v1", "Service").within(Some(namespace));
        let listed = read(request, archive, &listing).await;
        found.extend(listed.objects.into_iter().filter(|service| {
            namespace == own || named.contains(&(namespace, text(service, "/metadata/name")))
        }));
    }
    archive.objects("hub/objects/services.yaml", found);
}

/// Gathers the CustomResourceDefinitions of the known groups without their long schemas.
async fn definitions(request: &Request<'_>, archive: &mut Archive) {
    const GROUPS: [&str; 4] = [
        "networking.karmada.io",
        "cluster.karmada.io",
        "work.karmada.io",
        "multicluster.x-k8s.io",
    ];
    let listing = Listing::of("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let listed = read(request, archive, &listing).await;
    let of_interest = listed
        .objects
        .into_iter()
        .filter(|one| GROUPS.contains(&text(one, "/spec/group")));
    let outlines = of_interest.map(|mut one| {
        let versions = one
            .pointer_mut("/spec/versions")
            .and_then(Value::as_array_mut);
        for version in versions
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            version.remove("schema");
        }
        one
    });
    archive.objects(
        "hub/objects/customresourcedefinitions.yaml",
        outlines.collect(),
    );
}

/// Gathers the Events of causeway's namespace, those of the controller, and those about
/// MultiClusterServices.
async fn events(request: &Request<'_>, archive: &mut Archive) {
    let services = request.namespace.as_deref();
    let own = Listing::of("", "v1", "Event").within(Some(&request.own_namespace));
    let recorded = Listing::of("", "v1", "Event").within(services);
    let listings = [
        own,
        recorded
            .clone()
            .with_fields("reportingComponent=causeway-controller"),
        recorded.with_fields("involvedObject.kind=MultiClusterService"),
    ];
    let mut seen = BTreeSet::new();
    let mut events = Vec::new();
    for listing in listings {
        let listed = read(request, archive, &listing).await;
        let mut new = |event: &Value| seen.insert(text(event, "/metadata/uid").to_owned());
        events.extend(listed.objects.into_iter().filter(|event| new(event)));
    }
    archive.objects("hub/events.yaml", events);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_verify_are_read_from_their_configmaps() {
        let stored = r#"{"time":"2026-11-21T00:00:00Z","results":[]}"#;
        let map = |name: &str, stored: &str| {
            json!({
                "metadata": {"name": name, "namespace": "shop"},
                "data": {KEY: stored},
            })
        };
        for (map, expected) in [
            (map("causeway-verify.foo", stored), Some("shop/foo")),
            (map("causeway-verify.foo", "{}"), None),
            (map("other", stored), None),
            (json!({"metadata": {"name": "causeway-verify.foo"}}), None),
        ] {
            let key = result(&map).map(|(key, _)| key.to_string());
            assert_eq!(key.as_deref(), expected, "{map}");
        }
    }
}
