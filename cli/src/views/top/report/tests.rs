use super::*;

fn key(text: &str) -> ServiceKey {
    let (namespace, name) = text.split_once('/').expect("namespace/name");
    ServiceKey::new(namespace, name)
}

fn counts(changes: usize, writes: usize, lag: Option<u64>) -> Counts {
    Counts {
        changes,
        writes,
        endpoints: 2 * writes,
        lag: lag.map(Duration::from_millis),
    }
}

/// Returns the report of two seconds in which `a` provides and `b` consumes.
pub(crate) fn report() -> Report {
    let all = [
        ("a", "shop/foo", counts(10, 0, None)),
        ("b", "shop/foo", counts(0, 8, Some(50))),
        ("a", "shop/bar", counts(4, 0, None)),
        ("b", "shop/bar", counts(0, 4, Some(900))),
        ("a", "other/known", counts(2, 0, None)),
        ("a", "other/unknown", counts(100, 0, None)),
    ];
    let counts = all.map(|(member, service, counts)| ((member.to_owned(), key(service)), counts));
    let names = ["a", "b", "c"].map(str::to_owned);
    let mut report = Report::new(&names, &Activity::default(), None, 2.0);
    report.counts = counts.into_iter().collect();
    report
}

pub(crate) fn known() -> BTreeSet<ServiceKey> {
    ["shop/foo", "other/known"].map(key).into()
}

fn names(report: &Report) -> Vec<&str> {
    let services = report.services.iter();
    services.map(|service| service.name.as_str()).collect()
}

#[test]
fn what_nobody_knows_and_nobody_copies_is_left_out_and_rates_are_per_second() {
    let mut report = report();
    report.keep(&known(), None);
    report.sort(SortBy::Changes);
    assert_eq!(names(&report), ["foo", "bar", "known"]);
    let foo = report.services[0].rates;
    assert_eq!((foo.changes_per_second, foo.writes_per_second), (5.0, 4.0));
    assert_eq!(
        (foo.endpoints_per_second, foo.lag_seconds),
        (8.0, Some(0.05))
    );
    let members: Vec<_> = report.members.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(members, ["a", "b", "c"]);
    assert_eq!(report.members[0].rates.changes_per_second, 8.0);
    assert_eq!(report.members[1].rates.lag_seconds, Some(0.9));
    assert_eq!(report.members[2].rates, Rates::default());
}

#[test]
fn rows_are_sorted_as_requested_and_those_of_a_namespace_are_shown_alone() {
    for (by, expected) in [
        (SortBy::Changes, ["foo", "bar"]),
        (SortBy::Writes, ["foo", "bar"]),
        (SortBy::Endpoints, ["foo", "bar"]),
        (SortBy::Lag, ["bar", "foo"]),
        (SortBy::Name, ["bar", "foo"]),
    ] {
        let mut report = report();
        report.keep(&known(), Some("shop"));
        report.sort(by);
        assert_eq!(names(&report), expected, "{by:?}");
    }
}

#[test]
fn where_the_metrics_are_read_they_say_how_many_writes_a_member_gets() {
    let mut report = report();
    let rates = MemberRates {
        state: "synced".to_owned(),
        writes_per_second: 7.0,
        failed_writes_per_second: 1.0,
        silent_seconds: Some(3.0),
    };
    report.controller = Some(ControllerRates {
        members: [("b".to_owned(), rates)].into(),
        ..ControllerRates::default()
    });
    report.keep(&known(), None);
    let b = &report.members[1];
    assert_eq!(
        (b.state.as_str(), b.rates.writes_per_second),
        ("synced", 7.0)
    );
    assert_eq!(
        (b.failed_writes_per_second, b.silent_seconds),
        (Some(1.0), Some(3.0))
    );
    assert_eq!(report.members[0].failed_writes_per_second, None);
}

#[test]
fn golden_outputs_of_top_are_kept() {
    use crate::term::screen::Screen;
    use crate::views::top::text;

    let rates = MemberRates {
        state: "synced".to_owned(),
        writes_per_second: 7.0,
        failed_writes_per_second: 1.0,
        silent_seconds: Some(3.0),
    };
    let controller = ControllerRates {
        members: [("b".to_owned(), rates)].into(),
        ..ControllerRates::default()
    };
    let note = "c not watched: no answer within 5 s".to_owned();
    let states = [
        ("all namespaces", None, None, Vec::new()),
        ("one namespace", None, Some("shop"), Vec::new()),
        ("with the controller", Some(controller), None, Vec::new()),
        ("a member is not watched", None, None, vec![note]),
    ];
    let states = states.map(|(name, controller, namespace, notes)| {
        let mut report = report();
        report.controller = controller;
        report.keep(&known(), namespace);
        report.sort(SortBy::Changes);
        report.notes = notes;
        (
            name,
            crate::golden::both(&text::render(&report, Screen::PLAIN), &report),
        )
    });
    crate::golden::check("top", states.into_iter());
}
