//! Objects as kubectl treats them: applied from a manifest, deleted by name, printed as
//! `kind/name`.

pub(crate) mod preview;

use std::fmt::Debug;

use causeway::api::labels;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    Preconditions, PropagationPolicy, TypeMeta,
};
use kube::core::gvk::ParseGroupVersionError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::access::Side;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::term::exit::{CommandError, PROBLEM};
use crate::term::output::{self, OutputError};

/// Path of the containers of a Deployment.
pub(crate) const CONTAINERS: &str = "/spec/template/spec/containers";

/// Field manager of objects that this program applies or creates.
const FIELD_MANAGER: &str = "kubectl-mcs";

/// Field manager of merge patches, which change objects that may come from git. Flux removes fields
/// that are not in git from managers whose names begin with "kubectl".
const MERGE_MANAGER: &str = "causeway-mcs";

/// Failed write of an object, or invalid embedded manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("a built-in manifest does not read: {0}")]
    Yaml(#[from] serde_saphyr::Error),
    #[error("a built-in object is none: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a built-in object has no kind")]
    Untyped,
    #[error("a built-in object is of no known version: {0}")]
    Version(#[from] ParseGroupVersionError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(
        "{side}: another field manager changed what this would change back; nothing was applied. Take \
         the values over with --force-conflicts, or leave them as they are:\n{conflicts}"
    )]
    Conflicts { side: Side, conflicts: String },
}

impl CommandError for ObjectError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Result of applying an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    Created,
    Configured,
    Unchanged,
}

impl Applied {
    /// Compares an object before and after it was applied.
    fn of(before: Option<&DynamicObject>, after: &DynamicObject) -> Self {
        match before {
            None => Self::Created,
            Some(before) if desired(before) == desired(after) => Self::Unchanged,
            Some(_) => Self::Configured,
        }
    }

    /// Returns kubectl's word for the result.
    fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Parses a manifest with one or more documents.
pub(crate) fn parse(manifest: &str) -> Result<Vec<DynamicObject>, ObjectError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest)?;
    documents.into_iter().map(object).collect()
}

/// Parses an object from JSON.
pub(crate) fn object(value: Value) -> Result<DynamicObject, ObjectError> {
    Ok(serde_json::from_value(value)?)
}

/// Whether this program or its manifests created an object. The label of causeway identifies it.
pub(crate) fn is_managed(object: &DynamicObject) -> bool {
    let labels = object.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(labels::MANAGED_BY))
        .is_some_and(|manager| manager == labels::MANAGER)
}

/// Whether an object has the given kind.
pub(crate) fn is_a(object: &DynamicObject, kind: &str) -> bool {
    let types = object.types.as_ref();
    types.is_some_and(|types| types.kind == kind)
}

/// Returns `kind.group/name`, as kubectl prints objects.
pub(crate) fn title(object: &DynamicObject) -> String {
    let types = object.types.clone().unwrap_or_default();
    let kind = types.kind.to_lowercase();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match types.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// Whether the API server stores a change or only validates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    Real,
    Dry,
}

impl Run {
    /// Returns a run that changes nothing if `dry_run` is set.
    pub(crate) fn of(dry_run: bool) -> Self {
        match dry_run {
            true => Self::Dry,
            false => Self::Real,
        }
    }

    /// Returns the note behind a result, or an empty string.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::Real => "",
            Self::Dry => " (server dry run)",
        }
    }
}

/// Applies an object server-side, takes over fields of other managers, and prints the result.
pub(crate) async fn apply(
    server: &ApiServer,
    object: &DynamicObject,
    run: Run,
) -> Result<(), ObjectError> {
    apply_with(server, object, run, true).await
}

/// Applies an object server-side and prints the result. A dry run also prints a diff. Without
/// `force`, a field of another manager is an error.
pub(crate) async fn apply_with(
    server: &ApiServer,
    object: &DynamicObject,
    run: Run,
    force: bool,
) -> Result<(), ObjectError> {
    let before = stored(server, object).await?;
    let after = patch(server, object, run, force).await?;
    let applied = Applied::of(before.as_ref(), &after);
    output::result(format_args!(
        "{}: {} {}{}",
        server.side,
        title(object),
        applied.word(),
        run.note()
    ))?;
    if let (Run::Dry, Some(before), Applied::Configured) = (run, &before, applied) {
        let diff = preview::diff(before, &after)?;
        output::result(diff.trim_end())?;
    }
    Ok(())
}

/// Merges a patch into an object and prints nothing.
pub(crate) async fn merge<K: Clone + Debug + DeserializeOwned>(
    server: &ApiServer,
    api: &Api<K>,
    name: &str,
    patch: &Value,
    run: Run,
) -> Result<(), RequestError> {
    let parameters = PatchParams {
        dry_run: run == Run::Dry,
        field_manager: Some(MERGE_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    let merged = api.patch_metadata(name, &parameters, &patch);
    server.request(merged).await.map(drop)
}

/// Creates an object and prints nothing.
pub(crate) async fn create(server: &ApiServer, object: &DynamicObject) -> Result<(), ObjectError> {
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let api = api(server, object)?;
    server.request(api.create(&parameters, object)).await?;
    Ok(())
}

/// Applies an object server-side and prints nothing. Returns the stored object.
pub(crate) async fn apply_quietly(
    server: &ApiServer,
    object: &DynamicObject,
) -> Result<DynamicObject, ObjectError> {
    patch(server, object, Run::Real, true).await
}

/// Deletes an object and prints a line if the object existed.
pub(crate) async fn remove(server: &ApiServer, object: &DynamicObject) -> Result<(), ObjectError> {
    remove_with(server, object, Run::Real).await
}

/// Deletes an object, or only reads it in a dry run, and prints a line if the object existed.
pub(crate) async fn remove_with(
    server: &ApiServer,
    object: &DynamicObject,
    run: Run,
) -> Result<(), ObjectError> {
    let (existed, note) = match run {
        Run::Real => (delete(server, object).await?, ""),
        Run::Dry => (get(server, object).await?.is_some(), " (dry run)"),
    };
    if existed {
        let title = title(object);
        output::result(format_args!("{}: {title} deleted{note}", server.side))?;
    }
    Ok(())
}

async fn stored(
    server: &ApiServer,
    object: &DynamicObject,
) -> Result<Option<DynamicObject>, ObjectError> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    Ok(server.request(api(server, object)?.get_opt(name)).await?)
}

/// Applies an object. Takes over fields that causeway's own programs wrote even without `force`,
/// for example those of version 0.1.
async fn patch(
    server: &ApiServer,
    object: &DynamicObject,
    run: Run,
    force: bool,
) -> Result<DynamicObject, ObjectError> {
    match apply_patch(server, object, run, force).await {
        Err(ObjectError::Request(RequestError::Conflict { message, .. })) if is_own(&message) => {
            apply_patch(server, object, run, true).await
        }
        patched => patched,
    }
}

/// Whether a conflict names only causeway's own programs as managers. The API server names each
/// manager as `with "MANAGER"`.
fn is_own(conflict: &str) -> bool {
    let managers = conflict.split("with \"").skip(1);
    let mut managers = managers.map(|rest| rest.split('"').next()).peekable();
    managers.peek().is_some() && managers.all(|manager| manager == Some(labels::MANAGER))
}

async fn apply_patch(
    server: &ApiServer,
    object: &DynamicObject,
    run: Run,
    force: bool,
) -> Result<DynamicObject, ObjectError> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let parameters = PatchParams {
        dry_run: run == Run::Dry,
        force,
        ..PatchParams::apply(FIELD_MANAGER)
    };
    let api = api(server, object)?;
    let patch = Patch::Apply(object);
    Ok(server.request(api.patch(name, &parameters, &patch)).await?)
}

/// Removes the fields that the API server sets and the status, which controllers write at any time.
fn desired(object: &DynamicObject) -> DynamicObject {
    let mut object = object.clone();
    let meta = &mut object.metadata;
    meta.managed_fields = None;
    meta.resource_version = None;
    meta.generation = None;
    if let Some(data) = object.data.as_object_mut() {
        data.remove("status");
    }
    object
}

/// Deletes an object; one that bears a UID only if the stored object has the same. Returns true if
/// the object existed.
///
/// # Errors
/// [`RequestError::Conflict`] if the stored object has another UID.
pub(crate) async fn delete(
    server: &ApiServer,
    object: &DynamicObject,
) -> Result<bool, ObjectError> {
    let api = api(server, object)?;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let deleted = server.found(api.delete(name, &deletion(object))).await?;
    Ok(deleted.is_some())
}

fn deletion(object: &DynamicObject) -> DeleteParams {
    let only = |uid| Preconditions {
        uid: Some(uid),
        resource_version: None,
    };
    DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: object.metadata.uid.clone().map(only),
        ..DeleteParams::default()
    }
}

/// Reads the stored object. Returns `None` if the object does not exist, or if the server does not
/// serve its kind.
pub(crate) async fn get(
    server: &ApiServer,
    object: &DynamicObject,
) -> Result<Option<DynamicObject>, ObjectError> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    Ok(server.found(api(server, object)?.get(name)).await?)
}

fn api(server: &ApiServer, object: &DynamicObject) -> Result<Api<DynamicObject>, ObjectError> {
    let types: &TypeMeta = object.types.as_ref().ok_or(ObjectError::Untyped)?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    Ok(server.api_of(&resource, object.metadata.namespace.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observed_object_is_deleted_and_not_its_successor() {
        let mut object =
            object(serde_json::json!({"kind": "Cluster", "apiVersion": "a/v1"})).expect("one");
        assert!(deletion(&object).preconditions.is_none());
        object.metadata.uid = Some("observed".to_owned());
        let only = deletion(&object).preconditions.and_then(|only| only.uid);
        assert_eq!(only.as_deref(), Some("observed"));
    }

    #[test]
    fn fields_of_causeways_own_programs_are_taken_over() {
        for (conflict, own) in [
            (
                r#"Apply failed with 1 conflict: conflict with "causeway" using v1: .metadata.labels.a"#,
                true,
            ),
            (
                r#"2 conflicts: conflicts with "causeway": - .a conflicts with "kubectl-label" using v1: - .a"#,
                false,
            ),
            (r#"conflict with "causeway-fork" using v1: .a"#, false),
            ("the object has been modified", false),
        ] {
            assert_eq!(is_own(conflict), own, "{conflict}");
        }
    }

    #[test]
    fn object_is_unchanged_if_only_its_status_was_written_meanwhile() {
        let version = |resource_version: &str, zone: &str, ready: bool| {
            let cluster = serde_json::json!({
                "metadata": { "name": "member1", "resourceVersion": resource_version },
                "spec": { "zone": zone },
                "status": { "ready": ready },
            });
            object(cluster).expect("an object")
        };
        let before = version("1", "a", false);
        for (after, applied) in [
            (version("1", "a", false), Applied::Unchanged),
            (version("2", "a", true), Applied::Unchanged),
            (version("2", "b", false), Applied::Configured),
        ] {
            assert_eq!(Applied::of(Some(&before), &after), applied, "{after:?}");
        }
        assert_eq!(Applied::of(None, &before), Applied::Created);
    }

    #[test]
    fn mode_of_a_volume_in_a_manifest_is_an_integer() {
        let manifest = include_str!("../../../manifests/member/agent.yaml");
        let deployment = &parse(manifest).expect("objects")[0];
        let mode = "/spec/template/spec/volumes/0/secret/defaultMode";
        assert_eq!(deployment.data.pointer(mode), Some(&Value::from(0o440)));
    }

    #[test]
    fn objects_are_spoken_of_as_kubectl_does() {
        let manifest = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n---\n\
                        apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: b\n";
        let titles: Vec<_> = parse(manifest)
            .expect("two objects")
            .iter()
            .map(title)
            .collect();
        assert_eq!(
            titles,
            ["namespace/a", "clusterrole.rbac.authorization.k8s.io/b"]
        );
    }
}
