use causeway_engine::reasons::Reason;
use serde_json::json;

use super::*;
use crate::cluster::karmada::tests::{dispatched_slice, work};
use crate::fixtures::ready;
use crate::observe::connect::ConnectError;
use crate::observe::fixtures::{BOTH, healthy};

fn reasons(explanation: &Explanation) -> Vec<Reason> {
    let all = explanation.diagnoses_with(|_| true).into_iter();
    all.map(|diagnosis| diagnosis.reason).collect()
}

#[test]
fn shares_of_providers_are_listed_for_each_consumer() {
    let mut snapshot = healthy();
    let mcs = snapshot.mcs.as_mut().expect("it");
    let annotations = mcs.metadata.annotations.get_or_insert_default();
    let share = "cluster/a=10%, rest".to_owned();
    annotations.insert("mcs.causeway.dev/share".to_owned(), share);
    let text = text::render(&explained(&snapshot), false);
    let expected = "\
CONSUMER   PROVIDER   WANTED   REAL   READY   STANDBY
b          a          100%     100%   2       0
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_controller_that_does_not_run_is_wrong_though_all_is_there() {
    let mut explanation = explained(&healthy());
    explanation.add(Diagnosis::new(Reason::ControllerNotRunning, "it has ended"));
    assert!(!explanation.ready);
    let states = explanation.consumer_states(|_| true);
    assert!(states.iter().all(|one| one.state == EndpointState::Present));
}

#[test]
fn works_that_may_not_be_seen_are_taken_from_what_the_controller_reports() {
    for visible in [true, false] {
        let mut snapshot = healthy();
        let managed = json!([ready("False", "ManagedByKarmada", "Works exist")]);
        let mcs = snapshot.mcs.as_mut().expect("it");
        mcs.status = serde_json::from_value(json!({ "conditions": managed })).expect("a status");
        snapshot.works = visible.then(|| vec![work("a", "own")]);
        snapshot.without_copies();
        snapshot.member("b").slices.push(dispatched_slice(&BOTH));
        let explanation = explained(&snapshot);
        assert!(explanation.ready, "{explanation:#?}");
        let reasons = reasons(&explanation);
        for reason in [Reason::ManagedByKarmada, Reason::CopiedByKarmada] {
            assert!(reasons.contains(&reason), "{reasons:?}");
        }
    }
}

#[test]
fn unread_members_alone_make_an_explanation_unknown() {
    let unread = |snapshot: &mut Snapshot, name: &str| {
        let why = ConnectError::Timeout(5);
        snapshot.members.insert(name.to_owned(), Err(why));
    };
    for name in ["a", "b"] {
        let mut snapshot = healthy();
        unread(&mut snapshot, name);
        let explanation = explained(&snapshot);
        assert!(
            !explanation.ready && explanation.is_wrong_only_where_unread(),
            "{name}"
        );
        snapshot.annotate("a", "mcs.causeway.dev/withdraw", "true");
        let drained = explained(&snapshot);
        assert!(
            !drained.is_wrong_only_where_unread(),
            "{name}: {drained:#?}"
        );
    }
    assert!(!explained(&healthy()).is_wrong_only_where_unread());
}

#[test]
fn a_service_that_only_an_unread_member_may_export_is_unknown() {
    let mut snapshot = healthy();
    snapshot.mcs = None;
    snapshot.without_copies();
    for name in ["a", "b"] {
        snapshot.member(name).services.clear();
    }
    let absent = explained(&snapshot);
    assert_eq!(reasons(&absent), [Reason::NotExposed]);
    assert!(!absent.is_wrong_only_where_unread(), "{absent:#?}");
    let why = ConnectError::Timeout(5);
    snapshot.members.insert("a".to_owned(), Err(why));
    let unknown = explained(&snapshot);
    assert_eq!(reasons(&unknown), [Reason::MemberNotRead]);
    assert!(unknown.is_wrong_only_where_unread(), "{unknown:#?}");
    let message = &unknown.diagnoses[0].message;
    assert!(message.contains("not read from here: a: "), "{message}");
}

#[test]
fn a_message_with_control_characters_stays_one_printable_line() {
    let mut explanation = explained(&healthy());
    let hostile = "no\u{1b}[2J\nReady: all is well";
    explanation.add(Diagnosis::new(Reason::MemberNotRead, hostile).fix("a\u{7}"));
    let text = text::render(&explanation, false);
    let expected = "MemberNotRead: no\\u{1b}[2J Ready: all is well\n  -> a\\u{7}\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn golden_outputs_of_explain_are_kept() {
    crate::golden::check_states("explain", |snapshot| {
        let explanation = explained(snapshot);
        let mut text = text::render(&explanation, false);
        text.push_str(&text::render(&explanation, true));
        let wrong_only_where_unread = explanation.is_wrong_only_where_unread();
        text.push_str(&format!("unread only: {wrong_only_where_unread}\n"));
        crate::golden::both(&text, &explanation)
    });
}
