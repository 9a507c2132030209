//! Text output of `tunnel`.

use k8s_openapi::jiff::Timestamp;

use super::report::{MemberReport, Report};
use crate::term::age::since;
use crate::term::screen::{Screen, Tone, printable, wrapped};
use crate::term::table::{Cell, Row, Table};

/// Renders the members and the notes.
pub(crate) fn render(report: &Report, now: Timestamp, screen: Screen) -> String {
    let mut text = match report.members.is_empty() {
        true => {
            "No agent is connected, and no Cluster is reached through causeway-tunnel.\n".to_owned()
        }
        false => members(report, now).render_on(screen),
    };
    for note in &report.notes {
        text.push('\n');
        text.push_str(&wrapped(&printable(note), "", screen.width));
    }
    text
}

fn members(report: &Report, now: Timestamp) -> Table {
    let mut table = Table::new([
        "NAME",
        "CONNECTED",
        "FROM",
        "REPLICAS",
        "RTT",
        "STREAMS",
        "AGENT",
    ]);
    for member in &report.members {
        let joined = |all: &std::collections::BTreeSet<String>| {
            let all: Vec<_> = all.iter().map(String::as_str).collect();
            Cell::from(all.join(","))
        };
        let is_known = member.connected.is_some();
        let shown = |text: String| match (member.replicas, is_known) {
            (0, false) => Cell::new("unknown", Tone::Unsure),
            (0, true) => Cell::from(String::new()),
            _ => Cell::from(text),
        };
        let in_all = member.replicas == report.replicas;
        let replicas = format!("{}/{}", member.replicas, report.replicas);
        let cells = [
            member.name.clone().into(),
            connected(member, now),
            joined(&member.from),
            Cell::new(replicas, if in_all { Tone::Plain } else { Tone::Unsure }),
            shown(member.round_trip_millis.map(millis).unwrap_or_default()),
            shown(member.streams.to_string()),
            match is_known {
                true => joined(&member.agent),
                false => shown(String::new()),
            },
        ];
        table.push(Row::new(cells, notes(member, now)));
    }
    table
}

fn connected(member: &MemberReport, now: Timestamp) -> Cell {
    let age = member.since.map(|then| since(then, now));
    match (member.connected, age) {
        (None, _) => Cell::new("unknown", Tone::Unsure),
        (Some(true), age) => Cell::new(age.unwrap_or_default(), Tone::Good),
        (Some(false), Some(age)) => Cell::new(format!("not for {age}"), Tone::Bad),
        (Some(false), None) => Cell::new("not since start", Tone::Bad),
    }
}

/// Returns the problems of a member, with remedies.
fn notes(member: &MemberReport, now: Timestamp) -> Vec<String> {
    let mut notes = Vec::new();
    if member.tunnelled == Some(true) && member.connected == Some(false) {
        notes.push(
            "-> in the member: kubectl -n causeway-system logs deployment/causeway-agent"
                .to_owned(),
        );
    }
    if member.tunnelled == Some(false) {
        notes.push("no Cluster of this name is reached through causeway-tunnel".to_owned());
    }
    if member.certificate_ends(now) {
        let expires = member
            .certificate_expires
            .map(|expires| expires.to_string());
        let remedy = match member.certificate_renews {
            true => "in the member: kubectl -n causeway-system logs deployment/causeway-agent"
                .to_owned(),
            false => format!(
                "repeat kubectl mcs join {name}, or kubectl mcs tunnel add {name} for a member of \
                 Karmada, with the same flags",
                name = member.name
            ),
        };
        notes.push(format!(
            "the certificate of its agent ends at {} -> {remedy}",
            expires.unwrap_or_default(),
        ));
    }
    notes
}

/// Formats milliseconds with about two digits of precision.
fn millis(millis: f64) -> String {
    match millis {
        millis if millis < 9.95 => format!("{millis:.1}ms"),
        millis => format!("{millis:.0}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{clusters, replicas};
    use super::*;

    fn now() -> Timestamp {
        "2026-11-27T10:00:00Z".parse().expect("a time")
    }

    #[test]
    fn members_are_a_table_with_remedies() {
        let report = Report::new(&replicas(), Some(&clusters()), Vec::new());
        let expected = "\
NAME    CONNECTED         FROM          REPLICAS   RTT    STREAMS   AGENT
edge1   60m               203.0.113.7   2/2        12ms   14        0.2.0
edge2   2m                2001:db8::1   1/2        -      7         0.2.0
  no Cluster of this name is reached through causeway-tunnel
edge3   not for 47m       203.0.113.9   0/2        -      -         -
  -> in the member: kubectl -n causeway-system logs deployment/causeway-agent
edge4   not since start   -             0/2        -      -         -
  -> in the member: kubectl -n causeway-system logs deployment/causeway-agent
";
        assert_eq!(render(&report, now(), Screen::PLAIN), expected);
    }

    #[test]
    fn unread_replica_leaves_a_member_unknown() {
        let [first, _] = replicas();
        let unread = vec!["tunnel-1 is not read: refused".to_owned()];
        let clusters = ["edge4".to_owned()].into();
        let mut report = Report::new(&[first, None], Some(&clusters), unread);
        report.members.retain(|member| member.name == "edge4");
        let expected = "\
NAME    CONNECTED   FROM   REPLICAS   RTT       STREAMS   AGENT
edge4   unknown     -      0/2        unknown   unknown   unknown

tunnel-1 is not read: refused
";
        assert_eq!(render(&report, now(), Screen::PLAIN), expected);
    }

    #[test]
    fn certificate_that_ends_within_a_month_is_noted() {
        let report = Report::new(&replicas(), None, Vec::new());
        let late = "2026-12-20T00:00:00Z".parse().expect("a time");
        let text = render(&report, late, Screen::PLAIN);
        let remedy = "repeat kubectl mcs join edge1, or kubectl mcs tunnel add edge1";
        let note = format!("ends at 2027-01-01T00:00:00Z -> {remedy}");
        assert!(text.contains(&note), "{text}");
    }
}
