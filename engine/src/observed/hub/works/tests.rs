use std::time::Duration;

use super::*;
use crate::fixtures::{key, now};
use crate::model::HubEvent;
use crate::observed::Index;
use crate::observed::hub::manager::Manager;

fn work(id: &str, service: &str) -> ServiceWork {
    ServiceWork {
        id: id.into(),
        service: (!service.is_empty()).then(|| key(service)),
    }
}

/// Applies changes of Works. Checks the Work that marks each of two services, and which of them a
/// change concerns.
#[test]
fn a_service_is_karmadas_as_long_as_one_work_of_it_is_there() {
    type Observed = Signal<ServiceWork>;
    let listed = |works: &[(&str, &str)]| -> Observed {
        Signal::Listed(works.iter().map(|(id, of)| work(id, of)).collect())
    };
    let applied = |id: &str, of: &str| Observed::Applied(work(id, of));
    let deleted = |id: &str| Observed::Deleted(work(id, ""));
    let (mut works, mut change) = (Works::default(), Change::default());
    works.apply_served(true, now(), &mut change);
    for (step, (observed, foo, bar, concerned)) in [
        (listed(&[("b", "foo")]), "b", "", "foo"),
        (applied("c", "foo"), "b", "", ""),
        (applied("c", "foo"), "b", "", ""),
        (applied("a", "foo"), "a", "", "foo"),
        (applied("x", ""), "a", "", ""),
        (deleted("b"), "a", "", ""),
        (deleted("b"), "a", "", ""),
        (deleted("a"), "c", "", "foo"),
        (applied("c", "bar"), "", "c", "bar foo"),
        (applied("c", ""), "", "", "bar"),
        (listed(&[("a", "foo"), ("b", "bar")]), "a", "b", "bar foo"),
        (listed(&[("b", "bar"), ("c", "bar")]), "", "b", "foo"),
        (listed(&[]), "", "", "bar"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut change = Change::default();
        works.apply(observed, now(), &mut change);
        let first = |name: &str| {
            let first = works.of_service.get(&key(name)).and_then(BTreeSet::first);
            first.map(|id| id.to_string()).unwrap_or_default()
        };
        assert_eq!(
            (first("foo"), first("bar")),
            (foo.into(), bar.into()),
            "{step}"
        );
        let mut services: Vec<_> = change.services.iter().map(|key| &*key.name).collect();
        services.sort_unstable();
        assert_eq!(services.join(" "), concerned, "{step}");
    }
    assert!(works.services.is_empty());
}

#[test]
fn works_are_awaited_since_the_hub_list_or_their_definition() {
    let start = now();
    let at = |seconds| start.after(Duration::from_secs(seconds));
    let mut index = Index::new("hub");
    assert_eq!(index.manager(&key("foo"), at(1000)), Manager::Unknown(None));
    index.hub.evidence.listed_since = Some(at(10));
    let served = |index: &mut Index, served, now| {
        index.hub.apply(HubEvent::WorksServed(served), now);
    };
    for (now, manager, hides) in [
        (at(69), Manager::Unknown(Some(at(70))), false),
        (at(70), Manager::Causeway, true),
    ] {
        assert_eq!(index.manager(&key("foo"), now), manager, "{now}");
        assert_eq!(index.hides_works(now), hides, "{now}");
    }
    served(&mut index, false, at(80));
    assert_eq!(index.manager(&key("foo"), at(80)), Manager::Causeway);
    assert!(!index.hides_works(at(80)));
    served(&mut index, true, at(90));
    assert_eq!(
        index.manager(&key("foo"), at(100)),
        Manager::Unknown(Some(at(150)))
    );
    index.hub.apply(
        HubEvent::Works(Signal::Listed(vec![work("a", "foo")])),
        at(100),
    );
    assert_eq!(index.manager(&key("foo"), at(100)), Manager::Karmada("a"));
    assert_eq!(index.manager(&key("bar"), at(100)), Manager::Causeway);
    assert!(!index.hides_works(at(1000)));
}
