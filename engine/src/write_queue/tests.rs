use causeway::domain::ServiceKey;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{env, name};
use crate::model::slice::{Exposure, content_hash};
use crate::model::{Ack, Operation, SliceId, TimePoint};

const MS: Duration = Duration::from_millis(1);

const LIMITS: WriteLimits = WriteLimits {
    qps: 10.0,
    burst: 3.0,
    width: 2,
    conflict_pause: Duration::from_secs(300),
};

struct Desk {
    write_queue: WriteQueue,
    now: TimePoint,
}

fn desk(limits: WriteLimits) -> Desk {
    Desk {
        write_queue: WriteQueue::new(limits),
        now: env().now(),
    }
}

fn wide() -> Desk {
    desk(WriteLimits {
        qps: 1000.0,
        burst: 1000.0,
        width: 100,
        ..LIMITS
    })
}

/// Returns a desk that sends four writes at once.
fn of_four_places() -> Desk {
    desk(WriteLimits {
        qps: 1000.0,
        burst: 4.0,
        width: 4,
        ..LIMITS
    })
}

fn item(service: &str) -> Item {
    Item::Service(ServiceKey::new("shop", service))
}

fn cluster(member: &str) -> TargetCluster {
    TargetCluster::Member(name(member))
}

fn object(service: &str) -> ObjectId {
    ObjectId::Service(ServiceKey::new("shop", service))
}

fn patch(service: &str, patch: Value) -> Write {
    Write::patch(object(service), patch)
}

/// Returns a write of Service `service` that contains `word`.
fn write(service: &str, word: &str) -> Write {
    patch(service, json!({ "word": word }))
}

fn word(dispatch: &Dispatch) -> &str {
    let patch = dispatch.write.operation().patch().expect("a patch");
    patch["word"].as_str().unwrap_or_default()
}

fn words(all: &[Dispatch]) -> Vec<&str> {
    all.iter().map(word).collect()
}

fn failure(kind: FailureKind) -> Result<Ack, Failure> {
    Err(Failure::new(kind, "no"))
}

fn fine(dispatch: &Dispatch) -> Result<Ack, Failure> {
    Ok(Ack::Deleted(dispatch.write.object().clone(), "u".into()))
}

impl Desk {
    fn enqueue(&mut self, member: &str, service: &str, word: &str) -> Enqueued {
        self.write_queue.enqueue(
            &cluster(member),
            &item(service),
            write(service, word),
            self.now.instant,
        )
    }

    fn ready(&mut self) -> Vec<Dispatch> {
        self.write_queue.ready(self.now.instant, |_| Some(7))
    }

    fn wait(&mut self, time: Duration) {
        self.now.instant += time;
    }

    fn finish(&mut self, dispatch: &Dispatch, answer: Result<Ack, Failure>) -> Option<Duration> {
        let result = WriteResult {
            dispatch: dispatch.clone(),
            answer,
        };
        let finished = self.write_queue.finished(&result, self.now.instant);
        let queue = self.write_queue.queues.get(&dispatch.target);
        let failed = queue.and_then(|queue| queue.failed.get(dispatch.write.object()));
        let failed = failed.filter(|_| finished.is_failed);
        failed.map(|failed| failed.retry_at - self.now.instant)
    }

    /// Returns the number of failures in a row of a write, as far as it counts as failed.
    fn failed(&self, member: &str, service: &str) -> Option<u32> {
        let queue = &self.write_queue;
        let failed = queue.failure_of(&cluster(member), &object(service));
        failed.map(|failed| failed.attempts)
    }

    /// Enqueues a write and fails it `attempts` times. Returns the last pause.
    fn fail(&mut self, member: &str, service: &str, kind: FailureKind, attempts: u32) -> Duration {
        let mut pause = Duration::ZERO;
        for _ in 0..attempts {
            self.wait(pause);
            assert_eq!(self.enqueue(member, service, "x"), Enqueued::Accepted);
            let dispatch = self.ready().pop().expect("a dispatch");
            pause = self.finish(&dispatch, failure(kind)).expect("a pause");
        }
        pause
    }
}

#[test]
fn the_latest_write_of_an_object_wins_and_keeps_its_place() {
    let mut desk = wide();
    desk.enqueue("member1", "a", "first");
    desk.enqueue("member1", "b", "only");
    desk.enqueue("member1", "a", "second");
    assert_eq!(words(&desk.ready()), ["second", "only"]);
    assert!(desk.ready().is_empty());
}

#[test]
fn rate_below_one_a_second_still_sends_writes() {
    let half = 0.5;
    let mut desk = desk(WriteLimits {
        qps: half,
        burst: half,
        ..LIMITS
    });
    desk.enqueue("member1", "a", "first");
    desk.enqueue("member1", "b", "second");
    assert_eq!(words(&desk.ready()), ["first"]);
    let pause = Duration::from_secs(2);
    let next_at = desk.write_queue.next_at(desk.now.instant);
    assert_eq!(next_at, Some(desk.now.instant + pause));
    desk.wait(pause);
    assert_eq!(words(&desk.ready()), ["second"]);
}

#[test]
fn an_item_that_is_planned_again_keeps_the_place_of_what_it_still_wants() {
    let mut desk = wide();
    desk.enqueue("member1", "a", "old");
    desk.enqueue("member1", "b", "b");
    desk.write_queue.keep_only(
        &item("a"),
        &[(cluster("member1"), vec![write("a", "new")])].into(),
    );
    desk.enqueue("member1", "a", "new");
    desk.enqueue("member1", "c", "c");
    desk.write_queue.keep_only(&item("c"), &BTreeMap::new());
    assert_eq!(words(&desk.ready()), ["new", "b"]);
}

#[test]
fn what_is_retracted_is_not_written() {
    let mut desk = wide();
    desk.enqueue("member1", "a", "a");
    desk.enqueue("member1", "b", "b");
    desk.enqueue("member2", "a", "elsewhere");
    desk.write_queue.retract(&cluster("member1"), &item("a"));
    assert_eq!(words(&desk.ready()), ["b", "elsewhere"]);
}

#[test]
fn one_write_of_an_object_is_under_way_at_a_time() {
    let mut desk = wide();
    desk.enqueue("member1", "a", "first");
    let first = desk.ready().remove(0);
    assert_eq!(
        (&first.target, first.generation, &first.item),
        (&cluster("member1"), 7, &item("a"))
    );
    desk.wait(Duration::from_secs(5));
    assert_eq!(desk.enqueue("member1", "a", "second"), Enqueued::UnderWay);
    assert_eq!(
        desk.enqueue("member2", "a", "elsewhere"),
        Enqueued::Accepted
    );
    assert!(
        desk.write_queue.is_busy_with(&item("a")) && !desk.write_queue.is_busy_with(&item("b"))
    );
    assert_eq!(desk.finish(&first, fine(&first)), None);
    assert!(!desk.write_queue.is_busy_with(&item("a")));
    assert!(desk.write_queue.holds(&item("a")) && !desk.write_queue.holds(&item("b")));
    assert_eq!(desk.enqueue("member1", "a", "second"), Enqueued::Accepted);
}

#[test]
fn the_first_change_goes_at_once_and_a_storm_is_folded_to_ten_a_second() {
    let mut desk = wide();
    let mut written = Vec::new();
    for round in 0..1000 {
        if desk.enqueue("member1", "a", &round.to_string()) == Enqueued::Accepted {
            let dispatch = desk.ready().remove(0);
            desk.finish(&dispatch, fine(&dispatch));
            written.push(round);
        }
        desk.wait(MS);
    }
    assert_eq!(written, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
}

#[test]
fn a_folded_write_says_when_to_offer_it_again() {
    let mut desk = wide();
    desk.enqueue("member1", "a", "first");
    let dispatch = desk.ready().remove(0);
    desk.finish(&dispatch, fine(&dispatch));
    desk.wait(30 * MS);
    assert_eq!(
        desk.enqueue("member1", "a", "second"),
        Enqueued::Later(desk.now.instant + 70 * MS)
    );
    assert_eq!(desk.enqueue("member1", "b", "another"), Enqueued::Accepted);
}

#[test]
fn the_pause_after_failures_doubles_per_object_up_to_half_a_minute() {
    let mut desk = wide();
    let pauses: Vec<_> = (1..=11)
        .map(|_| {
            let pause = desk.fail("member1", "a", FailureKind::Server, 1);
            desk.wait(pause);
            pause.as_millis()
        })
        .collect();
    assert_eq!(
        pauses,
        [
            100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000
        ]
    );
    assert_eq!(desk.fail("member1", "b", FailureKind::Server, 1), 100 * MS);
    assert_eq!(desk.fail("member2", "a", FailureKind::Server, 1), 100 * MS);
}

#[test]
fn a_success_ends_the_problem() {
    let mut desk = wide();
    let pause = desk.fail("member1", "a", FailureKind::Forbidden, 3);
    assert_eq!(desk.failed("member1", "a"), Some(3));
    assert_eq!(
        desk.enqueue("member1", "a", "x"),
        Enqueued::Later(desk.now.instant + pause)
    );
    desk.wait(pause);
    desk.enqueue("member1", "a", "x");
    let dispatch = desk.ready().remove(0);
    desk.finish(&dispatch, fine(&dispatch));
    assert_eq!(desk.failed("member1", "a"), None);
    assert_eq!(
        desk.fail("member1", "b", FailureKind::Forbidden, 1),
        100 * MS
    );
}

#[test]
fn a_conflict_is_a_problem_only_when_it_stays() {
    for kind in [FailureKind::Conflict, FailureKind::AlreadyExists] {
        let mut desk = wide();
        let pause = desk.fail("member1", "a", kind, 3);
        assert_eq!(desk.failed("member1", "a"), None);
        desk.wait(pause);
        desk.fail("member1", "a", kind, 1);
        assert_eq!(desk.failed("member1", "a"), Some(4));
    }
}

#[test]
fn failed_writes_are_reported_for_their_object_and_cluster() {
    let mut desk = wide();
    desk.fail("member1", "a", FailureKind::Forbidden, 1);
    assert_eq!(desk.failed("member1", "b"), None);
    assert_eq!(desk.failed("member2", "a"), None);
    desk.write_queue.keep_only(&item("b"), &BTreeMap::new());
    assert_eq!(desk.failed("member1", "a"), Some(1));
    desk.write_queue.keep_only(&item("a"), &BTreeMap::new());
    assert_eq!(
        desk.failed("member1", "a"),
        None,
        "it is not wanted any more"
    );
}

#[test]
fn items_that_share_an_object_take_turns_and_share_its_failure() {
    let mut desk = wide();
    let enqueue = |desk: &mut Desk, of: &str| {
        let (cluster, write) = (cluster("member1"), write("a", of));
        desk.write_queue
            .enqueue(&cluster, &item(of), write, desk.now.instant)
    };
    assert_eq!(enqueue(&mut desk, "a"), Enqueued::Accepted);
    let later = Enqueued::Later(desk.now.instant + SHARED);
    assert_eq!(enqueue(&mut desk, "b"), later, "it waits");
    let dispatch = desk.ready().remove(0);
    assert_eq!(enqueue(&mut desk, "b"), later, "it is under way");
    let pause = desk.finish(&dispatch, failure(FailureKind::Forbidden));
    let retry = desk.now.instant + pause.expect("a pause");
    assert_eq!(enqueue(&mut desk, "b"), Enqueued::Later(retry));
    assert!(desk.failed("member1", "a").is_some());
    desk.write_queue.keep_only(&item("a"), &BTreeMap::new());
    desk.wait(SHARED);
    assert_eq!(enqueue(&mut desk, "b"), Enqueued::Accepted);
}

#[test]
fn a_write_that_changed_nothing_is_not_repeated_at_once() {
    let mut desk = wide();
    let service = |version: &str| json!({"metadata": {"name": "a", "namespace": "shop", "resourceVersion": version}});
    let ack = |version| {
        Ok(Ack::Service(
            serde_json::from_value(service(version)).expect("a Service"),
        ))
    };
    for (version, is_failing) in [("6", false), ("5", true)] {
        let write = patch("a", json!({"metadata": {"resourceVersion": "5"}}));
        desk.write_queue
            .enqueue(&cluster("member1"), &item("a"), write, desk.now.instant);
        let dispatch = desk.ready().remove(0);
        assert_eq!(desk.finish(&dispatch, ack(version)).is_some(), is_failing);
        assert_eq!(desk.failed("member1", "a").is_some(), is_failing);
        desk.wait(100 * MS);
    }
}

#[test]
fn queue_of_a_cluster_has_a_burst_a_width_and_a_rate() {
    let mut desk = desk(LIMITS);
    for service in ["a", "b", "c", "d", "e", "f"] {
        desk.enqueue("member1", service, service);
    }
    let first = desk.ready();
    assert_eq!(words(&first), ["a", "b"], "two at a time");
    assert!(desk.ready().is_empty());
    assert_eq!(
        desk.write_queue.next_at(desk.now.instant),
        None,
        "it waits for an answer"
    );
    for dispatch in &first {
        desk.finish(dispatch, fine(dispatch));
    }
    let second = desk.ready();
    assert_eq!(words(&second), ["c"], "three after a pause");
    desk.finish(&second[0], fine(&second[0]));
    assert_eq!(
        desk.write_queue.next_at(desk.now.instant),
        Some(desk.now.instant + 100 * MS)
    );
    assert!(
        desk.write_queue
            .ready(desk.now.instant, |_| None)
            .is_empty()
    );
    assert_eq!(
        desk.write_queue.next_at(desk.now.instant),
        None,
        "a closed cluster does not wait for its rate"
    );
    assert!(desk.ready().is_empty());
    desk.wait(99 * MS);
    assert!(desk.ready().is_empty());
    desk.wait(2 * MS);
    let third = desk.ready();
    assert_eq!(words(&third), ["d"], "then ten a second");
    desk.finish(&third[0], fine(&third[0]));
    desk.wait(Duration::from_secs(60));
    assert_eq!(words(&desk.ready()), ["e", "f"]);
}

#[test]
fn failures_of_one_cluster_leave_the_others_alone() {
    let mut desk = desk(LIMITS);
    for service in ["a", "b", "c"] {
        desk.enqueue("member1", service, service);
        desk.enqueue("member2", service, service);
    }
    let stuck = desk.ready();
    assert_eq!(stuck.len(), 4);
    for dispatch in stuck.iter().filter(|one| one.target == cluster("member2")) {
        desk.finish(dispatch, fine(dispatch));
    }
    let next = desk.ready();
    assert_eq!(next.len(), 1, "member1 hangs, member2 goes on");
    assert_eq!(
        (&next[0].target, word(&next[0])),
        (&cluster("member2"), "c")
    );
}

#[test]
fn queue_that_is_not_open_holds_up_no_other() {
    let mut desk = wide();
    desk.enqueue("member1", "a", "a");
    desk.enqueue("member2", "a", "a");
    let open = |one: &TargetCluster| (*one == cluster("member2")).then_some(1);
    let dispatched = desk.write_queue.ready(desk.now.instant, open);
    assert_eq!(dispatched.len(), 1);
    assert_eq!(desk.ready().len(), 1);
}

#[test]
fn a_member_that_answers_again_is_tried_at_once() {
    let mut desk = wide();
    desk.fail("member1", "a", FailureKind::Refused, 8);
    desk.write_queue.reset(&cluster("member1"));
    desk.wait(FOLD);
    assert_eq!(desk.enqueue("member1", "a", "x"), Enqueued::Accepted);
}

#[test]
fn removed_member_leaves_nothing_waiting_and_nothing_under_way() {
    let mut desk = wide();
    desk.fail("member1", "c", FailureKind::Refused, 5);
    desk.enqueue("member1", "a", "under way");
    desk.enqueue("member2", "b", "under way");
    let dispatches = desk.ready();
    desk.enqueue("member1", "b", "waiting");
    desk.write_queue.remove(&cluster("member1"));
    assert!(!desk.write_queue.holds(&item("a")));
    assert!(desk.write_queue.is_busy_with(&item("b")), "in member2");
    assert_eq!(desk.failed("member1", "c"), None);
    assert_eq!(desk.enqueue("member1", "a", "again"), Enqueued::Accepted);
    let again = desk.write_queue.ready(desk.now.instant, |_| Some(8));
    for dispatch in &dispatches {
        assert_eq!(
            desk.finish(dispatch, failure(FailureKind::Refused))
                .is_some(),
            dispatch.target == cluster("member2")
        );
    }
    assert!(desk.write_queue.is_busy_with(&item("a")), "joined again");
    assert_eq!(words(&again), ["again"]);
    assert_eq!(desk.finish(&again[0], fine(&again[0])), None);
    assert!(desk.ready().is_empty() && !desk.write_queue.holds(&item("a")));
}

#[test]
fn lost_leadership_leaves_nothing_waiting_and_nothing_under_way() {
    let mut desk = wide();
    desk.enqueue("member1", "a", "under way");
    let dispatch = desk.ready().remove(0);
    desk.enqueue("member1", "b", "waiting");
    desk.fail("member2", "a", FailureKind::Refused, 5);
    desk.write_queue.clear();
    assert!(desk.ready().is_empty() && !desk.write_queue.is_busy_with(&item("a")));
    assert_eq!(desk.failed("member2", "a"), None);
    assert_eq!(
        desk.finish(&dispatch, failure(FailureKind::Timeout)),
        None,
        "a late answer means nothing"
    );
    assert_eq!(desk.enqueue("member1", "a", "again"), Enqueued::Accepted);
}

/// Returns a copy of a slice of that provider.
fn copy(provider: &str, slice: &str) -> Write {
    let labels = [(
        causeway::api::labels::SOURCE_CLUSTER.to_owned(),
        provider.to_owned(),
    )];
    let mut copy = k8s_openapi::api::discovery::v1::EndpointSlice::default();
    copy.metadata.labels = Some(labels.into());
    let id = SliceId {
        service: ServiceKey::new("shop", slice),
        exposure: Exposure::Native,
        name: slice.into(),
    };
    let content = content_hash(&copy).expect("a copy");
    Write::new(
        ObjectId::Slice(id),
        Operation::ReplaceSlice(copy.into(), content),
    )
}

#[test]
fn providers_take_turns_so_that_a_flood_of_one_does_not_keep_another_waiting() {
    let mut desk = of_four_places();
    let now = desk.now.instant;
    let mut enqueue = |provider: &str, slice: &str| {
        let (cluster, item) = (cluster("member1"), item(slice));
        let enqueued = desk
            .write_queue
            .enqueue(&cluster, &item, copy(provider, slice), now);
        assert_eq!(enqueued, Enqueued::Accepted);
    };
    for number in 0..100 {
        enqueue("flooding", &format!("flood{number}"));
    }
    enqueue("quiet", "x");
    enqueue("silent", "y");
    let ready = desk.ready();
    let started: Vec<_> = ready.iter().map(|dispatch| dispatch.item.clone()).collect();
    assert_eq!(
        started,
        [item("flood0"), item("x"), item("y"), item("flood1")]
    );
}

#[test]
fn namespaces_take_turns_so_that_a_flood_of_one_delays_no_other() {
    let mut desk = of_four_places();
    let now = desk.now.instant;
    let of = |namespace: &str, service: &str| ServiceKey::new(namespace, service);
    let mut enqueue = |key: ServiceKey| {
        let write = Write::patch(ObjectId::Service(key.clone()), json!({}));
        let (cluster, item) = (cluster("member1"), Item::Service(key));
        let enqueued = desk.write_queue.enqueue(&cluster, &item, write, now);
        assert_eq!(enqueued, Enqueued::Accepted);
    };
    for number in 0..100 {
        enqueue(of("flooded", &format!("s{number}")));
    }
    enqueue(of("quiet", "x"));
    enqueue(of("silent", "y"));
    let started: Vec<_> = desk.ready().into_iter().map(|one| one.item).collect();
    let expected = [
        of("flooded", "s0"),
        of("quiet", "x"),
        of("silent", "y"),
        of("flooded", "s1"),
    ];
    assert_eq!(started, expected.map(Item::Service));
}

#[test]
fn a_change_of_a_frugal_provider_does_not_wait_for_what_a_flood_is_given() {
    let mut desk = desk(WriteLimits {
        qps: 100.0,
        burst: 20.0,
        width: 100,
        ..LIMITS
    });
    let enqueue = |desk: &mut Desk, provider: &str, slices: &[&str]| {
        for slice in slices {
            let write = copy(provider, slice);
            let queue = &mut desk.write_queue;
            let enqueued =
                queue.enqueue(&cluster("member1"), &item(slice), write, desk.now.instant);
            assert_eq!(enqueued, Enqueued::Accepted);
        }
        let ready = desk.ready();
        ready.into_iter().map(|dispatch| dispatch.item).collect()
    };
    let flood: Vec<_> = (0..100).map(|number| format!("flood{number}")).collect();
    let flood: Vec<&str> = flood.iter().map(String::as_str).collect();
    let taken: Vec<Item> = enqueue(&mut desk, "flooding", &flood);
    assert_eq!(taken.len(), 18, "two of twenty are kept");
    assert_eq!(
        desk.write_queue.next_at(desk.now.instant),
        Some(desk.now.instant + 10 * MS)
    );
    let taken: Vec<Item> = enqueue(&mut desk, "frugal", &["a", "b"]);
    assert_eq!(taken, [item("a")], "the second is one of many");
    let taken: Vec<Item> = enqueue(&mut desk, "other", &["c", "d"]);
    assert_eq!(taken, [item("c")]);
    desk.wait(30 * MS);
    let taken: Vec<Item> = enqueue(&mut desk, "other", &[]);
    assert_eq!(taken, [item("flood18")], "whose turn it is");
    desk.wait(70 * MS);
    let taken: Vec<Item> = enqueue(&mut desk, "frugal", &[]);
    assert_eq!(taken[..2], [item("b"), item("d")], "frugal after a pause");
    assert_eq!(taken.len(), 7, "two of nine are kept again");
}

#[test]
fn what_was_enqueued_while_a_write_was_under_way_is_to_be_enqueued_again() {
    for meanwhile in [false, true] {
        let mut desk = wide();
        desk.enqueue("member1", "a", "first");
        let dispatch = desk.ready().remove(0);
        assert!(desk.write_queue.is_busy_with(&item("a")));
        if meanwhile {
            assert_eq!(desk.enqueue("member1", "a", "second"), Enqueued::UnderWay);
        }
        let answer = fine(&dispatch);
        let result = WriteResult { dispatch, answer };
        let finished = desk.write_queue.finished(&result, desk.now.instant);
        let expected = Finished {
            enqueued: meanwhile,
            ..Finished::default()
        };
        assert_eq!(finished, expected);
        assert!(!desk.write_queue.is_busy_with(&item("a")));
    }
}

#[test]
fn paused_write_removes_the_earlier_write_that_waits() {
    let mut desk = wide();
    for _ in 0..=crate::write_conflict::ROUNDS {
        desk.enqueue("member1", "a", "same");
        let dispatch = desk.ready().pop().expect("a dispatch");
        assert_eq!(desk.finish(&dispatch, fine(&dispatch)), None);
        desk.wait(FOLD);
    }
    assert_eq!(desk.enqueue("member1", "a", "other"), Enqueued::Accepted);
    let paused = desk.enqueue("member1", "a", "same");
    assert!(matches!(paused, Enqueued::Later(_)), "{paused:?}");
    assert!(desk.ready().is_empty());
    assert!(!desk.write_queue.holds(&item("a")));
}

#[test]
fn unconcerned_item_visits_no_conflict_of_others() {
    let mut desk = wide();
    for number in 0..100 {
        let name = format!("s{number}");
        for _ in 0..=crate::write_conflict::ROUNDS {
            desk.enqueue("member2", &name, "same");
            let dispatch = desk.ready().pop().expect("a dispatch");
            assert_eq!(desk.finish(&dispatch, fine(&dispatch)), None);
            desk.wait(FOLD);
        }
    }
    let (fighting, now) = (cluster("member2"), desk.now.instant);
    let visited = |item: &Item| {
        let write_conflicts = &desk.write_queue.write_conflicts;
        let write_conflicts = write_conflicts.ongoing(&fighting, item, now);
        (write_conflicts.size_hint().1, write_conflicts.count())
    };
    assert_eq!(visited(&item("other")), (Some(0), 0));
    assert_eq!(visited(&item("s7")), (None, 1));
}
