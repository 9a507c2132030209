//! `kubectl mcs install`: applies the definitions and the other manifests of a hub, and waits until
//! causeway is ready.

mod crds;
pub(crate) mod ready;
mod tunnel;

use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use causeway::domain::{KubernetesVersion, enrolment};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, ListParams};
use tokio::time::Instant;

use crate::args::{DryRun, InstallArgs};
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, allowed};
use crate::cluster::bundle;
use crate::cluster::bundle::parts::PartArgs;
use crate::cluster::definitions::{self, CLUSTERS, SERVICES};
use crate::cluster::helm::{self, Release};
use crate::cluster::images;
use crate::cluster::lease::{self, Controller};
use crate::cluster::objects::{self, ObjectError, Run, preview};
use crate::cluster::tunnel::authority::{AUTHORITY_SECRET, ENROLMENT_SECRET};
use crate::commands::membership::member;
use crate::term::exit::{CommandError, Failure};
use crate::term::output::{self, OutputError};

/// Namespace in which a Karmada control plane stores the members' credentials.
const KARMADA: &str = "karmada-cluster";

/// Failed installation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("the hub runs Kubernetes {0}; causeway needs 1.30 or later")]
    TooOld(String),
    #[error(
        "{title} on the hub is not managed by causeway and has no {fields}, which causeway needs; upgrade what installed it, such as Karmada. \
         Nothing was changed"
    )]
    Lacks { title: String, fields: String },
    #[error(
        "causeway on the hub is {release}, and what is applied beside Helm is lost at its next upgrade; upgrade it with Helm: \
         helm upgrade {name} CHART -n {namespace}. Nothing was changed. docs/install.md#with-helm says how to go from one to the other{hint}",
        name = release.name,
        namespace = release.namespace
    )]
    OfHelm {
        release: Release,
        /// Remedy for a user who wants the tunnel, or empty.
        hint: &'static str,
    },
    #[error(
        "the hub reaches {0} through causeway-tunnel, from which this would cut the controller off; give --tunnel HOST[:PORT] again. \
         Nothing was changed"
    )]
    LosesTunnel(String),
    #[error(
        "namespace {0} of the hub is terminating; wait until it is deleted and run this again: \
         kubectl wait --for=delete namespace/{0}"
    )]
    NamespaceEnds(&'static str),
    #[error(
        "the hub has no namespace {KARMADA}, in which a Karmada control plane keeps the members' credentials; leave --karmada out"
    )]
    NoKarmada,
    #[error(
        "the hub does not serve cert-manager.io/v1; install cert-manager first, or leave --cert-manager out: the webhook manages \
         its certificate itself"
    )]
    NoCertManager,
}

impl CommandError for InstallError {}

/// Installs causeway, or prints the objects of a dry run.
pub(crate) async fn run(hub: &HubArgs, args: &InstallArgs) -> Result<(), Failure> {
    let authority = member::certificates("--webhook-ca", args.parts.webhook_ca.as_deref())?;
    let mut parts = args.parts.clone();
    let mut chosen = bundle::chosen(&parts, &args.images, authority.as_deref())?;
    if args.dry_run == Some(DryRun::Client) {
        note_unread(args, &chosen)?;
        return Ok(output::result(output::manifest(&all(args, chosen)?)?)?);
    }
    let hub = ApiServer::hub(hub).await?;
    let version = check_version(&hub).await?;
    output::result(format_args!("hub: Kubernetes {version} at {}", hub.url()))?;
    check_helm(&hub, args).await?;
    if args.parts.cert_manager {
        check_cert_manager(&hub).await?;
    }
    if args.parts.karmada && !has_namespace(&hub, KARMADA).await? {
        return Err(InstallError::NoKarmada.into());
    }
    if tunnel::keep_options(&hub, &mut parts).await? {
        chosen = bundle::chosen(&parts, &args.images, authority.as_deref())?;
    }
    let mut absent = Vec::new();
    for namespace in [DEFAULT_NAMESPACE, MEMBERS_NAMESPACE, enrolment::NAMESPACE] {
        if !has_namespace(&hub, namespace).await? {
            absent.push(namespace);
        }
    }
    if args.images.registry.is_none() {
        keep_registries(&hub, &mut chosen).await?;
    }
    tunnel::check(&hub, &chosen).await?;
    if let Some(address) = &args.parts.tunnel {
        tunnel::add_secrets(&hub, address, parts.enrolment, &mut chosen).await?;
    }
    let mut definitions = Vec::new();
    if has_definitions(args) {
        definitions = crds::choose(&hub, &args.parts).await?;
    }
    let is_new = |object: &DynamicObject| {
        let namespace = object.metadata.namespace.as_deref();
        namespace.is_some_and(|one| absent.contains(&one))
    };
    let existing = chosen.iter().filter(|object| !is_new(object));
    let existing = definitions.iter().map(|one| &one.object).chain(existing);
    let checked = preview::check(&hub, existing, args.force_conflicts).await;
    if args.dry_run.is_none() {
        checked?;
        definitions::apply(&hub, &definitions, args.force_conflicts).await?;
        return apply(&hub, args, &chosen).await;
    }
    let all = definitions.iter().map(|one| &one.object).chain(&chosen);
    note_nodes(&hub, &chosen).await?;
    rehearse(&hub, all, is_new).await?;
    Ok(checked?)
}

/// Prints notes on the parts that only the hub could add to the objects of a client-side dry run.
fn note_unread(args: &InstallArgs, chosen: &[DynamicObject]) -> Result<(), OutputError> {
    if args.parts.tunnel.is_some() {
        output::progress(
            "note: the Secrets of the tunnel are left out: install creates them on the hub, and keeps those that are there",
        )?;
    }
    if args.images.registry.is_none() && chosen.iter().any(bundle::is_deployment) {
        output::progress(
            "note: the images are of registry causeway, because a client dry run reads no deployed \
             one; for another, give --registry",
        )?;
    }
    Ok(())
}

/// Applies all objects in a server-side dry run. Skips objects in a namespace that does not exist
/// yet.
async fn rehearse(
    hub: &ApiServer,
    all: impl Iterator<Item = &DynamicObject>,
    is_new: impl Fn(&DynamicObject) -> bool,
) -> Result<(), Failure> {
    for object in all {
        if is_new(object) {
            output::result(format_args!(
                "hub: {} created (dry run, not validated: its namespace does not exist yet)",
                objects::title(object)
            ))?;
        } else {
            objects::apply(hub, object, Run::Dry).await?;
        }
    }
    Ok(())
}

/// Applies all objects except the CRDs, and waits if requested.
async fn apply(
    hub: &ApiServer,
    args: &InstallArgs,
    chosen: &[DynamicObject],
) -> Result<(), Failure> {
    note_nodes(hub, chosen).await?;
    for object in chosen {
        if is_authority(object) {
            // Another process may have created one meanwhile, which this one must not replace.
            objects::create(hub, object).await?;
            output::result(format_args!("hub: {} created", objects::title(object)))?;
        } else {
            objects::apply_with(hub, object, Run::Real, args.force_conflicts).await?;
        }
    }
    finish(hub, args, chosen).await?;
    for object in bundle::superseded(&args.parts)?.iter().rev() {
        objects::remove(hub, object).await?;
    }
    Ok(())
}

fn is_authority(object: &DynamicObject) -> bool {
    let name = object.metadata.name.as_deref();
    let names = [AUTHORITY_SECRET, ENROLMENT_SECRET];
    objects::is_a(object, "Secret") && name.is_some_and(|name| names.contains(&name))
}

/// Waits if requested, and prints the next step.
async fn finish(
    hub: &ApiServer,
    args: &InstallArgs,
    chosen: &[DynamicObject],
) -> Result<(), Failure> {
    let runs_here = chosen.iter().any(bundle::is_deployment);
    let version = env!("CARGO_PKG_VERSION");
    if args.parts.crds_only {
        return Ok(());
    }
    if args.parts.secrets_only {
        return Ok(output::result(
            "causeway-tunnel finds its certificate in Secret causeway-tunnel; where Helm installs \
             causeway, run it with --set tunnel.enabled=true",
        )?);
    }
    if args.parts.external {
        return print_external(hub, &args.parts, version).await;
    }
    if !args.waiting.wait || !runs_here {
        return Ok(output::result(format_args!(
            "causeway v{version} is applied; check that it is running: kubectl mcs check"
        ))?);
    }
    let deployments = chosen.iter().filter(|object| bundle::is_deployment(object));
    let deployments = deployments.filter_map(|object| object.metadata.name.as_deref());
    let deadline = Instant::now() + args.waiting.timeout;
    ready::wait(hub, deployments, deadline, args.waiting.timeout).await?;
    if let Some(address) = &args.parts.tunnel {
        output::result(format_args!(
            "agents reach causeway-tunnel by Service causeway-tunnel-agents of type LoadBalancer, which {address} has to lead to; join a \
             member that the hub cannot dial: kubectl mcs join NAME --member-kubeconfig FILE --pull --tunnel {address}"
        ))?;
    }
    Ok(output::result(format_args!(
        "causeway v{version} is ready; join a member: kubectl mcs join NAME --member-kubeconfig FILE"
    ))?)
}

/// Prints the next step for programs that run outside the hub.
async fn print_external(hub: &ApiServer, parts: &PartArgs, version: &str) -> Result<(), Failure> {
    if let Some(address) = &parts.tunnel {
        output::result(format_args!(
            "start causeway-tunnel, which agents reach at {address}, with --tls-dir of the files in Secret causeway-tunnel there \
             and --front-bind=127.0.0.1:7080 if it runs beside the controller, because the front needs no credentials, and causeway-controller with --tunnel-front=http://HOST:7080 of it and, for members whose agents give the token, with \
             --tunnel-tls-dir of the files in Secret causeway-controller-tunnel"
        ))?;
    }
    // A Lease that the user may not read counts as no leader.
    let controller = Controller::of_manifests(hub).await?;
    if controller.holder(lease::now(hub).await).is_some() {
        return Ok(output::result(format_args!(
            "the hub is ready for causeway v{version}, and causeway-controller is running; replace programs of \
             another version, then check: kubectl mcs check"
        ))?);
    }
    output::result(format_args!(
        "the hub is ready for causeway v{version}; start causeway-webhook and causeway-controller with the tokens of Secrets \
         causeway-webhook-token and causeway-controller-token in namespace {DEFAULT_NAMESPACE}{}",
        match parts.webhook_url {
            Some(_) => ", unless they are running already",
            None => ", then register the webhook: run this again with --webhook-url",
        }
    ))?;
    if parts.karmada {
        output::result(format_args!(
            "start causeway-controller with {}: there Karmada keeps the members' credentials",
            bundle::KARMADA_SECRETS
        ))?;
    }
    Ok(())
}

/// Whether the definitions are among the objects to apply.
fn has_definitions(args: &InstallArgs) -> bool {
    !args.parts.skip_crds && !args.parts.secrets_only
}

/// Returns all objects to apply on a hub without foreign definitions.
fn all(args: &InstallArgs, chosen: Vec<DynamicObject>) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut all = Vec::new();
    if has_definitions(args) {
        all.push(SERVICES.definition()?);
        all.push(CLUSTERS.definition()?);
    }
    all.extend(chosen);
    Ok(all)
}

async fn check_version(hub: &ApiServer) -> Result<String, Failure> {
    let info = hub.request(hub.client.apiserver_version()).await?;
    match KubernetesVersion::of(&info) {
        Some(version) if version < KubernetesVersion::OLDEST_HUB => {
            Err(InstallError::TooOld(info.git_version).into())
        }
        _ => Ok(info.git_version),
    }
}

/// Checks that Helm does not own the objects to apply. A release without the definitions does not
/// own them, and none owns the Secrets of the tunnel.
async fn check_helm(hub: &ApiServer, args: &InstallArgs) -> Result<(), Failure> {
    if args.parts.secrets_only {
        return Ok(());
    }
    let crds_only = args.parts.crds_only;
    match helm::release(hub).await? {
        Some(release) if !crds_only || helm::has_definitions(hub, &release).await? => {
            let hint = match args.parts.tunnel {
                Some(_) => "; for the Secrets of the tunnel alone, add --secrets-only",
                None => "",
            };
            Err(InstallError::OfHelm { release, hint }.into())
        }
        _ => Ok(()),
    }
}

async fn check_cert_manager(hub: &ApiServer) -> Result<(), Failure> {
    let resources = hub.client.list_api_group_resources("cert-manager.io/v1");
    let found = hub.found(resources).await?;
    Ok(found.map(drop).ok_or(InstallError::NoCertManager)?)
}

/// Whether the hub has a namespace. One that is being deleted is an error.
async fn has_namespace(hub: &ApiServer, name: &'static str) -> Result<bool, Failure> {
    match hub.namespace(name).await? {
        Some(namespace) if namespace.metadata.deletion_timestamp.is_some() => {
            Err(InstallError::NamespaceEnds(name).into())
        }
        found => Ok(found.is_some()),
    }
}

/// Sets the registry of each image to that of an earlier installation. A Deployment that is not
/// there yet gets that of the others.
async fn keep_registries(hub: &ApiServer, chosen: &mut [DynamicObject]) -> Result<(), Failure> {
    let mut last = images::registry(hub).await?;
    for deployment in chosen.iter_mut().filter(|one| bundle::is_deployment(one)) {
        let stored = objects::get(hub, deployment).await?;
        let registry = stored.as_ref().and_then(bundle::registry);
        last = registry.map(ToOwned::to_owned).or(last);
        bundle::place(deployment, last.as_deref(), None);
    }
    Ok(())
}

/// Prints a note if the objects include pods and the hub has no Node to run them.
async fn note_nodes(hub: &ApiServer, chosen: &[DynamicObject]) -> Result<(), Failure> {
    if !chosen.iter().any(bundle::is_deployment) {
        return Ok(());
    }
    let one = ListParams::default().limit(1);
    let nodes = hub.list_metadata::<Node>(hub.all(), &one).await;
    if allowed(nodes)?.is_some_and(|nodes| nodes.is_empty()) {
        output::progress(
            "note: the hub has no nodes to run the pods; if the webhook and the controller run elsewhere, give --external",
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Command, CommandLine};

    fn args(line: &str) -> InstallArgs {
        let words = "kubectl-mcs install"
            .split(' ')
            .chain(line.split_whitespace());
        match CommandLine::try_parse_from(words).expect(line).command {
            Command::Install(args) => *args,
            other => panic!("not install: {other:?}"),
        }
    }

    #[test]
    fn what_is_printed_reads_back_as_what_would_be_applied() {
        for (line, first, count) in [
            ("", "multiclusterservices.networking.karmada.io", 37),
            (
                "--crds-only",
                "multiclusterservices.networking.karmada.io",
                2,
            ),
            ("--skip-crds --external", DEFAULT_NAMESPACE, 27),
            (
                "--skip-crds --cert-manager --karmada",
                DEFAULT_NAMESPACE,
                33,
            ),
            ("--skip-crds --tunnel tunnel.example", DEFAULT_NAMESPACE, 40),
        ] {
            let args = args(line);
            let chosen = bundle::chosen(&args.parts, &args.images, None).expect(line);
            let applied = all(&args, chosen).expect(line);
            let text = output::manifest(&applied).expect(line);
            let read = objects::parse(&text).expect(line);
            assert_eq!(read, applied, "{line}");
            assert_eq!(read[0].metadata.name.as_deref(), Some(first), "{line}");
            assert_eq!(read.len(), count, "{line}");
        }
    }

    #[test]
    fn an_authority_that_is_none_is_reported_before_anything_is_asked() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let pem = |file| member::certificates("--webhook-ca", Some(file));
        let error = pem(file.path()).expect_err("it is empty").to_string();
        assert!(error.contains("holds no certificate"), "{error}");
        let error = pem("/nowhere".as_ref()).expect_err("it is not there");
        assert!(error.to_string().contains("/nowhere"), "{error}");
    }
}
