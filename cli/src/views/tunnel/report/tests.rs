use serde_json::json;

use super::super::replica::{AnswerError, parse};
use super::*;

fn answer(text: serde_json::Value) -> Option<Vec<Shown>> {
    Some(parse(&text.to_string()).expect("an answer"))
}

fn connection(from: &str, since: &str, micros: u64) -> serde_json::Value {
    json!({
        "from": from, "since": since, "agent": "0.2.0", "api": "10.96.0.1:443", "streams": 7,
        "roundTripMicros": micros, "certificateExpires": "2027-01-01T00:00:00Z",
    })
}

/// Two replicas: edge1 is connected to both, edge2 to one, edge3 to none any more.
pub(crate) fn replicas() -> [Option<Vec<Shown>>; 2] {
    let gone = json!({
        "name": "edge3", "disconnectedSince": "2026-11-27T09:12:40Z", "lastFrom": "203.0.113.9:4001",
        "connections": [],
    });
    let first = answer(json!([
        { "name": "edge1", "connections": [connection("203.0.113.7:4000", "2026-11-27T09:00:00Z", 12_345)] },
        { "name": "edge2", "connections": [connection("[2001:db8::1]:4000", "2026-11-27T09:58:00Z", 0)] },
        gone,
    ]));
    let second = answer(json!([
        { "name": "edge1", "connections": [connection("203.0.113.7:4002", "2026-11-27T09:30:00Z", 900)] },
        { "name": "edge2", "disconnectedSince": "2026-11-27T09:59:00Z", "lastFrom": "192.0.2.1:1", "connections": [] },
    ]));
    [first, second]
}

pub(crate) fn clusters() -> BTreeSet<String> {
    ["edge1", "edge3", "edge4"].map(str::to_owned).into()
}

fn of<'a>(report: &'a Report, name: &str) -> &'a MemberReport {
    let mut members = report.members.iter();
    members.find(|member| member.name == name).expect(name)
}

#[test]
fn connections_of_all_replicas_are_those_of_the_member() {
    let report = Report::new(&replicas(), Some(&clusters()), Vec::new());
    let names: Vec<_> = report
        .members
        .iter()
        .map(|member| member.name.as_str())
        .collect();
    assert_eq!(names, ["edge1", "edge2", "edge3", "edge4"]);
    let edge1 = of(&report, "edge1");
    assert_eq!((edge1.replicas, edge1.streams), (2, 14));
    assert_eq!(edge1.round_trip_millis, Some(12.345));
    assert_eq!(edge1.from, ["203.0.113.7".to_owned()].into());
    let since = edge1.since.map(|since| since.to_string());
    assert_eq!(since.as_deref(), Some("2026-11-27T09:00:00Z"));
    let edge2 = of(&report, "edge2");
    assert_eq!(
        (edge2.connected, edge2.tunnelled),
        (Some(true), Some(false))
    );
    assert_eq!(edge2.from, ["2001:db8::1".to_owned()].into());
    assert_eq!(edge2.round_trip_millis, None);
    assert_eq!(of(&report, "edge3").from, ["203.0.113.9".to_owned()].into());
    assert_eq!(of(&report, "edge4").since, None);
}

#[test]
fn disconnected_member_is_a_problem_only_if_all_replicas_were_read() {
    let clusters = clusters();
    let [first, second] = replicas();
    let known = Report::new(&[first.clone(), second], Some(&clusters), Vec::new());
    assert_eq!(of(&known, "edge4").connected, Some(false));
    assert_eq!(known.exit_state(), ExitState::Problem);
    let unread = vec!["tunnel-1 is not read".to_owned()];
    let unknown = Report::new(&[first.clone(), None], Some(&clusters), unread.clone());
    assert_eq!(of(&unknown, "edge1").connected, Some(true));
    assert_eq!(of(&unknown, "edge4").connected, None);
    assert_eq!(unknown.exit_state(), ExitState::Unknown);
    let unlisted = Report::new(&[first], None, unread);
    assert_eq!(of(&unlisted, "edge3").connected, Some(false));
    assert_eq!(unlisted.exit_state(), ExitState::Unknown);
}

#[test]
fn certificate_that_is_renewed_ends_soon_if_that_failed() {
    let now: Timestamp = "2026-11-27T12:00:00Z".parse().expect("a time");
    for (days, renews, ends_soon) in [
        (29, false, true),
        (31, false, false),
        (3, true, false),
        (1, true, true),
    ] {
        let member = MemberReport {
            certificate_expires: Some(now + SignedDuration::from_hours(days * 24)),
            certificate_renews: renews,
            ..MemberReport::default()
        };
        assert_eq!(member.certificate_ends(now), ends_soon, "{days} {renews}");
    }
}

#[test]
fn unbounded_answer_is_an_error() {
    let many = vec![json!({ "name": "a", "connections": [] }); 8193];
    let read = parse(&json!(many).to_string());
    assert!(matches!(read, Err(AnswerError::TooMany)), "{read:?}");
    let wide = vec![connection("a:1", "2026-11-27T09:00:00Z", 0); 17];
    let read = parse(&json!([{ "name": "a", "connections": wide }]).to_string());
    assert!(matches!(read, Err(AnswerError::TooMany)), "{read:?}");
    assert!(matches!(parse("no"), Err(AnswerError::Json(_))));
}
