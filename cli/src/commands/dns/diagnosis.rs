//! `diagnose(&MemberDns)`: evaluates each check of a member's DNS. Pure.

use causeway::api::multicluster::Version;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::jiff::Timestamp;

use super::corefile::{Corefile, Files, ZONE, ZoneState};
use super::gather::{MemberDns, Server};
use super::image::Image;
use super::plan;
use super::site::{ConfigMaps, NAMESPACE};
use crate::args::Multicluster;
use crate::observe::installation::Readable;
use crate::views::check::{Check, State};

/// Evaluates all checks of a member's DNS. `given` is the form that the user states for the image.
pub(super) fn diagnose(member: &MemberDns, fix: &str, given: Option<Multicluster>) -> Vec<Check> {
    let mut checks = vec![Check::new("member", State::Healthy, &member.title)];
    checks.push(imports(&member.imports));
    match &member.coredns {
        Ok(Some(server)) => checks.extend(of_server(server, fix, given)),
        Ok(None) => {
            let message = format!("no Deployment in {NAMESPACE} is CoreDNS");
            let check = Check::new("CoreDNS", State::Unhealthy, message);
            checks.push(check.remedy(
                "the zone is served by CoreDNS 1.12.2 or later, or by what the cluster's DNS has for it: docs/clusterset.md",
            ));
        }
        Err(why) => checks.push(unchecked("CoreDNS", why)),
    }
    checks.extend(node_local(&member.node_local));
    checks
}

fn unchecked(name: &str, why: impl std::fmt::Display) -> Check {
    Check::new(name, State::Unknown, format!("not checked: {why}"))
}

/// Checks the served versions: CoreDNS uses the client of v1alpha1 (coredns/coredns,
/// `plugin/kubernetes/controller.go`).
fn imports(served: &Readable<Vec<Version>>) -> Check {
    const NAME: &str = "definition of ServiceImport";
    match served {
        Err(why) => unchecked(NAME, why),
        Ok(versions) if versions.contains(&Version::V1alpha1) => Check::new(
            NAME,
            State::Healthy,
            "served as v1alpha1, which CoreDNS reads",
        ),
        Ok(versions) if versions.is_empty() => {
            let check = Check::new(NAME, State::Unhealthy, "not served by the member");
            check.remedy("kubectl mcs join brings it; or kubectl apply -f manifests/crds/member/")
        }
        Ok(_) => {
            let message = "not served as v1alpha1, and CoreDNS reads no other version";
            let check = Check::new(NAME, State::Unhealthy, message);
            check.remedy(
                "kubectl apply --server-side -f manifests/crds/member/ there, which serves both",
            )
        }
    }
}

fn of_server(server: &Server, fix: &str, given: Option<Multicluster>) -> Vec<Check> {
    let mut checks = vec![deployment(server), rights(server, fix)];
    let maps = match &server.maps {
        Ok(maps) => maps,
        Err(why) => {
            checks.push(image(server, given, None));
            checks.push(unchecked("Corefile", why));
            return checks;
        }
    };
    match plan::corefile(&server.site, maps) {
        Ok((_, corefile)) => {
            let answer = corefile.answer();
            checks.push(image(server, given, Some(&answer)));
            checks.push(zone(&answer, fix));
            checks.push(roll_out(server, maps, &corefile));
        }
        Err(why) => {
            checks.push(image(server, given, None));
            let check = Check::new("Corefile", State::Unknown, why.to_string());
            checks.push(check.remedy(format!(
                "see that a server block of it serves {ZONE}: docs/clusterset.md"
            )));
        }
    }
    checks
}

fn deployment(server: &Server) -> Check {
    let site = &server.site;
    let (available, wanted) = site.available;
    let message = format!(
        "Deployment {NAMESPACE}/{}: {available} of {wanted} replicas are available",
        site.name
    );
    match available < wanted {
        false => Check::new("CoreDNS", State::Healthy, message),
        true => Check::new("CoreDNS", State::Unhealthy, message).remedy(format!(
            "kubectl -n {NAMESPACE} describe deployment {name}; kubectl -n {NAMESPACE} logs deployment/{name}",
            name = site.name
        )),
    }
}

/// Checks that the image supports the form of the Corefile, or the form of the planned one.
fn image(server: &Server, given: Option<Multicluster>, answer: Option<&ZoneState>) -> Check {
    const NAME: &str = "image";
    let (name, image) = (&server.site.image, Image::of(&server.site.image));
    let used = match answer {
        Some(ZoneState::Served(form, _)) => Some(*form),
        _ => None,
    };
    let look = |what: &str| {
        format!(
            "kubectl -n {NAMESPACE} exec deployment/{} -c {} -- /coredns {what}",
            server.site.name, server.site.container
        )
    };
    match (used.or(given), image) {
        (Some(Multicluster::Plugin), _) if given != Some(Multicluster::Plugin) => {
            let message = format!(
                "{name}: its name does not show whether it has the plugin coredns/multicluster"
            );
            let check = Check::new(NAME, State::Unknown, message);
            check.remedy(format!(
                "{} lists dns.multicluster if it has",
                look("-plugins")
            ))
        }
        (Some(form), _) if given == Some(form) => Check::new(
            NAME,
            State::Healthy,
            format!("{name}, which has it by --image-has"),
        ),
        (_, Image::Has(version)) => Check::new(
            NAME,
            State::Healthy,
            format!("CoreDNS {version} ({name}) can serve the zone"),
        ),
        (_, Image::Lacks(version)) => {
            let message = format!(
                "CoreDNS {version} ({name}) has no option multicluster, and does not start with a Corefile that has it"
            );
            let check = Check::new(NAME, State::Unhealthy, message);
            check.remedy(
                "bring CoreDNS 1.12.2 or later, which Kubernetes 1.35 has; or, if the image is built with the plugin \
                 coredns/multicluster, give --image-has=plugin",
            )
        }
        (_, Image::Unknown) => {
            let message = format!("{name}: its name shows no version of CoreDNS");
            let check = Check::new(NAME, State::Unknown, message);
            check.remedy(format!(
                "{} prints it; from 1.12.2 on give --image-has=option with --fix",
                look("-version")
            ))
        }
    }
}

fn rights(server: &Server, fix: &str) -> Check {
    const NAME: &str = "rights of CoreDNS";
    match &server.missing_rights {
        Err(why) => unchecked(NAME, why),
        Ok(missing) if missing.is_empty() => Check::new(
            NAME,
            State::Healthy,
            "lists and watches ServiceImports and EndpointSlices",
        ),
        Ok(missing) => {
            let missing: Vec<_> = missing.iter().map(|one| &*one.resource).collect();
            let message = format!(
                "account {NAMESPACE}/{} may not list and watch {}",
                server.site.account,
                missing.join(", ")
            );
            Check::new(NAME, State::Unhealthy, message).remedy(fix)
        }
    }
}

fn zone(answer: &ZoneState, fix: &str) -> Check {
    const NAME: &str = "Corefile";
    match answer {
        ZoneState::Served(form, keys) => {
            let how = match form {
                Multicluster::Option => "kubernetes with option multicluster",
                Multicluster::Plugin => "plugin multicluster",
            };
            let message = format!("server block {keys} serves {ZONE} ({how})");
            Check::new(NAME, State::Healthy, message)
        }
        ZoneState::Nothing => {
            let message = format!("no server block serves {ZONE}");
            Check::new(NAME, State::Unhealthy, message).remedy(fix)
        }
        ZoneState::WithoutOption(keys) => {
            let message = format!(
                "kubernetes in server block {keys} has zone {ZONE} without option multicluster: it answers with the cluster's own Services"
            );
            Check::new(NAME, State::Unhealthy, message).remedy(fix)
        }
        ZoneState::Other(keys, plugins) => {
            let message = format!(
                "server block {keys} answers for {ZONE} without multicluster: it has {plugins}"
            );
            let check = Check::new(NAME, State::Unhealthy, message);
            check.remedy(format!(
                "if nobody needs it, delete that server block; then: {fix}"
            ))
        }
    }
}

/// Checks that the pods have read the current Corefile, or reload a changed one.
fn roll_out(server: &Server, maps: &ConfigMaps, corefile: &Corefile) -> Check {
    const NAME: &str = "roll-out";
    if corefile.reloads() {
        let message = "plugin reload reads a change within two minutes or so";
        return Check::new(NAME, State::Healthy, message);
    }
    let changed = maps.values().filter_map(changed_at).max();
    let started = match &server.pods {
        Ok(pods) => pods
            .iter()
            .filter_map(|pod| started_at(pod, &server.site.container))
            .min(),
        Err(why) => return unchecked(NAME, why),
    };
    let (Some(changed), Some(started)) = (changed, started) else {
        let message = "the Corefile has no plugin reload, and when it changed or its pods started is not known";
        return Check::new(NAME, State::Unknown, message);
    };
    match started < changed {
        false => Check::new(
            NAME,
            State::Healthy,
            "every pod started after the last change",
        ),
        true => {
            let message = format!(
                "the Corefile has no plugin reload, and a pod runs since {started:.0}, before the last change at {changed:.0}"
            );
            let restart = format!(
                "kubectl -n {NAMESPACE} rollout restart deployment {}",
                server.site.name
            );
            Check::new(NAME, State::Unhealthy, message).remedy(restart)
        }
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
    const NAME: &str = "NodeLocal DNSCache";
    let text = match found {
        Ok(None) => return None,
        Err(why) => return Some(unchecked(NAME, why)),
        Ok(Some(text)) => text,
    };
    Some(match Corefile::read(text, "/etc/Corefile", &Files::new()) {
        Err(why) => {
            let message = format!(
                "the Corefile of ConfigMap {NAMESPACE}/node-local-dns cannot be followed: {why}"
            );
            Check::new(NAME, State::Unknown, message)
        }
        Ok(corefile) if corefile.has_block_of_zone() => Check::new(
            NAME,
            State::Healthy,
            format!("has a server block for {ZONE}"),
        ),
        Ok(_) => {
            let message = format!(
                "has no server block for {ZONE}: pods that use it do not reach CoreDNS for its names"
            );
            Check::new(NAME, State::Unhealthy, message).remedy(format!(
                "kubectl -n {NAMESPACE} edit configmap node-local-dns: repeat the server block of cluster.local for {ZONE}"
            ))
        }
    })
}
