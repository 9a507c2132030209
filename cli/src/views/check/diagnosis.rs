//! Evaluates the checks of an installation. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::condition;
use causeway::api::{Cluster, SyncMode};
use causeway::domain::protected::DEFAULT_NAMESPACE as NAMESPACE;
use causeway_engine::messages::REPORT_SECRETS;
use causeway_engine::reasons::Reason;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;

use super::certificate;
use super::{Check, State};
use crate::cluster::api_server::DEFINE;
use crate::cluster::bundle;
use crate::cluster::cleanup::{cleaning, is_kept};
use crate::cluster::conditions::{Conditions as _, is_outdated};
use crate::cluster::credentials;
use crate::cluster::lease::{self, Controller};
use crate::observe::connect::{ConnectError, UNSERVED};
use crate::observe::installation::creation::Creation;
use crate::observe::installation::rights::MissingRight;
use crate::observe::installation::{Installation, Readable, Webhook, has_bundle, rollout};
use crate::observe::misplaced::Misplaced;
use crate::observe::service::is_ready;
use crate::term::table::listed;

/// Evaluates all checks of an installation.
pub(crate) fn diagnose(installation: &Installation) -> Vec<Check> {
    let mut checks = vec![Check::healthy("hub", &installation.hub)];
    let definitions = installation.definitions.iter();
    checks.extend(definitions.map(|(kind, served)| definition(kind, served)));
    let registrations = installation.registrations.iter();
    checks.extend(registrations.map(|(kind, found)| registration(kind, found)));
    checks.extend(webhook_endpoints(installation));
    checks.extend(certificate(installation));
    checks.push(creation(&installation.creation));
    checks.extend(deployments(&installation.deployments));
    checks.push(controller(installation));
    let accounts = installation.missing_rights.iter();
    checks.extend(accounts.map(|(account, missing)| rights(account, missing)));
    checks.extend(secret_namespaces(installation));
    checks.extend(clusters(installation));
    checks.extend(ending_tokens(installation));
    checks.extend(writable_leases(&installation.clusters));
    checks.extend(misplaced(&installation.misplaced));
    checks
}

fn definition(kind: &str, served: &Readable<bool>) -> Check {
    let name = format!("definition of {kind}");
    match served {
        Ok(true) => Check::healthy(name, "served"),
        Ok(false) => Check::unhealthy(name, "not served by the hub").remedy(DEFINE),
        Err(why) => Check::unchecked(name, why),
    }
}

fn registration(kind: &str, found: &Readable<Option<Vec<Webhook>>>) -> Check {
    let apply = "kubectl mcs install, with --external --webhook-url on a hub without nodes; or kubectl apply -f manifests/hub/webhook-by-service.yaml, \
                 or options/webhook-by-url.yaml";
    let webhooks = match found {
        Err(why) => return Check::unchecked(kind, why),
        Ok(None) => {
            let message = "no configuration named causeway: MultiClusterServices are not validated when they are applied";
            return Check::unhealthy(kind, message).remedy(apply);
        }
        Ok(Some(webhooks)) => webhooks,
    };
    let unknown = webhooks.iter().find(|one| !has_bundle(&one.client));
    match (webhooks.first(), unknown) {
        (None, _) => Check::unhealthy(kind, "contains no webhook").remedy(apply),
        (_, Some(webhook)) => {
            let message = format!(
                "{} has no caBundle: the API server cannot verify the webhook",
                webhook.name
            );
            Check::unhealthy(kind, message).remedy(
                "see the log of the webhook, which fills it in with --self-managed-certs, or docs/certificates.md",
            )
        }
        (Some(_), None) => Check::healthy(kind, "registered, with a caBundle"),
    }
}

/// Returns the webhooks of all configurations that were read.
fn webhooks(installation: &Installation) -> impl Iterator<Item = &Webhook> {
    let found = installation.registrations.iter();
    let found = found.filter_map(|(_, found)| found.as_ref().ok()?.as_ref());
    found.flatten()
}

/// Checks the endpoints of the webhook's Service. Returns `None` if no registration uses the
/// Service.
fn webhook_endpoints(installation: &Installation) -> Option<Check> {
    let mut webhooks = webhooks(installation);
    if !webhooks.any(|webhook| webhook.client.service.is_some()) {
        return None;
    }
    let name = "webhook endpoints";
    let slices = match &installation.endpoints {
        Ok(slices) => slices,
        Err(why) => return Some(Check::unchecked(name, why)),
    };
    Some(match slices.iter().map(ready).sum() {
        0 => Check::unhealthy(
            name,
            format!("Service {NAMESPACE}/causeway-webhook has no ready endpoint"),
        )
        .remedy(format!(
            "kubectl -n {NAMESPACE} get pods; /readyz of causeway-webhook names what it waits for"
        )),
        ready => Check::healthy(name, format!("{ready} ready")),
    })
}

/// Verifies the certificate of the webhook's Secret against each caBundle.
fn certificate(installation: &Installation) -> Option<Check> {
    const NAME: &str = "webhook certificate";
    let has_bundle = |webhook: &&Webhook| webhook.client.ca_bundle.is_some();
    let mut webhooks = webhooks(installation).filter(has_bundle).peekable();
    webhooks.peek()?;
    let chain = match &installation.certificate {
        Ok(Some(chain)) => chain,
        Ok(None) => {
            let message = "not in Secret causeway-webhook-tls: it is kept elsewhere";
            return Some(Check::skipped(NAME, message));
        }
        Err(why) if matches!(installation.creation, Creation::Unknown(_)) => {
            return Some(Check::unchecked(NAME, why));
        }
        Err(_) => {
            let message = "you may not get its Secret; the dry run shows whether it is trusted now";
            return Some(Check::skipped(NAME, message));
        }
    };
    let now = installation.now.as_second();
    let now = Duration::from_secs(u64::try_from(now).unwrap_or_default());
    let problem = webhooks.find_map(|webhook| {
        let why = certificate::problem(chain, &webhook.client, now)?;
        Some(format!(
            "the API server does not accept it for {}: {why}",
            webhook.name
        ))
    });
    Some(match problem {
        None => Check::healthy(NAME, "accepted by each caBundle"),
        Some(message) => Check::unhealthy(NAME, message)
            .remedy("see the log of the webhook; docs/certificates.md"),
    })
}

fn creation(creation: &Creation) -> Check {
    const NAME: &str = "creation of MultiClusterServices";
    match creation {
        Creation::Accepted => Check::healthy(NAME, "accepted in a dry run"),
        Creation::Denied => {
            let message = "the webhook answers: it denied the object of the dry run";
            Check::healthy(NAME, message)
        }
        Creation::Failed(why) | Creation::Unreachable(why) => {
            let check = Check::unhealthy(NAME, format!("fails in a dry run: {why}"));
            check.remedy(
                "see the log of the webhook and its registration; docs/certificates.md for its certificate",
            )
        }
        Creation::Unknown(why) => Check::unchecked(NAME, why),
    }
}

fn ready(slice: &EndpointSlice) -> usize {
    let endpoints = slice.endpoints.iter();
    endpoints.filter(|one| is_ready(one)).count()
}

fn deployments(found: &Readable<Vec<Deployment>>) -> Vec<Check> {
    let all = match found {
        Ok(all) => all,
        Err(why) => return vec![Check::unchecked("deployments", why)],
    };
    if all.is_empty() {
        let message = format!("none in {NAMESPACE}: causeway runs elsewhere, or not at all");
        return vec![Check::skipped("deployments", message)];
    }
    all.iter().map(deployment).collect()
}

/// Checks that a Deployment has all its pods, in the version of this program.
fn deployment(deployment: &Deployment) -> Check {
    let name = format!("deployment {}", deployment.name_any());
    let spec = deployment.spec.as_ref();
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status
        .and_then(|status| status.available_replicas)
        .unwrap_or_default();
    if let Some(message) = rollout(deployment) {
        let remedy = format!(
            "kubectl -n {NAMESPACE} describe deployment {}",
            deployment.name_any()
        );
        return Check::unhealthy(name, message).remedy(remedy);
    }
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    let images = pod
        .into_iter()
        .flat_map(|pod| &pod.containers)
        .filter_map(|one| one.image.as_deref());
    let other = images
        .filter_map(bundle::tag)
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
    Check::healthy(name, message)
}

fn controller(installation: &Installation) -> Check {
    let controller = &installation.controller;
    match (
        controller.holder(installation.now),
        controller.problem(installation.now),
    ) {
        (Some(holder), _) => Check::healthy("controller", format!("{holder} leads")),
        (None, Some(problem)) => Check::unhealthy("controller", problem).remedy(lease::REMEDY),
        (None, None) if matches!(controller, Controller::NoLease) => {
            Check::skipped("controller", "it runs without a Lease: --lease is empty")
        }
        (None, None) => Check::unchecked("controller", "you may not get its Lease"),
    }
}

fn rights(account: &str, missing_rights: &Readable<Option<Vec<MissingRight>>>) -> Check {
    let name = format!("rights of {account}");
    let missing_rights = match missing_rights {
        Ok(Some(missing_rights)) => missing_rights,
        Ok(None) => {
            let message = format!("{NAMESPACE} has no such account: the program uses another");
            return Check::skipped(name, message);
        }
        Err(why) => return Check::unchecked(name, why),
    };
    if missing_rights.is_empty() {
        return Check::healthy(name, "has every right of the manifests on the hub");
    }
    let what: Vec<_> = missing_rights.iter().map(ToString::to_string).collect();
    let mut message = format!("cannot {}", what.join(", "));
    if missing_rights.iter().any(|right| right.resource == "works") {
        message +=
            "; it cannot see which MultiClusterServices Karmada manages, and handles all of them";
    }
    Check::unhealthy(name, message).remedy(
        "kubectl mcs install, with --karmada on Karmada; or kubectl apply -f manifests/hub/rbac.yaml, and of options/karmada.yaml \
         with the namespace of the Secrets, and of options/cluster-profiles.yaml with that of the profiles",
    )
}

/// Checks that the controller may use the Secrets that the Clusters name. Returns `None` if no
/// controller on the hub shows its flags.
fn secret_namespaces(installation: &Installation) -> Option<Check> {
    let deployments = installation.deployments.as_ref().ok()?.iter();
    let mut controllers = deployments.filter(|one| one.name_any() == credentials::CONTROLLER);
    let given = credentials::given(controllers.next()?)?;
    let pushed = installation.clusters.as_ref().ok()?.iter();
    let pushed = pushed.filter(|cluster| cluster.takes_part());
    let named = pushed.filter_map(|one| Some(one.spec.secret_ref.as_ref()?.namespace.as_str()));
    let missing: BTreeSet<_> = named
        .filter(|namespace| !given.contains(*namespace))
        .collect();
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
    Some(Check::unhealthy("secret namespaces", message).remedy(remedy))
}

/// Warns that the karmada-agents of members in Pull mode may write the controller's Lease. The role
/// that `karmadactl register` creates does not restrict Leases by name.
fn writable_leases(found: &Readable<Vec<Cluster>>) -> Option<Check> {
    let clusters = found.as_ref().ok()?.iter();
    let pulled = clusters.filter(|cluster| cluster.spec.sync_mode == Some(SyncMode::Pull));
    let pulled: Vec<_> = pulled.map(ResourceExt::name_any).collect();
    if pulled.is_empty() {
        return None;
    }
    let message = format!(
        "the karmada-agents of members in Pull mode ({}) may update every Lease of the hub: whoever \
         holds the credentials of one can stop the controller's writes",
        listed(&pulled)
    );
    let remedy = "in ClusterRole system:karmada:CLUSTER:agent add resourceNames: [CLUSTER, \
                  karmada-agent-CLUSTER] to get and update of leases (docs/karmada.md)";
    Some(Check::new("leases", State::Warning, message).remedy(remedy))
}

/// Warns of tokens with less than a third of their validity left, which an administrator may have
/// to renew.
fn ending_tokens(installation: &Installation) -> impl Iterator<Item = Check> + '_ {
    let now = installation.now;
    let ending = installation.tokens.iter().filter(move |(_, validity)| {
        let left = validity.ends.duration_since(now);
        left * 3 < validity.ends.duration_since(validity.issued)
    });
    ending.map(move |(cluster, validity)| {
        let (state, verb) = match validity.ends <= now {
            true => (State::Unhealthy, "has ended at"),
            false => (State::Warning, "ends at"),
        };
        let message = format!("the token in its Secret {verb} {}", validity.ends);
        let renew = format!(
            "kubectl mcs join {cluster} --member-kubeconfig FILE --token-lifetime DURATION, or \
             whatever renews its Secret"
        );
        Check::new(format!("token of {cluster}"), state, message).remedy(renew)
    })
}

fn clusters(installation: &Installation) -> Vec<Check> {
    match &installation.clusters {
        Ok(all) if all.is_empty() => {
            let none = Check::skipped("clusters", "no member is joined");
            vec![none.remedy("kubectl mcs join NAME --member-kubeconfig FILE")]
        }
        Ok(all) => {
            let check = |one: &Cluster| match installation.answers.get(&one.name_any()) {
                Some(answer) => karmadas_cluster(one, answer),
                None => cluster(one),
            };
            all.iter().map(check).collect()
        }
        Err(why) => vec![Check::unchecked("clusters", why)],
    }
}

/// Reports a member of a Karmada control plane by its own response, because Karmada writes the
/// Ready condition.
fn karmadas_cluster(cluster: &Cluster, answer: &Result<(), ConnectError>) -> Check {
    let name = format!("cluster {}", cluster.name_any());
    match answer {
        Ok(()) => {
            let message = "its API server answers with the credentials on the hub";
            Check::healthy(name, message)
        }
        Err(why @ (ConnectError::Timeout(_) | ConnectError::Failed(_))) => {
            let message = format!("its API server was not reached from here ({why})");
            Check::new(name, State::Unknown, message)
                .remedy("see Ready of its MultiClusterServices")
        }
        Err(
            why @ (ConnectError::SecretForbidden(_)
            | ConnectError::FlagsForbidden(_)
            | ConnectError::OfProfile { .. }
            | ConnectError::OfAgent(_)
            | ConnectError::Tunnel(_)),
        ) => Check::unchecked(name, why),
        Err(why) => Check::unhealthy(name, why.to_string()),
    }
}

fn cluster(cluster: &Cluster) -> Check {
    let name = format!("cluster {}", cluster.name_any());
    if !cluster.takes_part() {
        return Check::skipped(name, UNSERVED).remedy(REPORT_SECRETS);
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        let finalizers = cluster.finalizers().join(", ");
        let message = format!("being deleted (finalizers: {finalizers})");
        return match is_kept(cluster) {
            true => Check::unhealthy(name, message + &cleaning(cluster)).remedy(lease::REMEDY),
            false => Check::unhealthy(name, message),
        };
    }
    let Some(ready) = cluster.condition(condition::READY) else {
        return Check::unhealthy(name, "not processed by the controller yet").remedy(lease::REMEDY);
    };
    let healthy = [
        (condition::READY, condition::TRUE),
        (condition::CLUSTERSET_API, condition::TRUE),
        (condition::DELETIONS_SUSPENDED, condition::FALSE),
    ];
    let unmet: Vec<_> = healthy
        .iter()
        .filter_map(|(type_, status)| {
            let found = cluster.condition(type_)?;
            (found.status != *status).then_some(found)
        })
        .map(|unmet| {
            let condition = format!("{} is {}", unmet.type_, unmet.status);
            format!("{condition}: {} ({})", unmet.reason, unmet.message)
        })
        .collect();
    if !unmet.is_empty() {
        return Check::unhealthy(name, unmet.join("; "))
            .remedy("kubectl mcs status; docs/troubleshooting.md#a-member-is-not-synced");
    }
    if is_outdated(ready, cluster.metadata.generation) {
        return Check::unhealthy(name, "the last change is not applied yet").remedy(lease::REMEDY);
    }
    let api = cluster.condition(condition::CLUSTERSET_API);
    match api.filter(|api| api.reason == Reason::ManagedByOther) {
        Some(other) => Check::new(name, State::Warning, &other.message).remedy(
            "stop one of the two controllers there, or delete the named object if the program does \
             not run there; docs/clusterset.md#another-controller",
        ),
        None => {
            let message = format!("{} ({})", ready.reason, ready.message);
            Check::healthy(name, message)
        }
    }
}

/// Maximum number of misplaced objects that are listed individually.
const SHOWN: usize = 5;

/// Reports ServiceExports and ServiceImports that a user created on the hub. Returns no check if
/// the hub holds none.
fn misplaced(found: &Readable<Vec<Misplaced>>) -> Vec<Check> {
    const NAME: &str = "exports on the hub";
    let all = match found {
        Ok(all) => all,
        Err(why) => return vec![Check::unchecked(NAME, why)],
    };
    let check = |one: &Misplaced| Check::unhealthy(NAME, &one.message).remedy(&one.remedy);
    let more = all.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| {
        let message = format!("{more} more ServiceExports and ServiceImports are on the hub");
        Check::unhealthy(NAME, message).remedy("kubectl get serviceexports,serviceimports -A")
    });
    all.iter().take(SHOWN).map(check).chain(more).collect()
}
