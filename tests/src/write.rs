//! Writes that must succeed.

use std::fmt::Debug;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Deletes an object.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    let deleted = api.delete(name, &DeleteParams::default()).await;
    deleted.unwrap_or_else(|e| panic!("cannot delete {name}: {e}"));
}

/// Changes an object by a merge patch, and returns it as it is stored.
pub async fn merge<K>(api: &Api<K>, name: &str, patch: Value) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = PatchParams::default();
    let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
    patched.unwrap_or_else(|e| panic!("cannot change {name}: {e}"))
}

/// Changes the status of an object by a merge patch.
pub async fn merge_status<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + DeserializeOwned + Debug,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = api.patch_status(name, &params, &patch).await;
    patched.unwrap_or_else(|e| panic!("cannot change the status of {name}: {e}"));
}
