//! Health of an object for tools of GitOps: Argo CD by the health checks in `manifests/argocd`, run
//! by the Lua of Argo CD, and Flux by the library kstatus.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::causeway::manifest;
use crate::{Cluster, binaries};

/// Health of an object, as a tool reports it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// Its state, as one word.
    pub status: String,
    /// Its reason.
    pub message: String,
}

/// Returns the health that Argo CD reports with causeway's health checks.
pub fn in_argo_cd(object: &Value) -> Health {
    let patch = std::fs::read_to_string(manifest("argocd/argocd-cm.patch.yaml"));
    let patch: Value = serde_saphyr::from_str(&patch.expect("the health checks")).expect("YAML");
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, _) = version.split_once('/').unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let key = format!("resource.customizations.health.{group}_{kind}");
    let script = patch["data"][&key].as_str();
    run(&["argocd", script.expect(&key)], object)
}

/// Returns the status that kstatus reports.
pub fn in_kstatus(object: &Value) -> Health {
    run(&["kstatus"], object)
}

/// An object as it is stored.
pub async fn stored(cluster: &Cluster, args: &[&str]) -> Value {
    let args = ["get", "-o=json"].iter().chain(args).copied();
    let text = cluster.kubectl(args).await.ok();
    serde_json::from_str(&text).expect("JSON")
}

fn run(args: &[&str], object: &Value) -> Health {
    let mut command = Command::new(binaries::health());
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut running = command.spawn().expect("health runs");
    let mut input = running.stdin.take().expect("its input");
    input
        .write_all(object.to_string().as_bytes())
        .expect("written");
    drop(input);
    let output = running.wait_with_output().expect("its output");
    assert!(output.status.success(), "{args:?} of {object}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
