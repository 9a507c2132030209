//! Writes that must succeed.

use std::fmt::Debug;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    let deleted = api.delete(name, &DeleteParams::default()).await;
    deleted.unwrap_or_else(|e| panic!("cannot delete {name}: {e}"));
}

pub(super) async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = PatchParams::default();
    let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
    patched.unwrap_or_else(|e| panic!("cannot change {name}: {e}"));
}
