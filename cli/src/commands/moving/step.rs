//! Writes of a move. Each has an equivalent kubectl command.

use std::collections::BTreeMap;
use std::fmt::Debug;

use causeway::api::{Cluster, MultiClusterService, labels};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, Preconditions, PropagationPolicy};
use kube::{Api, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::karmada::work_kind;
use crate::cluster::objects::{self, Run};
use crate::observe::connect::{self, ConnectError};

/// Object at the resource version that was read. Writes apply to that version only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub version: String,
}

impl Target {
    /// Returns the target for an object with the given metadata.
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
        }
    }

    fn only(&self) -> DeleteParams {
        DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: Some(self.version.clone()),
            }),
            ..DeleteParams::default()
        }
    }
}

/// Single write of a move.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Merge patch of a Work.
    PatchWork(Target, Value),
    DeleteWork(Target),
    /// Deletion of an EndpointSlice in the named member.
    DeleteSlice(String, Target),
    /// Merge patch of a MultiClusterService.
    PatchService(Target, Value),
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Written,
    /// The object changed since the read or is gone: the caller reads it again.
    Overtaken,
}

/// Failure of a write.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The hub rejected the write.
    Hub(RequestError),
    /// The member rejected the write or is unreachable.
    Member(String),
}

impl StepError {
    fn member(name: &str, why: ConnectError) -> Self {
        Self::Member(format!("{name}: {why}"))
    }
}

impl Step {
    /// Removes the selected finalizers and the probe annotation from a MultiClusterService. Returns
    /// `None` if it has neither.
    pub(crate) fn release(
        object: &MultiClusterService,
        is_selected: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let finalizers = object.finalizers().iter();
        let (selected, others): (Vec<_>, Vec<_>) = finalizers.partition(|one| is_selected(one));
        let is_probed = object.annotations().contains_key(labels::PROBE);
        if selected.is_empty() && !is_probed {
            return None;
        }
        let mut metadata = json!({ "resourceVersion": object.metadata.resource_version });
        if !selected.is_empty() {
            metadata["finalizers"] = json!(others);
        }
        if is_probed {
            metadata["annotations"] = json!({ labels::PROBE: Value::Null });
        }
        let patch = json!({ "metadata": metadata });
        Some(Self::PatchService(Target::of(&object.metadata), patch))
    }

    /// Returns the member of the write. `None` for the hub.
    pub(crate) fn member(&self) -> Option<&str> {
        match self {
            Self::DeleteSlice(member, _) => Some(member),
            Self::PatchWork(..) | Self::DeleteWork(_) | Self::PatchService(..) => None,
        }
    }

    /// Returns the equivalent command without its cluster.
    pub(crate) fn command(&self) -> String {
        let patch = |kind: &str, target: &Target, patch: &Value| {
            format!(
                "kubectl -n {} patch {kind} {} --type=merge -p '{patch}'",
                target.namespace, target.name
            )
        };
        let delete = |kind: &str, target: &Target| {
            format!(
                "kubectl -n {} delete {kind} {}",
                target.namespace, target.name
            )
        };
        match self {
            Self::PatchWork(target, value) => patch("works.work.karmada.io", target, value),
            Self::DeleteWork(target) => delete("works.work.karmada.io", target),
            Self::DeleteSlice(_, target) => delete("endpointslice", target),
            Self::PatchService(target, value) => patch("mcs", target, value),
        }
    }

    /// Returns the equivalent command, with the member unless the write is on the hub.
    pub(crate) fn located_command(&self) -> String {
        match self.member() {
            Some(member) => format!("in {member}: {}", self.command()),
            None => self.command(),
        }
    }

    /// Carries out the write, provided that the object still has the version that was read.
    pub(crate) async fn write(
        &self,
        hub: &ApiServer,
        members: &mut Members<'_>,
    ) -> Result<Done, StepError> {
        let works = |target: &Target| -> Api<DynamicObject> {
            hub.api_of(&work_kind(), Some(&target.namespace))
        };
        let written = match self {
            Self::PatchWork(target, value) => {
                objects::merge(hub, &works(target), &target.name, value, Run::Real).await
            }
            Self::DeleteWork(target) => delete(hub, works(target), target).await,
            Self::PatchService(target, value) => {
                let api = hub.within::<MultiClusterService>(&target.namespace);
                objects::merge(hub, &api, &target.name, value, Run::Real).await
            }
            Self::DeleteSlice(member, target) => {
                let server = members.connect(hub, member).await?;
                let api = server.within::<EndpointSlice>(&target.namespace);
                let deleted = done(delete(&server, api, target).await);
                return deleted.map_err(|error| StepError::member(member, error.into()));
            }
        };
        done(written).map_err(StepError::Hub)
    }
}

async fn delete<K: Clone + Debug + DeserializeOwned>(
    server: &ApiServer,
    api: Api<K>,
    target: &Target,
) -> Result<(), RequestError> {
    let only = target.only();
    let deleted = api.delete(&target.name, &only);
    server.request(deleted).await.map(drop)
}

fn done(answer: Result<(), RequestError>) -> Result<Done, RequestError> {
    match answer {
        Ok(()) => Ok(Done::Written),
        Err(RequestError::NotFound { .. } | RequestError::Conflict { .. }) => Ok(Done::Overtaken),
        Err(error) => Err(error),
    }
}

/// Members with cached connections.
pub(crate) struct Members<'a> {
    clusters: &'a [Cluster],
    allow_insecure: bool,
    known: BTreeMap<String, ApiServer>,
}

impl<'a> Members<'a> {
    /// Returns the members of the Clusters, without any connection.
    pub(crate) fn new(clusters: &'a [Cluster], allow_insecure: bool) -> Self {
        Self {
            clusters,
            allow_insecure,
            known: BTreeMap::new(),
        }
    }

    async fn connect(&mut self, hub: &ApiServer, name: &str) -> Result<ApiServer, StepError> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let cluster = self.clusters.iter().find(|one| one.name_any() == name);
        let unjoined = || StepError::Member(format!("{name} is not joined"));
        let server = connect::connect(hub, cluster.ok_or_else(unjoined)?, self.allow_insecure)
            .await
            .map_err(|why| StepError::member(name, why))?;
        self.known.insert(name.to_owned(), server.clone());
        Ok(server)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_write_is_reported_as_the_command_that_does_the_same() {
        let target = |namespace: &str, name: &str| Target {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            version: "7".to_owned(),
        };
        let patch = json!({ "metadata": { "finalizers": null, "resourceVersion": "7" } });
        for (step, command) in [
            (
                Step::PatchWork(target("karmada-es-a", "foo-1"), patch.clone()),
                "kubectl -n karmada-es-a patch works.work.karmada.io foo-1 --type=merge -p \
                 '{\"metadata\":{\"finalizers\":null,\"resourceVersion\":\"7\"}}'",
            ),
            (
                Step::DeleteWork(target("karmada-es-a", "foo-1")),
                "kubectl -n karmada-es-a delete works.work.karmada.io foo-1",
            ),
            (
                Step::DeleteSlice("b".to_owned(), target("shop", "a-foo-abc")),
                "in b: kubectl -n shop delete endpointslice a-foo-abc",
            ),
            (
                Step::PatchService(target("shop", "foo"), patch),
                "kubectl -n shop patch mcs foo --type=merge -p '{\"metadata\":{\"finalizers\":null,\"resourceVersion\":\"7\"}}'",
            ),
        ] {
            assert_eq!(step.located_command(), command);
        }
    }
}
