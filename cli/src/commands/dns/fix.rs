//! `--fix`: carries out the plan. The rights come first: with the new Corefile alone CoreDNS would
//! not become ready. They also come before a change by hand.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use serde_json::json;
use similar::TextDiff;
use tokio::time::Instant;

use super::DnsError;
use super::gather::{self, MemberDns};
use super::plan::{self, DnsPlan, Edit, ZoneChange};
use super::site::{Location, NAMESPACE};
use crate::args::DnsArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::{self, ObjectError, Run};
use crate::cluster::wait;
use crate::term::confirm;
use crate::term::exit::Failure;
use crate::term::output;

/// Name of the ClusterRole and of its binding.
const ROLE: &str = "coredns-serviceimports";
/// Maximum time until the API server applies a new right.
const RIGHTS_WITHIN: Duration = Duration::from_secs(30);

/// Writes the missing parts after confirmation. Returns whether the caller should check the member.
///
/// # Errors
/// `ByHand` for a Corefile that the user changes. The rights are granted then.
pub(super) async fn fix(
    member: &ApiServer,
    found: &MemberDns,
    command: &str,
    args: &DnsArgs,
) -> Result<bool, Failure> {
    let plan = plan::plan(found, command, args.image_has).map_err(DnsError::Refused)?;
    if plan == DnsPlan::default() {
        output::result("member: nothing to set up")?;
        return Ok(true);
    }
    output::result(shown(&plan).trim_end())?;
    let run = Run::of(args.dry_run);
    let has_writes = plan.grant.is_some() || matches!(plan.zone, ZoneChange::Edit(_));
    if has_writes && run == Run::Real && !args.yes {
        let question = format!("Change the DNS of the member at {}?", member.url());
        confirm::ask(question, "changed")?;
    }
    if let Some(account) = &plan.grant {
        for object in grants(account)? {
            objects::apply(member, &object, run).await?;
        }
        if run == Run::Real {
            granted(member, account).await?;
        }
    }
    match plan.zone {
        ZoneChange::None => {}
        ZoneChange::Edit(edit) => write(member, &edit, run).await?,
        ZoneChange::ByHand(by_hand) => {
            let name = args.name.clone();
            return Err(DnsError::ByHand { name, by_hand }.into());
        }
    }
    Ok(run == Run::Real)
}

/// Returns the planned changes as the user reads them before the confirmation.
pub(super) fn shown(plan: &DnsPlan) -> String {
    let grant = plan.grant.iter().map(|account| {
        format!(
            "# ClusterRole and ClusterRoleBinding {ROLE} let {NAMESPACE}/{account} list and watch ServiceImports and EndpointSlices\n"
        )
    });
    let zone = match &plan.zone {
        ZoneChange::None => String::new(),
        ZoneChange::ByHand(by_hand) => {
            format!(
                "# To be added by hand to {}\n{}",
                by_hand.place, by_hand.text
            )
        }
        ZoneChange::Edit(edit) => {
            let Location { config_map, key } = &edit.location;
            let name = format!("ConfigMap {NAMESPACE}/{config_map} {key}");
            let (now, then) = (format!("now   {name}"), format!("after {name}"));
            let diff = TextDiff::from_lines(&edit.before, &edit.after);
            diff.unified_diff().header(&now, &then).to_string()
        }
    };
    grant.chain([zone]).collect()
}

/// Returns a separate ClusterRole and its binding: the distribution owns CoreDNS' own ClusterRole.
fn grants(account: &str) -> Result<Vec<DynamicObject>, ObjectError> {
    objects::parse(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {ROLE}}}
rules:
- {{apiGroups: [multicluster.x-k8s.io], resources: [serviceimports], verbs: [list, watch]}}
- {{apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {ROLE}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {ROLE}}}
subjects: [{{kind: ServiceAccount, namespace: {NAMESPACE}, name: '{account}'}}]
"
    ))
}

/// Waits until the member's API server applies the rights.
///
/// # Errors
/// `NoRights` after 30 s.
async fn granted(member: &ApiServer, account: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + RIGHTS_WITHIN;
    let waiting = format!("the rights of {NAMESPACE}/{account}");
    let missing = wait::none_left(deadline, "", async || {
        let missing = gather::missing_rights(member, account).await?;
        Ok((!missing.is_empty()).then_some(&waiting))
    });
    match missing.await? {
        None => Ok(()),
        Some(_) => Err(DnsError::NoRights {
            account: format!("{NAMESPACE}/{account}"),
            seconds: RIGHTS_WITHIN.as_secs(),
        }
        .into()),
    }
}

/// Writes one key of a ConfigMap, provided that the resource version is still the one that was
/// read.
async fn write(member: &ApiServer, edit: &Edit, run: Run) -> Result<(), Failure> {
    let (name, key) = (&edit.location.config_map, &edit.location.key);
    let patch = json!({
        "metadata": { "resourceVersion": edit.resource_version },
        "data": { key: edit.after },
    });
    let maps = member.within::<ConfigMap>(NAMESPACE);
    objects::merge(member, &maps, name, &patch, run).await?;
    Ok(output::result(format_args!(
        "{}: configmap/{name} configured{}",
        member.side,
        run.note()
    ))?)
}
