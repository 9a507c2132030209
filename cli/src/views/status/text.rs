//! Report as text for a terminal.

pub(crate) mod clusterset;

use std::collections::BTreeMap;

use causeway_engine::reasons::Reason;
use k8s_openapi::jiff::Timestamp;

use super::condition::ConditionReport;
use super::report::{MemberReport, PartReport, Presence, Report, ServiceReport, UnreadReport};
use crate::observe::misplaced::Misplaced;
use crate::observe::networking::NetworkReport;
use crate::term::age;
use crate::term::screen::{Screen, Tone, printable, wrapped};
use crate::term::table::{Cell, Row, Table, fields};
use crate::views::explain::{self, ConsumerEndpoints};

const NAMES_SHOWN: usize = 3;

/// Renders members, services and exported services.
pub(crate) fn overview(report: &Report, now: Timestamp, screen: Screen) -> String {
    let mut blocks = Vec::new();
    match &report.members {
        Some(members) if members.is_empty() => {
            blocks.push(
                "No members. Join one: kubectl mcs join NAME --member-kubeconfig FILE\n".to_owned(),
            );
        }
        Some(members) => blocks.push(member_table(members.iter(), now).render_on(screen)),
        None => {}
    }
    if !report.services.is_empty() {
        blocks.push(service_table(report.services.iter(), now).render_on(screen));
    }
    if !report.exports.is_empty() {
        blocks.push(clusterset::table(report.exports.iter()).render_on(screen));
    }
    blocks.extend(asides(report, screen));
    blocks.join("\n")
}

/// Renders all details of the services of one name.
pub(crate) fn all_details(report: &Report, now: Timestamp, screen: Screen) -> String {
    let services = report.services.iter();
    let mut blocks: Vec<_> = services
        .map(|service| details(service, now, screen))
        .collect();
    let exports = report.exports.iter();
    blocks.extend(exports.map(|service| clusterset::details(service, now, screen)));
    blocks.extend(endpoints(report.endpoints.as_deref(), screen));
    let serving = report.serving.iter();
    blocks.extend(serving.filter_map(|one| {
        let table = explain::text::tiers(&one.consumers)?;
        Some(format!("{}:\n{table}", one.address))
    }));
    blocks.extend(asides(report, screen));
    blocks.join("\n")
}

/// Returns the blocks below the services: failed reads and misplaced objects.
fn asides(report: &Report, screen: Screen) -> impl Iterator<Item = String> {
    let all = [
        unread(&report.unread, screen),
        unknown(&report.unknown, screen),
        misplaced(&report.misplaced, screen),
    ];
    all.into_iter().filter(|text| !text.is_empty())
}

/// Renders the unread members, a line for each error.
pub(crate) fn unread<'a>(
    members: impl IntoIterator<Item = &'a UnreadReport>,
    screen: Screen,
) -> String {
    let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for member in members {
        let names = causes.entry(&member.message).or_default();
        names.push(&member.name);
    }
    let lines = causes.iter().map(|(why, names)| {
        let names = names.join(", ");
        let line = format!("Exports and imports of {names} are not shown: {why}");
        wrapped(&printable(&line), "", screen.width)
    });
    lines.collect()
}

/// Renders failed reads other than those of members, a line for each.
pub(crate) fn unknown(all: &[String], screen: Screen) -> String {
    let lines = all.iter();
    let lines = lines.map(|one| wrapped(&printable(one), "", screen.width));
    lines.collect()
}

/// Renders the misplaced objects, each with its remedy.
pub(crate) fn misplaced<'a>(
    all: impl IntoIterator<Item = &'a Misplaced>,
    screen: Screen,
) -> String {
    let lines = all.into_iter().map(|one| {
        let message = wrapped(&format!("{}.", one.message), "", screen.width);
        format!("{message}-> {}\n", one.remedy)
    });
    lines.collect()
}

/// Returns the table of the members.
pub(crate) fn member_table<'a>(
    members: impl Iterator<Item = &'a MemberReport>,
    now: Timestamp,
) -> Table {
    let [network, reach] = NetworkReport::COLUMNS;
    let table = Table::new([
        "MEMBER",
        "VERSION",
        "STATE",
        "SINCE",
        "CLUSTERSET",
        network,
        reach,
        "ENDPOINT",
    ]);
    let mut table = table.differing(5..7);
    for member in members {
        table.push(member_row(member, now));
    }
    table
}

/// Returns the row of a member.
pub(crate) fn member_row(member: &MemberReport, now: Timestamp) -> Row {
    let clusterset = member.clusterset.as_ref();
    let plain = |text: &str| Cell::new(text, Tone::Plain);
    let refused = clusterset.filter(|one| one.reason != Reason::NotServed);
    let clusterset = clusterset.map_or(plain(""), |one| {
        let tone = if refused.is_some_and(|one| !one.ready) {
            Tone::Bad
        } else {
            Tone::Plain
        };
        Cell::new(one.reason.as_str(), tone)
    });
    let [network, reach] = member.networking.cells();
    let cells = [
        plain(&member.name),
        plain(&member.kubernetes_version),
        Cell::new(
            state(
                &member.state,
                member.drained,
                member.deletions_suspended.is_some(),
            ),
            tone(member.is_healthy() && !member.drained, &member.state),
        ),
        ago(member.since, now).into(),
        clusterset,
        network,
        reach,
        plain(&member.api_endpoint),
    ];
    let refused = refused.and_then(|one| note(one.ready, &one.message));
    let problem = member.problem().map(ToOwned::to_owned);
    Row::new(cells, problem.into_iter().chain(refused))
}

/// Returns the colour of a state. Pending states and states that a user requested are not bad.
pub(crate) fn tone(ready: bool, reason: &str) -> Tone {
    match reason {
        _ if ready => Tone::Good,
        "Pending" | "Syncing" | "Synced" | "Unknown" | "Deleting" | "Deleted" => Tone::Unsure,
        _ => Tone::Bad,
    }
}

/// Appends Drained and DeletionsSuspended, as kubectl prints a cordoned node.
fn state(state: &str, drained: bool, suspended: bool) -> String {
    let drained = drained.then_some(Reason::Drained.as_str());
    let suspended = suspended.then_some(Reason::DeletionsSuspended.as_str());
    let beside = drained.into_iter().chain(suspended);
    let words: Vec<_> = std::iter::once(state).chain(beside).collect();
    words.join(",")
}

/// Returns the table of the services.
pub(crate) fn service_table<'a>(
    services: impl Iterator<Item = &'a ServiceReport>,
    now: Timestamp,
) -> Table {
    let table = Table::new([
        "NAMESPACE",
        "NAME",
        "TYPES",
        "PROVIDERS",
        "CONSUMERS",
        "READY",
        "REASON",
        "AGE",
    ]);
    let mut table = table.names(2);
    for service in services {
        table.push(service_row(service, now));
    }
    table
}

/// Returns the row of a service.
pub(crate) fn service_row(service: &ServiceReport, now: Timestamp) -> Row {
    let plain = |text: String| Cell::new(text, Tone::Plain);
    let tone = tone(service.ready, &service.reason);
    let cells = [
        plain(service.namespace.clone()),
        plain(service.name.clone()),
        plain(service.types.join(",")),
        plain(abridged(&service.providers)),
        plain(abridged(&service.consumers)),
        Cell::new(truth(service.ready), tone),
        Cell::new(service.reason.as_str(), tone),
        plain(ago(service.created, now)),
    ];
    Row::new(cells, note(service.ready, &service.message))
}

/// Renders all details of one service.
fn details(service: &ServiceReport, now: Timestamp, screen: Screen) -> String {
    let or_all = |names: &[String], all: &str| {
        if names.is_empty() {
            all.to_owned()
        } else {
            names.join(", ")
        }
    };
    let ready = format!("{} ({})", truth(service.ready), service.reason);
    let ready = Cell::new(ready, tone(service.ready, &service.reason));
    let all = [
        (
            "Name",
            format!("{}/{}", service.namespace, service.name).into(),
        ),
        ("Types", service.types.join(", ").into()),
        ("Ports", or_all(&service.ports, "all of the Service").into()),
        (
            "Providers",
            or_all(&service.providers, "every member").into(),
        ),
        (
            "Consumers",
            or_all(&service.consumers, "every member").into(),
        ),
        ("Ready", ready),
        ("Message", service.message.clone().into()),
        ("Age", ago(service.created, now).into()),
    ];
    let mut text = fields(all, screen);
    if !service.load_balancers.is_empty() {
        text.push_str(&format!(
            "Load balancers: {}\n",
            service.load_balancers.join(", ")
        ));
    }
    if let Some(propagation) = &service.propagation {
        let (message, remedy) = (&propagation.message, &propagation.remedy);
        let message = wrapped(&printable(&format!("{message}.")), "", screen.width);
        text.push_str(&format!("\n{message}-> {remedy}\n"));
    }
    if !service.conditions.is_empty() {
        text.push('\n');
        text.push_str(&condition_table(&service.conditions, now).render_on(screen));
    }
    if !service.members.is_empty() {
        text.push('\n');
        text.push_str(&part_table(&service.members).render_on(screen));
    }
    text
}

fn condition_table(conditions: &[ConditionReport], now: Timestamp) -> Table {
    let table = Table::new(["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    let mut table = table.text_last();
    for condition in conditions {
        let tone = match condition.status.as_str() {
            "True" => Tone::Good,
            "False" => Tone::Bad,
            _ => Tone::Unsure,
        };
        let cells = [
            condition.type_.clone().into(),
            Cell::new(condition.status.as_str(), tone),
            condition.reason.clone().into(),
            ago(Some(condition.since), now).into(),
            condition.message.clone().into(),
        ];
        table.row(cells, None);
    }
    table
}

fn part_table(parts: &[PartReport]) -> Table {
    let mut table = Table::new(["MEMBER", "ROLE", "STATE", "SERVICE"]);
    for part in parts {
        let role = match (part.provider, part.consumer) {
            (true, true) => "provider, consumer",
            (true, false) => "provider",
            (false, _) => "consumer",
        };
        let (service, presence) = match part.service {
            Presence::Yes => ("there", Tone::Good),
            Presence::No => ("missing", Tone::Bad),
            Presence::Unknown => ("unknown", Tone::Unsure),
        };
        let is_synced = part.state == "Synced" && !part.drained && !part.deletions_suspended;
        let cells = [
            part.name.clone().into(),
            role.to_owned().into(),
            Cell::new(
                state(&part.state, part.drained, part.deletions_suspended),
                tone(is_synced, &part.state),
            ),
            Cell::new(service, presence),
        ];
        table.row(cells, None);
    }
    table
}

/// Renders the ready endpoints of each consumer.
fn endpoints(all: Option<&[ConsumerEndpoints]>, screen: Screen) -> Option<String> {
    let all = all.filter(|all| !all.is_empty())?;
    let mut table = Table::new(["ADDRESS", "CONSUMER", "READY ENDPOINTS"]).names(2);
    for one in all {
        let (ready, tone) = match one.ready {
            Some(0) => ("0".to_owned(), Tone::Bad),
            Some(ready) => (ready.to_string(), Tone::Good),
            None => ("unknown".to_owned(), Tone::Unsure),
        };
        let cells = [
            one.address.clone().into(),
            one.consumer.clone().into(),
            Cell::new(ready, tone),
        ];
        table.row(cells, None);
    }
    Some(table.render_on(screen))
}

fn note(ready: bool, message: &str) -> Option<String> {
    (!ready && !message.is_empty()).then(|| message.to_owned())
}

fn truth(ready: bool) -> String {
    if ready { "True" } else { "False" }.to_owned()
}

fn ago(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map(|time| age::since(time, now)).unwrap_or_default()
}

/// Returns `all`, the names, or the first names and the number of the others.
fn abridged(names: &[String]) -> String {
    match names.len() {
        0 => "all".to_owned(),
        count if count > NAMES_SHOWN + 1 => {
            format!(
                "{},+{}",
                names[..NAMES_SHOWN].join(","),
                count - NAMES_SHOWN
            )
        }
        _ => names.join(","),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{applied, cluster, condition, cross, ready, service, synced};
    use crate::views::status::report::{Report, Scope};

    fn now() -> Timestamp {
        "2026-11-21T00:00:00Z".parse().expect("a time")
    }

    #[test]
    fn networks_are_shown_where_there_is_more_than_one() {
        let of = |network: &str, reach: Option<&str>| {
            let mut edge = synced("edge1");
            let annotations = [
                ("mcs.causeway.dev/network", Some(network)),
                ("mcs.causeway.dev/reach", reach),
            ];
            let given = annotations
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
            edge.metadata.annotations = Some(given.collect());
            edge
        };
        let shown = |clusters: &[causeway::api::Cluster]| {
            let report = Report::new(Scope::All, Some(clusters), &[]);
            overview(&report, now(), Screen::PLAIN)
        };
        for (network, cells) in [
            ("edge", "edge      node-ports"),
            ("default", "default   node-ports"),
        ] {
            let both = shown(&[synced("member1"), of(network, Some("node-ports"))]);
            assert!(both.contains("NETWORK   REACH"), "{both}");
            assert!(both.contains("-         -"), "{both}");
            assert!(both.contains(cells), "{both}");
        }
        let one = shown(&[of("edge", None)]);
        assert!(!one.contains("NETWORK"), "{one}");
        let equal = shown(&[of("edge", None), of("edge", None)]);
        assert!(!equal.contains("NETWORK"), "{equal}");
    }

    #[test]
    fn the_overview_is_read_at_a_glance() {
        let clusters = [
            synced("member1"),
            cluster(
                "m2",
                json!([ready("False", "Unreachable", "connection refused")]),
            ),
        ];
        let services = [
            service(
                "foo",
                cross(&["member1"], &["m2"]),
                json!([ready("True", "Ready", "fine")]),
            ),
            service(
                "bar",
                cross(&[], &["a", "b", "c", "d", "e"]),
                json!([ready(
                    "False",
                    "ServiceNotFound",
                    "the hub has no Service shop/bar"
                )]),
            ),
        ];
        let report = Report::new(Scope::All, Some(&clusters), &services);
        let expected = "\
MEMBER    VERSION   STATE         SINCE   CLUSTERSET   ENDPOINT
m2        v1.36.3   Unreachable   5m      -            https://m2:6443
  connection refused
member1   v1.36.3   Synced        5m      -            https://member1:6443

NAMESPACE   NAME   TYPES          PROVIDERS   CONSUMERS   READY   REASON            AGE
shop        bar    CrossCluster   all         a,b,c,+2    False   ServiceNotFound   60m
  the hub has no Service shop/bar
shop        foo    CrossCluster   member1     m2          True    Ready             60m
";
        assert_eq!(overview(&report, now(), Screen::PLAIN), expected);
    }

    #[test]
    fn a_member_that_takes_no_part_in_the_clusterset_is_shown_with_the_reason() {
        let reported = |name: &str, status: &str, reason: &str, message: &str| {
            let clusterset = condition("ClustersetAPI", status, reason, message);
            cluster(
                name,
                json!([ready("True", "Synced", "watched"), clusterset]),
            )
        };
        let clusters = [
            reported("a", "True", "Served", "watched"),
            reported("b", "False", "NotServed", "not installed there"),
            reported("c", "False", "Refused", "cannot be watched (forbidden)"),
        ];
        let expected = "\
MEMBER   VERSION   STATE    SINCE   CLUSTERSET   ENDPOINT
a        v1.36.3   Synced   5m      Served       https://a:6443
b        v1.36.3   Synced   5m      NotServed    https://b:6443
c        v1.36.3   Synced   5m      Refused      https://c:6443
  cannot be watched (forbidden)
";
        let report = Report::new(Scope::All, Some(&clusters), &[]);
        assert_eq!(overview(&report, now(), Screen::PLAIN), expected);
    }

    #[test]
    fn deletions_that_are_suspended_are_shown_with_what_confirms_them() {
        let words = "deletions of 40 objects are suspended; to confirm them now: kubectl mcs confirm-deletions a";
        let suspended = |status: &str| {
            let synced = condition("Ready", "True", "Synced", "watched");
            let suspended = condition("DeletionsSuspended", status, "DeletionsSuspended", words);
            [cluster("a", json!([synced, suspended]))]
        };
        let service = service("foo", cross(&["a"], &["a"]), json!([]));
        let shown = |status: &str| {
            let clusters = suspended(status);
            let report = Report::new(Scope::All, Some(&clusters), &[]);
            let part = Report::new(Scope::One, Some(&clusters), std::slice::from_ref(&service));
            let part = details(&part.services[0], now(), Screen::PLAIN);
            let overview = overview(&report, now(), Screen::PLAIN);
            (report.ready, overview, part)
        };
        let (ready, overview, part) = shown("True");
        assert!(!ready, "{overview}");
        let row = "a        v1.36.3   Synced,DeletionsSuspended   5m";
        let note = format!("\n  {words}\n");
        assert!(
            overview.contains(row) && overview.contains(&note),
            "{overview}"
        );
        assert!(part.contains("Synced,DeletionsSuspended"), "{part}");
        let (ready, overview, part) = shown("False");
        assert!(ready, "{overview}");
        let both = overview + &part;
        assert!(!both.contains("uspended"), "{both}");
    }

    #[test]
    fn without_members_it_says_how_to_join_one() {
        let text = overview(
            &Report::new(Scope::All, Some(&[]), &[]),
            now(),
            Screen::PLAIN,
        );
        assert!(text.contains("kubectl mcs join"), "{text}");
        let text = overview(&Report::new(Scope::All, None, &[]), now(), Screen::PLAIN);
        assert!(text.contains("may not list"), "{text}");
    }

    #[test]
    fn the_details_show_each_condition_and_each_member() {
        let conditions = json!([
            applied(
                "True",
                "ServiceAppliedSucceed",
                "Service is propagated to target clusters."
            ),
            ready(
                "True",
                "Ready",
                "shop/foo can be reached from 1 cluster, backed by 1 cluster"
            ),
        ]);
        let service = service("foo", cross(&["member1"], &["m2"]), conditions);
        let report = Report::new(
            Scope::One,
            Some(&[synced("member1"), synced("m2")]),
            &[service],
        );
        let expected = "\
Name:        shop/foo
Types:       CrossCluster
Ports:       all of the Service
Providers:   member1
Consumers:   m2
Ready:       True (Ready)
Message:     shop/foo can be reached from 1 cluster, backed by 1 cluster
Age:         60m

CONDITION        STATUS   REASON                  SINCE   MESSAGE
ServiceApplied   True     ServiceAppliedSucceed   5m      Service is propagated to target clusters.
Ready            True     Ready                   5m      shop/foo can be reached from 1 cluster, backed by 1 cluster

MEMBER    ROLE       STATE    SERVICE
m2        consumer   Synced   there
member1   provider   Synced   there
";
        assert_eq!(details(&report.services[0], now(), Screen::PLAIN), expected);
    }
}
