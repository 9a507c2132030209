//! Namespaces of the hub that may hold the members' credentials.
//!
//! A Cluster names its Secret and the address that receives the token. A user with write access to
//! Clusters must not be able to send Secrets of other namespaces to an address of their own. This
//! program therefore follows the rule of the controller's `--secret-namespace`.

use std::collections::BTreeSet;

use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use k8s_openapi::api::apps::v1::Deployment;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::karmada;

/// Controller flag that names the namespaces of credentials, and its environment variable.
const FLAG: &str = "--secret-namespace=";
const VARIABLE: &str = "CAUSEWAY_SECRET_NAMESPACE";
/// Controller flag that names the namespaces of ClusterProfiles, and its environment variable.
const PROFILES_FLAG: &str = "--cluster-profiles=";
const PROFILES_VARIABLE: &str = "CAUSEWAY_CLUSTER_PROFILES";
/// Name of the controller's Deployment and container.
pub(crate) const CONTROLLER: &str = "causeway-controller";
/// Namespace in which Karmada stores the Secrets of its Clusters.
const KARMADA_NAMESPACE: &str = "karmada-cluster";

/// Whether the members' credentials may be read in a namespace of the hub. The flags of the
/// controller's Deployment decide, or the manifests if no Deployment of the hub shows its flags.
/// Namespaces of the manifests need no right to read the Deployment.
///
/// # Errors
/// [`RequestError`] if the hub does not respond, or the user may not read the Deployment.
pub(crate) async fn may_read(hub: &ApiServer, namespace: &str) -> Result<bool, RequestError> {
    if namespace == MEMBERS_NAMESPACE {
        return Ok(true);
    }
    if let Some(allowed) = hub.secret_namespaces.get() {
        return Ok(allowed.contains(namespace));
    }
    // Members are read at once, and none waits for the refusal of another.
    match allowed(hub).await {
        Err(why) if why.is_missing_right() => {
            match namespace == KARMADA_NAMESPACE && karmada::is_served(hub).await? {
                true => Ok(true),
                false => Err(why),
            }
        }
        found => {
            let found = found?;
            let is_allowed = found.contains(namespace);
            // Another read may have been faster.
            hub.secret_namespaces.set(found).ok();
            Ok(is_allowed)
        }
    }
}

async fn allowed(hub: &ApiServer) -> Result<BTreeSet<String>, RequestError> {
    let found = match hub.get(hub.within(DEFAULT_NAMESPACE), CONTROLLER).await {
        Err(RequestError::NotFound { .. }) => None,
        found => found?,
    };
    if let Some(given) = found.as_ref().and_then(given) {
        return Ok(given);
    }
    let of_karmada = karmada::is_served(hub).await?.then_some(KARMADA_NAMESPACE);
    let allowed = of_karmada.into_iter().chain([MEMBERS_NAMESPACE]);
    Ok(allowed.map(ToOwned::to_owned).collect())
}

/// Returns the namespaces from which a controller of this Deployment reads credentials, or `None`
/// if its flags do not show them.
pub(crate) fn given(controller: &Deployment) -> Option<BTreeSet<String>> {
    let namespaces = namespaces(controller, FLAG, VARIABLE)?;
    Some(match namespaces.is_empty() {
        true => [MEMBERS_NAMESPACE.to_owned()].into(),
        false => namespaces,
    })
}

/// Returns the namespaces of the ClusterProfiles that a controller of this Deployment reads, as far
/// as its flags show them.
pub(crate) fn profile_namespaces(controller: &Deployment) -> BTreeSet<String> {
    namespaces(controller, PROFILES_FLAG, PROFILES_VARIABLE).unwrap_or_default()
}

/// Returns the namespaces that a flag or variable of a Deployment names, or `None` if the
/// Deployment does not show them.
fn namespaces(controller: &Deployment, flag: &str, variable: &str) -> Option<BTreeSet<String>> {
    let pod = controller.spec.as_ref()?.template.spec.as_ref()?;
    let containers = pod.containers.iter();
    let args = containers.flat_map(|one| one.args.iter().flatten());
    let args = args.filter_map(|arg| arg.strip_prefix(flag));
    let containers = pod.containers.iter();
    let mut variables = containers.flat_map(|one| one.env.iter().flatten());
    let variable = variables.find(|one| one.name == variable);
    let split = |value: &str| -> Vec<String> {
        value.split(',').map(|one| one.trim().to_owned()).collect()
    };
    let flags: BTreeSet<_> = args.flat_map(split).collect();
    match variable {
        _ if !flags.is_empty() => Some(flags),
        Some(variable) => Some(split(variable.value.as_deref()?).into_iter().collect()),
        None => Some(BTreeSet::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::answering;

    fn of(args: Value, env: Value) -> Option<Vec<String>> {
        let container = json!({ "name": "controller", "args": args, "env": env });
        let deployment = json!({ "metadata": {}, "spec": {
            "selector": {}, "template": { "spec": { "containers": [container] } } } });
        let deployment = serde_json::from_value(deployment).expect("a Deployment");
        given(&deployment).map(|all| all.into_iter().collect())
    }

    #[test]
    fn credentials_are_read_where_the_controller_reads_them() {
        let variable = |value: &str| json!([{ "name": VARIABLE, "value": value }]);
        let unseen =
            json!([{ "name": VARIABLE, "valueFrom": { "fieldRef": { "fieldPath": "x" } } }]);
        for (args, env, namespaces) in [
            (json!([]), json!([]), Some(&[MEMBERS_NAMESPACE][..])),
            (
                json!(["--secret-namespace=b,a"]),
                json!([]),
                Some(&["a", "b"]),
            ),
            (json!([]), variable("c"), Some(&["c"])),
            (json!(["--secret-namespace=a"]), variable("c"), Some(&["a"])),
            (json!([]), unseen, None),
        ] {
            let expected = namespaces.map(|all| all.iter().map(ToString::to_string).collect());
            assert_eq!(of(args.clone(), env), expected, "{args}");
        }
    }

    #[tokio::test]
    async fn unreadable_flags_are_read_again() {
        let mut is_first = true;
        let hub = answering(Side::Hub, move |request| {
            let is_deployment = request.uri().path().contains("/deployments/");
            let code = match is_deployment {
                true if std::mem::take(&mut is_first) => 403,
                true => 200,
                false => 404,
            };
            let args = ["--secret-namespace=vault"];
            let containers = json!([{ "name": "controller", "args": args }]);
            let deployment = json!({ "metadata": {}, "spec": {
                "selector": {}, "template": { "spec": { "containers": containers } } } });
            let status = json!({ "kind": "Status", "status": "Failure", "code": code });
            (code, if code == 200 { deployment } else { status })
        });
        let why = may_read(&hub, "vault").await.expect_err("no right");
        assert!(why.is_missing_right(), "{why}");
        assert!(may_read(&hub, "vault").await.expect("flags"));
        assert!(!may_read(&hub, "other").await.expect("flags"));
    }
}
