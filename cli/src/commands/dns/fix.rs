//! `--fix`: carries out the plan. The rights come first: with the new Corefile alone CoreDNS would
//! not become ready.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use similar::TextDiff;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::DnsError;
use super::gather::{self, MemberDns};
use super::plan::{self, DnsPlan, Edit};
use super::site::NAMESPACE;
use crate::args::DnsArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::{self, FIELD_MANAGER, ObjectError, Run};
use crate::term::confirm::{self, Answer};
use crate::term::output;
use crate::term::output::OutputError;

/// Name of the ClusterRole and of its binding.
const ROLE: &str = "coredns-serviceimports";
/// Maximum time until the API server applies a new right.
const RIGHTS_WITHIN: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Writes the missing parts after confirmation. Returns whether the caller should check the member.
pub(super) async fn fix(
    member: &ApiServer,
    found: &MemberDns,
    args: &DnsArgs,
) -> Result<bool, DnsError> {
    let plan = plan::plan(found, args.image_has).map_err(|why| DnsError::Refused(why.into()))?;
    if plan == DnsPlan::default() {
        output::result("member: nothing to set up")?;
        return Ok(true);
    }
    show(&plan)?;
    let run = match args.dry_run {
        true => Run::Dry,
        false => Run::Real,
    };
    if run == Run::Real && !args.yes {
        agree(member)?;
    }
    if let Some(account) = &plan.grant {
        for object in grants(account)? {
            objects::apply(member, &object, run).await?;
        }
        if run == Run::Real {
            granted(member, account).await?;
        }
    }
    if let Some(edit) = &plan.edit {
        write(member, edit, run).await?;
    }
    Ok(run == Run::Real)
}

/// Prints the planned changes before the confirmation.
fn show(plan: &DnsPlan) -> Result<(), OutputError> {
    if let Some(account) = &plan.grant {
        output::result(format_args!(
            "# ClusterRole and ClusterRoleBinding {ROLE} let {NAMESPACE}/{account} list and watch ServiceImports and EndpointSlices"
        ))?;
    }
    let Some(edit) = &plan.edit else {
        return Ok(());
    };
    let name = format!(
        "ConfigMap {NAMESPACE}/{} {}",
        edit.location.config_map, edit.location.key
    );
    let (now, then) = (format!("now   {name}"), format!("after {name}"));
    let diff = TextDiff::from_lines(&edit.before, &edit.after);
    let diff = diff.unified_diff().header(&now, &then).to_string();
    output::result(diff.trim_end())
}

fn agree(member: &ApiServer) -> Result<(), DnsError> {
    let question = format!("Change the DNS of the member at {}?", member.url());
    match confirm::ask(question).map_err(DnsError::Input)? {
        Answer::Yes => Ok(()),
        Answer::No => Err(DnsError::Declined),
        Answer::Nobody => Err(DnsError::NotConfirmed),
    }
}

/// Returns a separate ClusterRole and its binding: the distribution owns CoreDNS' own ClusterRole.
fn grants(account: &str) -> Result<[DynamicObject; 2], ObjectError> {
    let group = "rbac.authorization.k8s.io";
    let rule = |group: &str, resource: &str| -> Value {
        json!({ "apiGroups": [group], "resources": [resource], "verbs": ["list", "watch"] })
    };
    Ok([
        objects::object(json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": ROLE },
            "rules": [
                rule("multicluster.x-k8s.io", "serviceimports"),
                rule("discovery.k8s.io", "endpointslices"),
            ],
        }))?,
        objects::object(json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": { "name": ROLE },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": ROLE },
            "subjects": [{ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": account }],
        }))?,
    ])
}

/// Waits until the member's API server applies the rights.
///
/// # Errors
/// `NoRights` after 30 s.
async fn granted(member: &ApiServer, account: &str) -> Result<(), DnsError> {
    let deadline = Instant::now() + RIGHTS_WITHIN;
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if gather::missing_rights(member, account).await?.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(DnsError::NoRights {
                account: format!("{NAMESPACE}/{account}"),
                seconds: RIGHTS_WITHIN.as_secs(),
            });
        }
    }
}

/// Writes one key of a ConfigMap, provided that the resource version is still the one that was
/// read.
async fn write(member: &ApiServer, edit: &Edit, run: Run) -> Result<(), DnsError> {
    let maps: Api<ConfigMap> = Api::namespaced(member.client.clone(), NAMESPACE);
    let (name, key) = (&edit.location.config_map, &edit.location.key);
    let word = match &edit.resource_version {
        Some(version) => {
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": version },
                "data": { key: edit.after },
            }));
            let parameters = PatchParams {
                dry_run: run == Run::Dry,
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            member
                .request(maps.patch(name, &parameters, &patch))
                .await?;
            "configured"
        }
        None => {
            let map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    ..ObjectMeta::default()
                },
                data: Some([(key.clone(), edit.after.clone())].into()),
                ..ConfigMap::default()
            };
            let parameters = PostParams {
                dry_run: run == Run::Dry,
                field_manager: Some(FIELD_MANAGER.to_owned()),
            };
            member.request(maps.create(&parameters, &map)).await?;
            "created"
        }
    };
    let dry_run = match run {
        Run::Real => "",
        Run::Dry => " (server dry run)",
    };
    Ok(output::result(format_args!(
        "{}: configmap/{name} {word}{dry_run}",
        member.side
    ))?)
}
