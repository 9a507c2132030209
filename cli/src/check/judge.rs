//! `judge(&Installation)`: how each part is. Pure.

use std::collections::BTreeSet;

use causeway::api::condition;
use causeway::api::{Cluster, SyncMode};
use causeway::domain::protected::{DEFAULT_NAMESPACE as NAMESPACE, MEMBERS_NAMESPACE};
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;

use super::gather::{Installation, Seen, Webhook};
use super::rights::{ACCOUNT, Lacking};
use super::{Part, State};
use crate::hub::DEFINE;
use crate::lease;
use crate::misplaced::Misplaced;
use crate::snapshot::is_ready;

/// Says how each part of an installation is.
pub(super) fn judge(seen: &Installation) -> Vec<Part> {
    let mut parts = vec![Part::new("hub", State::Well, &seen.hub)];
    parts.extend(
        seen.definitions
            .iter()
            .map(|(kind, served)| definition(kind, served)),
    );
    parts.extend(
        seen.registrations
            .iter()
            .map(|(kind, found)| registration(kind, found)),
    );
    parts.extend(webhook_endpoints(seen));
    parts.extend(deployments(&seen.deployments));
    parts.push(controller(seen));
    parts.push(rights(&seen.lacking));
    parts.extend(secret_namespaces(seen));
    parts.extend(clusters(&seen.clusters));
    parts.extend(misplaced(&seen.misplaced));
    parts
}

fn unseen(name: impl Into<String>, why: impl std::fmt::Display) -> Part {
    Part::new(name, State::Unknown, format!("not looked at: {why}"))
}

fn definition(kind: &str, served: &Seen<bool>) -> Part {
    let name = format!("definition of {kind}");
    match served {
        Ok(true) => Part::new(name, State::Well, "served"),
        Ok(false) => Part::new(name, State::Wrong, "the hub does not serve it").mend(DEFINE),
        Err(why) => unseen(name, why),
    }
}

fn registration(kind: &str, found: &Seen<Option<Vec<Webhook>>>) -> Part {
    let apply = "kubectl mcs install, with --external --webhook-url on a hub without nodes; or kubectl apply -f manifests/hub/webhook-by-service.yaml, \
                 or options/webhook-by-url.yaml";
    let webhooks = match found {
        Err(why) => return unseen(kind, why),
        Ok(None) => {
            let message = "there is none called causeway: MultiClusterServices are not judged as they are applied";
            return Part::new(kind, State::Wrong, message).mend(apply);
        }
        Ok(Some(webhooks)) => webhooks,
    };
    let is_known = |client: &WebhookClientConfig| {
        client
            .ca_bundle
            .as_ref()
            .is_some_and(|bundle| !bundle.0.is_empty())
    };
    let unknown = webhooks.iter().find(|webhook| !is_known(&webhook.client));
    match (webhooks.first(), unknown) {
        (None, _) => Part::new(kind, State::Wrong, "it names no webhook").mend(apply),
        (_, Some(webhook)) => {
            let message = format!(
                "{} has no caBundle: the API server knows no webhook by it",
                webhook.name
            );
            Part::new(kind, State::Wrong, message).mend(
                "with --self-managed-certs the webhook fills it in: see its log; else see docs/certificates.md",
            )
        }
        (Some(_), None) => Part::new(kind, State::Well, "registered, and its caBundle is there"),
    }
}

/// Only a registration by the Service leads to endpoints of the hub.
fn webhook_endpoints(seen: &Installation) -> Option<Part> {
    let found = seen
        .registrations
        .iter()
        .filter_map(|(_, found)| found.as_ref().ok()?.as_ref());
    let by_service = found
        .flatten()
        .any(|webhook| webhook.client.service.is_some());
    if !by_service {
        return None;
    }
    let name = "webhook endpoints";
    let slices = match &seen.endpoints {
        Ok(slices) => slices,
        Err(why) => return Some(unseen(name, why)),
    };
    Some(match slices.iter().map(ready).sum() {
        0 => Part::new(
            name,
            State::Wrong,
            format!("Service {NAMESPACE}/causeway-webhook has no ready endpoint"),
        )
        .mend(format!(
            "kubectl -n {NAMESPACE} get pods; the /readyz of causeway-webhook says what it awaits"
        )),
        ready => Part::new(name, State::Well, format!("{ready} ready")),
    })
}

fn ready(slice: &EndpointSlice) -> usize {
    let endpoints = slice.endpoints.iter();
    endpoints.filter(|one| is_ready(one)).count()
}

fn deployments(found: &Seen<Vec<Deployment>>) -> Vec<Part> {
    let all = match found {
        Ok(all) => all,
        Err(why) => return vec![unseen("deployments", why)],
    };
    if all.is_empty() {
        let message = format!("none in {NAMESPACE}: causeway runs elsewhere, or not at all");
        return vec![Part::new("deployments", State::Unknown, message)];
    }
    all.iter().map(deployment).collect()
}

/// Whether it has all its pods, of the version of this program.
fn deployment(deployment: &Deployment) -> Part {
    let name = format!("deployment {}", deployment.name_any());
    let spec = deployment.spec.as_ref();
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status
        .and_then(|status| status.available_replicas)
        .unwrap_or_default();
    if available < wanted {
        let message = format!("{available} of {wanted} replicas are available");
        let remedy = format!(
            "kubectl -n {NAMESPACE} describe deployment {}",
            deployment.name_any()
        );
        return Part::new(name, State::Wrong, message).mend(remedy);
    }
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    let images = pod
        .into_iter()
        .flat_map(|pod| &pod.containers)
        .filter_map(|one| one.image.as_deref());
    let tags = images
        .filter_map(|image| image.rsplit_once(':'))
        .map(|(_, tag)| tag);
    let other = tags
        .into_iter()
        .find(|tag| tag.trim_start_matches('v') != env!("CARGO_PKG_VERSION"));
    let skew = other.map(|tag| {
        format!(
            "; its image is {tag}, this program {}",
            env!("CARGO_PKG_VERSION")
        )
    });
    let message = format!(
        "{available} of {wanted} replicas are available{}",
        skew.unwrap_or_default()
    );
    Part::new(name, State::Well, message)
}

fn controller(seen: &Installation) -> Part {
    let controller = &seen.controller;
    match (controller.holder(seen.now), controller.trouble(seen.now)) {
        (Some(holder), _) => Part::new("controller", State::Well, format!("{holder} leads")),
        (None, Some(trouble)) => Part::new("controller", State::Wrong, trouble).mend(lease::LOOK),
        (None, None) => unseen(
            "controller",
            "its Lease may not be seen, or is not asked for",
        ),
    }
}

fn rights(lacking: &Seen<Option<Vec<Lacking>>>) -> Part {
    let name = format!("rights of {ACCOUNT}");
    let lacking = match lacking {
        Ok(Some(lacking)) => lacking,
        Ok(None) => {
            let message = format!("{NAMESPACE} has no such account: the controller uses another");
            return Part::new(name, State::Unknown, message);
        }
        Err(why) => return unseen(name, why),
    };
    if lacking.is_empty() {
        return Part::new(name, State::Well, "it may watch what it needs of the hub");
    }
    let what = lacking.iter().map(|one| match &one.namespace {
        Some(namespace) => format!("{} in namespace {namespace}", one.resource),
        None => one.resource.clone(),
    });
    let what: Vec<_> = what.collect();
    let message = format!("it may not list and watch {}", what.join(", "));
    Part::new(name, State::Wrong, message).mend(
        "kubectl mcs install, with --karmada on Karmada; or kubectl apply -f manifests/hub/rbac.yaml, and of options/karmada.yaml \
         with the namespace of the Secrets",
    )
}

/// Whether the controller may use the Secrets that the Clusters name, where its flags are seen: it runs on the hub.
fn secret_namespaces(seen: &Installation) -> Option<Part> {
    let deployments = seen.deployments.as_ref().ok()?.iter();
    let controller = deployments
        .filter(|one| one.name_any() == "causeway-controller")
        .find_map(|one| one.spec.as_ref()?.template.spec.as_ref())?;
    let mut variables = controller
        .containers
        .iter()
        .flat_map(|one| one.env.iter().flatten());
    if variables.any(|one| one.name == "CAUSEWAY_SECRET_NAMESPACE") {
        return None;
    }
    let args = controller
        .containers
        .iter()
        .flat_map(|one| one.args.iter().flatten());
    let given: Vec<_> = args
        .filter_map(|arg| arg.strip_prefix("--secret-namespace="))
        .flat_map(|value| value.split(','))
        .collect();
    let used = |namespace: &str| match given.as_slice() {
        [] => namespace == MEMBERS_NAMESPACE,
        given => given.contains(&namespace),
    };
    let pushed = seen.clusters.as_ref().ok()?.iter();
    let pushed = pushed.filter(|cluster| cluster.spec.sync_mode != Some(SyncMode::Pull));
    let named = pushed.filter_map(|one| Some(one.spec.secret_ref.as_ref()?.namespace.as_str()));
    let missing: BTreeSet<_> = named.filter(|namespace| !used(namespace)).collect();
    if missing.is_empty() {
        return None;
    }
    let flags = missing
        .iter()
        .map(|one| format!("--secret-namespace={one}"));
    let message = format!(
        "Clusters name Secrets in {}, and causeway-controller is not started with {}",
        missing.iter().copied().collect::<Vec<_>>().join(", "),
        flags.collect::<Vec<_>>().join(" ")
    );
    let remedy = "kubectl mcs install --karmada, with the other flags of the installation; or add the flag to the Deployment";
    Some(Part::new("secret namespaces", State::Wrong, message).mend(remedy))
}

fn clusters(found: &Seen<Vec<Cluster>>) -> Vec<Part> {
    match found {
        Ok(all) if all.is_empty() => {
            let none = Part::new("clusters", State::Unknown, "none is joined");
            vec![none.mend("kubectl mcs join NAME --member-kubeconfig FILE")]
        }
        Ok(all) => all.iter().map(cluster).collect(),
        Err(why) => vec![unseen("clusters", why)],
    }
}

fn cluster(cluster: &Cluster) -> Part {
    let name = format!("cluster {}", cluster.name_any());
    if cluster.spec.sync_mode == Some(SyncMode::Pull) {
        return Part::new(
            name,
            State::Unknown,
            "in Pull mode, which causeway leaves out",
        );
    }
    let conditions = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    let Some(ready) = condition::find(conditions, condition::READY) else {
        return Part::new(name, State::Wrong, "the controller has not taken it up")
            .mend(lease::LOOK);
    };
    let healthy = [
        (condition::READY, condition::TRUE),
        (condition::CLUSTERSET_API, condition::TRUE),
        (condition::DELETIONS_SUSPENDED, condition::FALSE),
    ];
    let mut unmet = healthy.iter().filter_map(|(type_, status)| {
        condition::find(conditions, type_).filter(|found| found.status != *status)
    });
    match unmet.next() {
        None => Part::new(
            name,
            State::Well,
            format!("{} ({})", ready.reason, ready.message),
        ),
        Some(unmet) => {
            let message = format!(
                "{} is {}: {} ({})",
                unmet.type_, unmet.status, unmet.reason, unmet.message
            );
            Part::new(name, State::Wrong, message)
                .mend("kubectl mcs status; docs/troubleshooting.md#a-member-is-not-synced")
        }
    }
}

/// So many are shown one by one.
const SHOWN: usize = 5;

/// ServiceExports and ServiceImports that somebody made on the hub; nothing where there are none.
fn misplaced(found: &Seen<Vec<Misplaced>>) -> Vec<Part> {
    const NAME: &str = "exports on the hub";
    let all = match found {
        Ok(all) => all,
        Err(why) => return vec![unseen(NAME, why)],
    };
    let part = |one: &Misplaced| Part::new(NAME, State::Wrong, &one.message).mend(&one.remedy);
    let more = all.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| {
        let message = format!("{more} more ServiceExports and ServiceImports are on the hub");
        Part::new(NAME, State::Wrong, message).mend("kubectl get serviceexports,serviceimports -A")
    });
    all.iter().take(SHOWN).map(part).chain(more).collect()
}
