//! Clusters that are made of ClusterProfiles (KEP-4322).

use causeway::api::{self, labels};
use causeway::domain::ClusterName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::messages;
use crate::model::{ObjectEvent, ObjectId, Profile, ProfileId, ProfileProblem, TimePoint, Write};
use crate::observed::Index;
use crate::observed::hub::ClusterView;

/// Returns the write that makes the Cluster of that name as its ClusterProfile says, or deletes it
/// because the profile is gone. Returns `None` if it is so, or is not causeway's to change.
pub(super) fn write(index: &Index, name: &ClusterName, now: TimePoint) -> Option<Write> {
    let profiles = index.profiles();
    let Some(cluster) = index.cluster(name) else {
        return creation(index.hub_uid(), profiles.eldest(name)?);
    };
    let made = cluster
        .made_of()
        .filter(|made| made.hub == index.hub_uid())?;
    if cluster.removed_since.is_some() {
        return None;
    }
    let object = ObjectId::Cluster(name.clone());
    match profiles.get(name, made.namespace) {
        Some(profile) => Some(Write::patch(object, patch(cluster, profile)?)),
        None => {
            let gone_at = profiles.gone_at(name, made.namespace);
            let is_due = gone_at.is_some_and(|at| at <= now);
            is_due.then(|| Write::delete(object, &cluster.uid, &cluster.resource_version))
        }
    }
}

/// Returns the time at which the Cluster is deleted because its ClusterProfile is gone, if that is
/// later than `now`.
pub(super) fn deleted_at(index: &Index, name: &ClusterName, now: TimePoint) -> Option<TimePoint> {
    let made = index.cluster(name)?.made_of()?;
    let at = index.profiles().gone_at(name, made.namespace);
    at.filter(|at| now < *at)
}

fn creation(hub: &str, profile: &Profile) -> Option<Write> {
    let spec = profile.spec().ok()?;
    let mut cluster = api::Cluster::new(&profile.id.name, spec);
    let labels = [
        (labels::HUB, hub),
        (labels::MANAGED_BY, labels::MANAGER),
        (labels::PROFILE_NAMESPACE, &profile.id.namespace),
    ];
    cluster.metadata = ObjectMeta {
        labels: Some(
            labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        ),
        finalizers: Some(vec![labels::FINALIZER.to_owned()]),
        ..cluster.metadata
    };
    let name = profile.access.as_ref().ok()?.cluster.clone();
    Some(Write::create(ObjectId::Cluster(name), &cluster))
}

/// Returns the patch of a Cluster that differs from what its profile says. A profile that names no
/// region leaves the region of the Cluster to people.
fn patch(cluster: &ClusterView, profile: &Profile) -> Option<Value> {
    let wanted = profile.spec().ok()?;
    let stored = &cluster.made_of()?.spec;
    let mut spec = json!({});
    let mut set = |field: &str, stored: Value, wanted: Value| {
        if stored != wanted {
            spec[field] = wanted;
        }
    };
    set(
        "apiEndpoint",
        json!(stored.api_endpoint),
        json!(wanted.api_endpoint),
    );
    set("proxyURL", json!(stored.proxy_url), json!(wanted.proxy_url));
    set(
        "insecureSkipTLSVerification",
        json!(stored.insecure_skip_tls_verification),
        json!(wanted.insecure_skip_tls_verification),
    );
    if wanted.region.is_some() {
        set("region", json!(stored.region), json!(wanted.region));
    }
    let differs = spec.as_object().is_some_and(|fields| !fields.is_empty());
    let metadata = json!({"resourceVersion": cluster.resource_version});
    differs.then(|| json!({"metadata": metadata, "spec": spec}))
}

/// ClusterProfile of which no Cluster is made.
#[derive(Clone, Debug)]
pub struct RefusedProfile {
    /// Its name and namespace.
    pub id: ProfileId,
    /// Its UID.
    pub uid: Box<str>,
    /// Event that says why.
    pub event: ObjectEvent,
}

/// Returns the ClusterProfiles of which no Cluster is made, each with the Event that says why.
/// `keeps_clusters` is whether the Clusters of the hub are causeway's.
pub fn refused_profiles(index: &Index, keeps_clusters: bool) -> Vec<RefusedProfile> {
    let all = index.profiles().all();
    let refused = all.filter_map(|profile| {
        let note = refusal(index, keeps_clusters, profile)?;
        let event = messages::profiles::not_used(note);
        Some(RefusedProfile {
            id: profile.id.clone(),
            uid: profile.uid.clone(),
            event,
        })
    });
    refused.collect()
}

fn refusal(index: &Index, keeps_clusters: bool, profile: &Profile) -> Option<String> {
    let access = match &profile.access {
        _ if !keeps_clusters => return Some(messages::profiles::KARMADA.to_owned()),
        Ok(access) => access,
        // Cluster managers make a profile first, and then fill in how the cluster is reached.
        Err(ProfileProblem::NoProvider { offered, .. }) if offered.is_empty() => return None,
        Err(problem) => return Some(problem.to_string()),
    };
    let cluster = index.cluster(&access.cluster)?;
    let is_other = !cluster.is_made_of(&profile.id.namespace);
    is_other.then(|| {
        let elder = cluster.made_of().map(|made| made.namespace);
        messages::profiles::name_taken(&access.cluster, elder)
    })
}
