//! The report as a person reads it.

mod clusterset;

use causeway::api::condition::reason;
use k8s_openapi::jiff::Timestamp;

use super::condition::ConditionReport;
use super::report::{MemberReport, PartReport, Presence, Report, ServiceReport};
use crate::age;
use crate::explain;
use crate::misplaced::Misplaced;
use crate::table::{Table, fields};

const NAMES_SHOWN: usize = 3;

/// The members, the services, then the exported services.
pub(crate) fn overview(report: &Report, now: Timestamp) -> String {
    let mut blocks = Vec::new();
    match &report.members {
        Some(members) if members.is_empty() => {
            blocks.push(
                "No members. Join one: kubectl mcs join NAME --member-kubeconfig FILE\n".to_owned(),
            );
        }
        Some(members) => blocks.push(member_table(members, now)),
        None => blocks.push(
            "Members, and what they export, are not shown: you may not list clusters.cluster.karmada.io on the hub.\n"
                .to_owned(),
        ),
    }
    if !report.services.is_empty() {
        blocks.push(service_table(&report.services, now));
    }
    if !report.exports.is_empty() {
        blocks.push(clusterset::overview(&report.exports));
    }
    blocks.extend(asides(report));
    blocks.join("\n")
}

/// All that is known of the services of one name.
pub(crate) fn all_details(report: &Report, now: Timestamp) -> String {
    let services = report.services.iter();
    let mut blocks: Vec<_> = services.map(|service| details(service, now)).collect();
    let exports = report.exports.iter();
    blocks.extend(exports.map(|service| clusterset::details(service, now)));
    let serving = report.serving.iter();
    blocks.extend(serving.filter_map(|one| {
        let table = explain::text::tiers(&one.consumers)?;
        Some(format!("{}:\n{table}", one.address))
    }));
    blocks.extend(asides(report));
    blocks.join("\n")
}

/// What is said below the services: the members that were not read, and what is in the wrong place.
fn asides(report: &Report) -> impl Iterator<Item = String> {
    let unread = (!report.unread.is_empty()).then(|| clusterset::unread(&report.unread));
    let misplaced = (!report.misplaced.is_empty()).then(|| misplaced(&report.misplaced));
    unread.into_iter().chain(misplaced)
}

/// What is on the hub and does nothing there, each with what to type.
fn misplaced(all: &[Misplaced]) -> String {
    let lines = all
        .iter()
        .map(|one| format!("{}.\n-> {}\n", one.message, one.remedy));
    lines.collect()
}

fn member_table(members: &[MemberReport], now: Timestamp) -> String {
    let mut table = Table::new([
        "MEMBER",
        "VERSION",
        "STATE",
        "SINCE",
        "CLUSTERSET",
        "ENDPOINT",
    ]);
    for member in members {
        let clusterset = member.clusterset.as_ref();
        let cells = [
            member.name.clone(),
            member.kubernetes_version.clone(),
            state(&member.state, member.drained),
            ago(member.since, now),
            clusterset.map(|one| one.reason.clone()).unwrap_or_default(),
            member.api_endpoint.clone(),
        ];
        let refused = clusterset.filter(|one| one.reason != reason::NOT_SERVED);
        let refused = refused.and_then(|one| note(one.ready, &one.message));
        table.row(
            cells,
            note(member.ready, &member.message)
                .into_iter()
                .chain(refused),
        );
    }
    table.render()
}

/// As kubectl shows a node that is cordoned.
fn state(state: &str, drained: bool) -> String {
    if drained {
        format!("{state},Drained")
    } else {
        state.to_owned()
    }
}

fn service_table(services: &[ServiceReport], now: Timestamp) -> String {
    let mut table = Table::new([
        "NAMESPACE",
        "NAME",
        "TYPES",
        "PROVIDERS",
        "CONSUMERS",
        "READY",
        "REASON",
        "AGE",
    ]);
    for service in services {
        let cells = [
            service.namespace.clone(),
            service.name.clone(),
            service.types.join(","),
            abridged(&service.providers),
            abridged(&service.consumers),
            truth(service.ready),
            service.reason.clone(),
            ago(service.created, now),
        ];
        table.row(cells, note(service.ready, &service.message));
    }
    table.render()
}

/// All that is known of one service.
fn details(service: &ServiceReport, now: Timestamp) -> String {
    let or_all = |names: &[String], all: &str| {
        if names.is_empty() {
            all.to_owned()
        } else {
            names.join(", ")
        }
    };
    let mut text = fields([
        ("Name", format!("{}/{}", service.namespace, service.name)),
        ("Types", service.types.join(", ")),
        ("Ports", or_all(&service.ports, "all of the Service")),
        ("Providers", or_all(&service.providers, "every member")),
        ("Consumers", or_all(&service.consumers, "every member")),
        (
            "Ready",
            format!("{} ({})", truth(service.ready), service.reason),
        ),
        ("Message", service.message.clone()),
        ("Age", ago(service.created, now)),
    ]);
    if !service.load_balancers.is_empty() {
        text.push_str(&format!(
            "Load balancers: {}\n",
            service.load_balancers.join(", ")
        ));
    }
    if let Some(propagation) = &service.propagation {
        let (message, remedy) = (&propagation.message, &propagation.remedy);
        text.push_str(&format!("\n{message}.\n-> {remedy}\n"));
    }
    if !service.conditions.is_empty() {
        text.push('\n');
        text.push_str(&condition_table(&service.conditions, now));
    }
    if !service.members.is_empty() {
        text.push('\n');
        text.push_str(&part_table(&service.members));
    }
    text
}

fn condition_table(conditions: &[ConditionReport], now: Timestamp) -> String {
    let mut table = Table::new(["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions {
        let cells = [
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            ago(Some(condition.since), now),
            condition.message.clone(),
        ];
        table.row(cells, None);
    }
    table.render()
}

fn part_table(parts: &[PartReport]) -> String {
    let mut table = Table::new(["MEMBER", "ROLE", "STATE", "SERVICE"]);
    for part in parts {
        let role = match (part.provider, part.consumer) {
            (true, true) => "provider, consumer",
            (true, false) => "provider",
            (false, _) => "consumer",
        };
        let service = match part.service {
            Presence::Yes => "there",
            Presence::No => "missing",
            Presence::Unknown => "unknown",
        };
        table.row(
            [
                part.name.clone(),
                role.to_owned(),
                state(&part.state, part.drained),
                service.to_owned(),
            ],
            None,
        );
    }
    table.render()
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

/// `all`, the names, or the first few and how many more.
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
    use crate::status::fixtures::{applied, cluster, condition, cross, ready, service, synced};
    use crate::status::report::{Report, Scope};

    fn now() -> Timestamp {
        "2026-11-21T00:00:00Z".parse().expect("a time")
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
        assert_eq!(overview(&report, now()), expected);
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
        assert_eq!(overview(&report, now()), expected);
    }

    #[test]
    fn a_drained_member_is_shown_as_such_everywhere() {
        let mut drained = synced("member1");
        drained.metadata.annotations =
            Some([("mcs.causeway.dev/withdraw".to_owned(), "true".to_owned())].into());
        let clusters = [drained, synced("m2")];
        let report = Report::new(Scope::All, Some(&clusters), &[]);
        let text = overview(&report, now());
        assert!(
            text.contains("member1   v1.36.3   Synced,Drained "),
            "{text}"
        );
        let members = report.members.as_deref().unwrap_or_default();
        let drained = |name: &str| members.iter().any(|one| one.name == name && one.drained);
        assert!(drained("member1") && !drained("m2"));
        assert!(report.ready, "a person asked for it");
        let service = service("foo", cross(&["member1"], &["m2"]), json!([]));
        let report = Report::new(Scope::One, Some(&clusters), &[service]);
        let text = details(&report.services[0], now());
        assert!(
            text.contains("member1   provider   Synced,Drained"),
            "{text}"
        );
    }

    #[test]
    fn without_members_it_says_how_to_join_one() {
        let text = overview(&Report::new(Scope::All, Some(&[]), &[]), now());
        assert!(text.contains("kubectl mcs join"), "{text}");
        let text = overview(&Report::new(Scope::All, None, &[]), now());
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
        assert_eq!(details(&report.services[0], now()), expected);
    }
}
