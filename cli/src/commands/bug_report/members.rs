//! Objects of causeway in each member, read with the credentials on the hub.

use std::time::Duration;

use causeway::api::labels;

use super::Request;
use super::archive::Archive;
use super::hub::Found;
use super::listing::{Listed, Listing, note_more};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::observe::connect::{self, ConnectError, Reading};

/// Maximum number of members that are read concurrently.
const AT_ONCE: usize = 8;
/// Maximum time of one member. Each list has a shorter limit.
const WITHIN: Duration = Duration::from_secs(120);

/// Objects and version that were read of a member.
struct Member {
    version: Result<String, RequestError>,
    lists: Vec<(Listing, Result<Listed, RequestError>)>,
}

/// Gathers the exports and imports of each member, and the objects that causeway wrote there.
pub(super) async fn gather(request: &Request<'_>, found: &Found, archive: &mut Archive) {
    let reading = Reading {
        allow_insecure: request.args.insecure.allow_insecure_members,
        within: WITHIN,
        at_once: AT_ONCE,
    };
    let clusters = found.clusters.iter();
    let read = connect::read_each_as(reading, &request.hub, clusters, |member| {
        read(request, found, member)
    });
    let mut versions = Vec::new();
    for (name, member) in read.await {
        match member {
            Ok(member) => add(archive, &name, member, &mut versions),
            Err(error) => archive.missing(format!("member {name}"), error),
        }
    }
    versions.sort();
    archive.text("members/versions.txt", &versions.concat());
}

fn add(archive: &mut Archive, name: &str, member: Member, versions: &mut Vec<String>) {
    match member.version {
        Ok(version) => versions.push(format!("{name}: {version}\n")),
        Err(error) => archive.missing(format!("version of member {name}"), error),
    }
    for (listing, listed) in member.lists {
        let what = format!("{} of member {name}", listing.title());
        match listed {
            Ok(listed) => {
                note_more(archive, &what, &listed);
                let file = format!("members/{name}/{}", listing.file());
                archive.objects(file, listed.objects);
            }
            // The account that `join` creates may not list Events: another join is no remedy.
            Err(RequestError::NotAllowed { message, .. }) if listing.kind == "Event" => {
                archive.missing(what, format!("forbidden: {message}"));
            }
            Err(error) => archive.missing(what, ConnectError::from(error)),
        }
    }
}

async fn read(
    request: &Request<'_>,
    found: &Found,
    member: ApiServer,
) -> Result<Member, RequestError> {
    // An unreachable member gets no further requests.
    let version = match version(&member).await {
        Err(silent @ RequestError::Unreachable { .. }) => return Err(silent),
        version => version,
    };
    let mut lists = Vec::new();
    for listing in listings(request.namespace.as_deref(), found.uid.as_deref()) {
        let listed = listing.read(&member).await;
        lists.push((listing, listed));
    }
    Ok(Member { version, lists })
}

async fn version(member: &ApiServer) -> Result<String, RequestError> {
    let version = member.request(member.client.apiserver_version()).await?;
    Ok(format!(
        "{} ({}) at {}",
        version.git_version,
        version.platform,
        member.url()
    ))
}

/// Returns the listings of a member: objects of the clusterset, and objects that causeway wrote for
/// this hub. With an unknown hub UID, objects for any hub are listed.
fn listings(namespace: Option<&str>, uid: Option<&str>) -> Vec<Listing> {
    let written = match uid {
        Some(uid) => format!("{}={uid}", labels::HUB),
        None => labels::HUB.to_owned(),
    };
    let others = [
        Listing::of("", "v1", "Service")
            .within(namespace)
            .labelled(&written),
        Listing::of("discovery.k8s.io", "v1", "EndpointSlice")
            .within(namespace)
            .labelled(&written),
        Listing::of("", "v1", "Event")
            .within(namespace)
            .with_fields("reportingComponent=causeway-controller"),
    ];
    let clusterset = Listing::clusterset(namespace).into_iter();
    clusterset.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::access::Side;
    use crate::commands::bug_report::redact::Redactor;

    #[test]
    fn forbidden_events_of_a_member_have_no_remedy() {
        let mut archive = Archive::new(Redactor::new().expect("patterns"));
        let forbidden = |kind| {
            let why = RequestError::NotAllowed {
                side: Side::Member,
                message: "no right".to_owned(),
                unauthenticated: false,
            };
            (Listing::of("", "v1", kind), Err(why))
        };
        let member = Member {
            version: Ok("v1.36.3".to_owned()),
            lists: vec![forbidden("Event"), forbidden("Service")],
        };
        add(&mut archive, "a", member, &mut Vec::new());
        let missing = archive.all_missing();
        let missing: Vec<_> = missing.iter().map(|one| (&*one.what, &*one.why)).collect();
        let [events, services] = missing[..] else {
            panic!("{missing:?}");
        };
        assert_eq!(events, ("events of member a", "forbidden: no right"));
        assert!(services.1.contains("join it again"), "{}", services.1);
    }
}
