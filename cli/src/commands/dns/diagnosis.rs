//! `diagnose(&MemberDns)`: evaluates each check of a member's DNS. Pure.

use causeway::api::multicluster::Version;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::jiff::Timestamp;

use super::corefile::{Corefile, Directories, ZONE, ZoneState};
use super::gather::{MemberDns, Server};
use super::image::Image;
use super::site::{ConfigMaps, NAMESPACE};
use crate::args::Multicluster;
use crate::observe::installation::Readable;
use crate::observe::installation::rights::MissingRight;
use crate::views::check::{Check, State};

const IMPORTS: &str = "definition of ServiceImport";
const COREDNS: &str = "CoreDNS";
const RIGHTS: &str = "rights of CoreDNS";
const IMAGE: &str = "image";
const COREFILE: &str = "Corefile";
const ROLL_OUT: &str = "roll-out";
const NODE_LOCAL: &str = "NodeLocal DNSCache";

/// Evaluates all checks of a member's DNS. `given` is the form that the user states for the image.
pub(super) fn diagnose(member: &MemberDns, fix: &str, given: Option<Multicluster>) -> Vec<Check> {
    let mut checks = vec![
        Check::healthy("member", &member.title),
        imports(&member.imports),
    ];
    match server(member) {
        Ok(server) => checks.extend(of_server(server, fix, given)),
        Err(check) => checks.push(check),
    }
    checks.extend(node_local(&member.node_local));
    checks
}

/// Returns the CoreDNS of a member, or the check that reports a missing or unreadable one.
pub(super) fn server(member: &MemberDns) -> Result<&Server, Check> {
    match &member.coredns {
        Ok(Some(server)) => Ok(server),
        Err(why) => Err(Check::unchecked(COREDNS, why)),
        Ok(None) => {
            let message = format!("no Deployment in {NAMESPACE} is CoreDNS");
            Err(Check::unhealthy(COREDNS, message).remedy(
                "the zone is served by CoreDNS 1.12.2 or later, or by what the cluster's DNS has for it: docs/clusterset.md",
            ))
        }
    }
}

/// Returns the ConfigMaps of CoreDNS, or the check that reports them as unreadable.
pub(super) fn maps(server: &Server) -> Result<&ConfigMaps, Check> {
    let maps = server.maps.as_ref();
    maps.map_err(|why| Check::unchecked(COREFILE, why))
}

/// Returns the missing rights of CoreDNS, or the check that reports them as unreadable.
pub(super) fn missing_rights(server: &Server) -> Result<&[MissingRight], Check> {
    let missing = server.missing_rights.as_deref();
    missing.map_err(|why| Check::unchecked(RIGHTS, why))
}

/// Checks the served versions: CoreDNS uses the client of v1alpha1 (coredns/coredns,
/// `plugin/kubernetes/controller.go`).
pub(super) fn imports(served: &Readable<Vec<Version>>) -> Check {
    match served {
        Err(why) => Check::unchecked(IMPORTS, why),
        Ok(versions) if versions.contains(&Version::V1alpha1) => {
            Check::healthy(IMPORTS, "served as v1alpha1, which CoreDNS reads")
        }
        Ok(versions) if versions.is_empty() => {
            Check::unhealthy(IMPORTS, "not served by the member")
                .remedy("join the member again; or kubectl apply -f manifests/crds/member/ there")
        }
        Ok(_) => Check::unhealthy(
            IMPORTS,
            "not served as v1alpha1, and CoreDNS reads no other version",
        )
        .remedy("kubectl apply --server-side -f manifests/crds/member/ there, which serves both"),
    }
}

fn of_server(server: &Server, fix: &str, given: Option<Multicluster>) -> Vec<Check> {
    let mut checks = vec![deployment(server)];
    let others = &server.site.others;
    if !others.is_empty() {
        let message = format!("{} in {NAMESPACE} is CoreDNS too", others.join(", "));
        checks.push(Check::unchecked("other CoreDNS", message));
    }
    checks.push(rights(server, fix));
    let maps = match maps(server) {
        Ok(maps) => maps,
        Err(check) => {
            checks.extend([image(server, given, None), check]);
            return checks;
        }
    };
    match server.site.corefile(maps) {
        Ok((_, corefile)) => {
            let answer = corefile.answer();
            checks.push(image(server, given, Some(&answer)));
            checks.push(zone(&answer, fix));
            checks.push(roll_out(server, maps, &corefile));
        }
        Err(unreadable) => {
            let remedy = format!("see that a server block of it serves {ZONE}: docs/clusterset.md");
            checks.push(image(server, given, None));
            checks.push(Check::unchecked(COREFILE, unreadable.why).remedy(remedy));
        }
    }
    checks
}

fn deployment(server: &Server) -> Check {
    let (name, (available, wanted)) = (&server.site.name, server.site.available);
    let message =
        format!("Deployment {NAMESPACE}/{name}: {available} of {wanted} replicas are available");
    if available >= wanted {
        return Check::healthy(COREDNS, message);
    }
    let kubectl = format!("kubectl -n {NAMESPACE}");
    let describe = format!("{kubectl} describe deployment {name}");
    let remedy = format!("{describe}; {kubectl} logs deployment/{name}");
    Check::unhealthy(COREDNS, message).remedy(remedy)
}

/// Checks that the image supports the form of the Corefile, or the form of the planned one.
pub(super) fn image(
    server: &Server,
    given: Option<Multicluster>,
    answer: Option<&ZoneState>,
) -> Check {
    let name = &server.site.image;
    let used = match answer {
        Some(ZoneState::Served(form, _)) => Some(*form),
        _ => given,
    };
    let unknown = |what: &str, flag: &str, hint: &str| {
        let (deployment, container) = (&server.site.name, &server.site.container);
        let look = format!("kubectl -n {NAMESPACE} exec deployment/{deployment} -c {container}");
        let message = format!("{name}: its name does not show {what}");
        let check = Check::new(IMAGE, State::Unknown, message);
        check.remedy(format!("{look} -- /coredns {flag} {hint}"))
    };
    match (used, Image::of(name)) {
        (Some(form), _) if given == Some(form) => {
            Check::healthy(IMAGE, format!("{name}, which has it by --image-has"))
        }
        (Some(Multicluster::Plugin), _) => unknown(
            "whether it has the plugin coredns/multicluster",
            "-plugins",
            "lists dns.multicluster if it has",
        ),
        (_, Image::Has(version)) => {
            let message = format!("CoreDNS {version} ({name}) can serve the zone");
            Check::healthy(IMAGE, message)
        }
        (_, Image::Lacks(version)) => {
            let message = format!(
                "CoreDNS {version} ({name}) has no option multicluster, and does not start with a Corefile that has it"
            );
            Check::unhealthy(IMAGE, message).remedy(
                "bring CoreDNS 1.12.2 or later, which Kubernetes 1.35 has; or, if the image is built with the plugin \
                 coredns/multicluster, give --image-has=plugin",
            )
        }
        (_, Image::Unknown) => unknown(
            "the version of CoreDNS",
            "-version",
            "prints it; from 1.12.2 on give --image-has=option with --fix",
        ),
    }
}

fn rights(server: &Server, fix: &str) -> Check {
    match missing_rights(server) {
        Err(check) => check,
        Ok([]) => Check::healthy(
            RIGHTS,
            "lists and watches ServiceImports and EndpointSlices",
        ),
        Ok(missing) => {
            let missing: Vec<_> = missing.iter().map(|one| &*one.resource).collect();
            let (account, missing) = (&server.site.account, missing.join(", "));
            let message = format!("account {NAMESPACE}/{account} may not list and watch {missing}");
            Check::unhealthy(RIGHTS, message).remedy(fix)
        }
    }
}

pub(super) fn zone(answer: &ZoneState, fix: &str) -> Check {
    match answer {
        ZoneState::Served(form, keys) => {
            let how = match form {
                Multicluster::Option => "kubernetes with option multicluster",
                Multicluster::Plugin => "plugin multicluster",
            };
            Check::healthy(
                COREFILE,
                format!("server block {keys} serves {ZONE} ({how})"),
            )
        }
        ZoneState::Nothing => {
            Check::unhealthy(COREFILE, format!("no server block serves {ZONE}")).remedy(fix)
        }
        ZoneState::WithoutOption(keys) => {
            let message = format!(
                "kubernetes in server block {keys} has zone {ZONE} without option multicluster: it answers with the cluster's own Services"
            );
            Check::unhealthy(COREFILE, message).remedy(fix)
        }
        ZoneState::Other(keys) => {
            let message = format!("server block {keys} answers for {ZONE} without multicluster");
            let remedy = format!("if nobody needs it, delete that server block; then: {fix}");
            Check::unhealthy(COREFILE, message).remedy(remedy)
        }
    }
}

/// Checks that the pods have read the current Corefile, or reload a changed one.
fn roll_out(server: &Server, maps: &ConfigMaps, corefile: &Corefile) -> Check {
    if corefile.reloads() {
        return Check::healthy(
            ROLL_OUT,
            "plugin reload reads a change within two minutes or so",
        );
    }
    let pods = match &server.pods {
        Ok(pods) => pods.iter(),
        Err(why) => return Check::unchecked(ROLL_OUT, why),
    };
    let (name, container) = (&server.site.name, &server.site.container);
    let started = pods.filter_map(|pod| started_at(pod, container)).min();
    let changed = maps.values().filter_map(changed_at).max();
    match (started, changed) {
        (Some(started), Some(changed)) if started < changed => {
            let message = format!(
                "the Corefile has no plugin reload, and a pod runs since {started:.0}, before the last change at {changed:.0}"
            );
            let remedy = format!("kubectl -n {NAMESPACE} rollout restart deployment {name}");
            Check::unhealthy(ROLL_OUT, message).remedy(remedy)
        }
        (Some(_), Some(_)) => Check::healthy(ROLL_OUT, "every pod started after the last change"),
        _ => Check::unchecked(
            ROLL_OUT,
            "the Corefile has no plugin reload, and when it changed or its pods started is not known",
        ),
    }
}

/// Returns the time of the last write to a ConfigMap according to its managed fields.
fn changed_at(map: &ConfigMap) -> Option<Timestamp> {
    let entries = map.metadata.managed_fields.iter().flatten();
    let times = entries.filter_map(|entry| entry.time.as_ref().map(|time| time.0));
    let created = map.metadata.creation_timestamp.as_ref().map(|time| time.0);
    times.chain(created).max()
}

fn started_at(pod: &Pod, container: &str) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.iter().flatten();
    let mut of_container = statuses.filter(|status| status.name == container);
    let running = of_container.find_map(|status| status.state.as_ref()?.running.as_ref())?;
    running.started_at.as_ref().map(|time| time.0)
}

/// Checks NodeLocal DNSCache. It forwards zones with a server block, and sends all other queries to
/// the resolvers of the node.
fn node_local(found: &Readable<Option<String>>) -> Option<Check> {
    let text = match found {
        Ok(text) => text.as_ref()?,
        Err(why) => return Some(Check::unchecked(NODE_LOCAL, why)),
    };
    let corefile = match Corefile::read(text, "/etc/Corefile", &Directories::new()) {
        Ok(corefile) => corefile,
        Err(why) => {
            let why = format!("ConfigMap {NAMESPACE}/node-local-dns: {why}");
            return Some(Check::unchecked(NODE_LOCAL, why));
        }
    };
    if corefile.has_block_of_zone() {
        return Some(Check::healthy(
            NODE_LOCAL,
            format!("has a server block for {ZONE}"),
        ));
    }
    let message = format!(
        "has no server block for {ZONE}: pods that use it do not reach CoreDNS for its names"
    );
    let remedy = format!(
        "kubectl -n {NAMESPACE} edit configmap node-local-dns: repeat the server block of cluster.local for {ZONE}"
    );
    Some(Check::unhealthy(NODE_LOCAL, message).remedy(remedy))
}
