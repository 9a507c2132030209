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
fn report() -> Report {
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

fn known() -> BTreeSet<ServiceKey> {
    ["shop/foo", "other/known"].map(key).into()
}

fn names(report: &Report) -> Vec<&str> {
    let services = report.services.iter();
    services.map(|service| service.name.as_str()).collect()
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
