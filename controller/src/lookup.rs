//! Single requests to API servers for what their watches do not show, or not for sure.

mod documents;
mod queue;

use std::time::Duration;

use causeway::api::discovery::is_unserved;
use causeway::api::ownership::other_writer;
use causeway::api::{self, SecretReference, bounds};
use causeway::domain::{ClusterName, ServiceKey};
use causeway_engine::model::{Failure, FailureKind, HubEvent, Propagation, Signal, SliceId};
use futures::AsyncReadExt as _;
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{GetParams, ListParams};
use kube::core::Request as ObjectRequest;
use kube::{Api, Client, Resource as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::timeout;

pub(crate) use self::documents::{Entries, Resources};
use self::documents::{Groups, Written};
pub use self::queue::{LookupQueue, REMEMBERED};
use crate::event::Event;
use crate::failure::{Classify as _, classify, is_absence};

/// Pause before a failed lookup is repeated.
pub const AGAIN: Duration = Duration::from_secs(5);

/// After how long a propagation is looked up again that has come to its end, or cannot be read.
pub const SELDOM: Duration = Duration::from_secs(300);

/// Maximum time of such a request.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Maximum size of a document or small object, in bytes. The OpenAPI document of
/// multicluster.x-k8s.io takes less than 200 KiB, the list of 500 groups about 125 KiB.
const DOCUMENT_MAX: usize = 1024 * 1024;
/// Maximum size of a ResourceBinding, in bytes: more than etcd stores.
const BINDING_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of versions of an API group whose resources are requested for one proof.
const PROOF_VERSIONS_MAX: usize = 16;

/// Looks up whether the MultiClusterService exists; the result comes as [`Event::LookedUp`].
pub async fn multi_cluster_service(hub: Client, key: ServiceKey, events: mpsc::Sender<Event>) {
    let api = Api::<api::MultiClusterService>::namespaced(hub, &key.namespace);
    let exists = match timeout(DEADLINE, api.get_metadata(&key.name)).await {
        Ok(Err(error)) if is_absence(&error, &key.name) => Ok(false),
        Ok(found) => found.map(|_| true).classified(),
        Err(_) => Err(Failure::timeout()),
    };
    tell(&events, Event::LookedUp { key, exists }).await;
}

/// Looks up the state of Karmada's propagation of a Service, by its ResourceBinding if there is
/// one; the result comes as [`Event::Propagated`].
pub async fn propagation(hub: Client, key: ServiceKey, events: mpsc::Sender<Event>) {
    let name = format!("{}-service", key.name);
    let path = format!(
        "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings/{name}",
        key.namespace
    );
    let binding = Request::get(path).body(Vec::new());
    let binding = binding.map_err(kube::Error::HttpError);
    let read = read::<Propagation>(&hub, binding, BINDING_MAX, DEADLINE).await;
    let outcome = match read {
        Ok(Err(error)) if is_absence(&error, &name) => Ok(Propagation::default()),
        Ok(binding) => binding.classified(),
        Err(failure) => Err(failure),
    };
    tell(&events, Event::Propagated { key, outcome }).await;
}

/// Looks up the Secret with the credentials of a member that refuses those that are known; the
/// result comes as of the watch of Secrets. Where there is none, that of the watch stands. The
/// request is a list, because the manifests do not grant get of Secrets.
pub async fn credentials(hub: Client, secret: SecretReference, events: mpsc::Sender<Event>) {
    let SecretReference { namespace, name } = secret;
    let api = Api::<Secret>::namespaced(hub, &namespace);
    let of_name = ListParams::default().fields(&format!("metadata.name={name}"));
    let is_named = |one: &Secret| one.metadata.name.as_ref() == Some(&name);
    let error = match timeout(DEADLINE, api.list(&of_name)).await {
        Ok(Ok(listed)) => match listed.items.into_iter().find(is_named) {
            Some(found) => {
                let event = HubEvent::Secrets(namespace, Signal::Applied(found));
                return tell(&events, Event::Hub(event)).await;
            }
            None => Failure::new(FailureKind::Other, "the Secret does not exist"),
        },
        Ok(Err(error)) => classify(&error),
        Err(_) => Failure::timeout(),
    };
    tracing::warn!(namespace, name, %error, "credentials not read");
}

/// Looks up the field manager that wrote a copy last, other than causeway; the result comes as
/// [`Event::Writer`].
pub async fn writer(
    member: Client,
    cluster: ClusterName,
    key: ServiceKey,
    slice: SliceId,
    events: mpsc::Sender<Event>,
) {
    let namespace = Some(&*slice.service.namespace);
    let slices = ObjectRequest::new(EndpointSlice::url_path(&(), namespace));
    let metadata = slices.get_metadata(&slice.name, &GetParams::default());
    let metadata = metadata.map_err(kube::Error::BuildRequest);
    let found = match read::<Written>(&member, metadata, DOCUMENT_MAX, DEADLINE).await {
        Ok(Err(error)) if is_absence(&error, &slice.name) => Ok(None),
        Ok(found) => found.classified().map(|found| {
            let metadata = found.into_metadata();
            let writer = other_writer(&metadata, "");
            writer.map(|manager| bounds::foreign(manager).to_string())
        }),
        Err(failure) => Err(failure),
    };
    let event = Event::Writer {
        cluster,
        key,
        slice,
        found,
    };
    tell(&events, event).await;
}

/// Gets a document. `None` where the answer is a 404, which proves nothing: any proxy may give it
/// ([`prove_unserved`]).
pub(crate) async fn document<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    deadline: Duration,
) -> Result<Option<T>, Failure> {
    match get(client, path, deadline).await? {
        Ok(document) => Ok(Some(document)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(classify(&error)),
    }
}

/// Answer to a request for an object.
pub(crate) enum Found<T> {
    /// The object.
    Object(T),
    /// The API server answers that the object does not exist.
    Absent,
    /// A 404 that names no object, which proves nothing: any proxy may give it
    /// ([`prove_unserved`]).
    Unserved,
}

/// Gets the object of that name.
///
/// # Errors
/// [`Failure`] where the answer is an error other than a 404.
pub(crate) async fn object<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    name: &str,
    deadline: Duration,
) -> Result<Found<T>, Failure> {
    match get(client, path, deadline).await? {
        Ok(object) => Ok(Found::Object(object)),
        Err(error) if is_absence(&error, name) => Ok(Found::Absent),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Found::Unserved),
        Err(error) => Err(classify(&error)),
    }
}

/// Resources of an API group that an API server seems not to serve.
pub(crate) struct UnservedResources<'a> {
    /// Name of the group.
    pub(crate) group: &'a str,
    /// Versions of the group that it seems not to serve.
    pub(crate) versions: &'a [&'a str],
    /// Plurals of the resources.
    pub(crate) plurals: &'a [&'a str],
}

/// Proves that the cluster with this kube-system UID does not serve these resources: its API server
/// lists none of these versions of the group, serves none of the resources in the versions that it
/// lists, and has that UID.
///
/// # Errors
/// [`Failure`] where the API server lists one of the versions, too many others or no group at all,
/// where it serves one of the resources in another version, where it has another UID, or where a
/// request fails.
pub(crate) async fn prove_unserved(
    client: &Client,
    uid: &str,
    unserved: UnservedResources<'_>,
    deadline: Duration,
) -> Result<(), Failure> {
    let UnservedResources {
        group,
        versions,
        plurals,
    } = unserved;
    let listed = get::<Groups>(client, "/apis", deadline).await?;
    let listed = listed.classified()?.of(group);
    let contradicts = || {
        let text = format!("API discovery contradicts itself on group {group}");
        Failure::new(FailureKind::Other, text)
    };
    if !is_unserved(&listed, group, versions) {
        return Err(contradicts());
    }
    let others = listed.groups.iter().flat_map(|one| &one.versions);
    if others.clone().count() > PROOF_VERSIONS_MAX {
        let text = format!("it serves more than {PROOF_VERSIONS_MAX} versions of group {group}");
        return Err(Failure::new(FailureKind::Other, text));
    }
    for other in others {
        let version = &other.version;
        let path = format!("/apis/{group}/{version}");
        let resources = document::<Resources>(client, &path, deadline).await?;
        let resources = resources.ok_or_else(contradicts)?;
        if let Some(plural) = plurals.iter().find(|plural| resources.has(plural)) {
            let text = format!("it serves {plural} in {version}");
            return Err(Failure::new(FailureKind::Other, text));
        }
    }
    if cluster_uid(client, deadline).await? != uid {
        let text = "another cluster answers (the UID of kube-system changed)";
        return Err(Failure::new(FailureKind::Other, text));
    }
    Ok(())
}

/// The namespace by whose UID a cluster is known.
const IDENTITY_NAMESPACE: &str = "kube-system";

/// Namespace, as far as it is read.
#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Identity,
}

#[derive(Default, Deserialize)]
struct Identity {
    uid: Option<String>,
}

/// Returns the UID of a cluster's kube-system namespace.
///
/// # Errors
/// [`Failure`] where it cannot be read within the deadline, or is empty.
pub(crate) async fn cluster_uid(client: &Client, deadline: Duration) -> Result<String, Failure> {
    let namespaces = ObjectRequest::new("/api/v1/namespaces");
    let namespace = namespaces.get_metadata(IDENTITY_NAMESPACE, &GetParams::default());
    let namespace = namespace.map_err(kube::Error::BuildRequest);
    let namespace = read::<Identified>(client, namespace, DOCUMENT_MAX, deadline).await?;
    let without = || Failure::new(FailureKind::Other, "its namespace kube-system has no UID");
    let is_uid = |uid: &String| (1..=bounds::UID).contains(&uid.len());
    let uid = namespace.classified()?.metadata.uid;
    uid.filter(is_uid).ok_or_else(without)
}

/// Gets a document or small object.
async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    deadline: Duration,
) -> Result<kube::Result<T>, Failure> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError);
    read(client, request, DOCUMENT_MAX, deadline).await
}

/// Sends a request, and decodes its answer of at most `most` bytes.
///
/// # Errors
/// [`Failure`] where the answer is late, too long, or cannot be read.
async fn read<T: DeserializeOwned>(
    client: &Client,
    request: kube::Result<Request<Vec<u8>>>,
    most: usize,
    deadline: Duration,
) -> Result<kube::Result<T>, Failure> {
    let request = request.classified()?;
    let answer = async {
        let stream = match client.request_stream(request).await {
            Ok(stream) => stream,
            Err(error) => return Ok(Err(error)),
        };
        let mut body = Vec::new();
        let mut bounded = stream.take(most as u64 + 1);
        bounded.read_to_end(&mut body).await.classified()?;
        if body.len() > most {
            let text = format!("its answer takes more than {} KiB", most / 1024);
            return Err(Failure::new(FailureKind::Excess, text));
        }
        let read: T = serde_json::from_slice(&body).classified()?;
        Ok(Ok(read))
    };
    let answer = timeout(deadline, answer).await;
    answer.map_err(|_| Failure::timeout())?
}

async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("lookup result dropped, shutting down");
    }
}

#[cfg(test)]
mod tests;
