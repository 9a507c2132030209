use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, service_fn};

use super::*;

fn settings(identity: &str) -> Settings {
    Settings {
        identity: identity.to_owned(),
        ..Settings::default()
    }
}

fn lease(holder: Option<&str>, seconds: Option<i32>) -> LeaseObject {
    let spec = LeaseSpec {
        holder_identity: holder.map(str::to_owned),
        lease_duration_seconds: seconds,
        lease_transitions: Some(3),
        acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
        ..LeaseSpec::default()
    };
    LeaseObject {
        spec: Some(spec),
        ..LeaseObject::default()
    }
}

#[test]
fn lease_action_follows_from_holder_and_last_change() {
    let at = Instant::now();
    let after = |seconds| at + Duration::from_secs(seconds);
    let wait = |seconds| Move::Wait {
        holder: "b".to_owned(),
        expires: after(seconds),
    };
    let held = |by, seconds| Some(lease(Some(by), seconds));
    let twelve = Some(12);
    let cases = [
        ("no Lease", None, 0, Move::Create),
        ("nobody's", Some(lease(None, twelve)), 0, Move::Take),
        ("released", held("", Some(1)), 0, Move::Take),
        ("its own", held("a", twelve), 60, Move::Renew),
        ("another's, fresh", held("b", twelve), 11, wait(12)),
        ("another's, expired", held("b", twelve), 12, Move::Take),
        ("another's, longer", held("b", Some(60)), 30, wait(60)),
        ("another's, no duration", held("b", None), 11, wait(12)),
        ("another's, senseless", held("b", Some(-5)), 11, wait(12)),
    ];
    for (case, object, seconds, expected) in cases {
        let seen = object.map(|object| Seen::new(object, at, &settings("a")));
        assert_eq!(
            decide(seen.as_ref(), after(seconds), &settings("a")),
            expected,
            "{case}"
        );
    }
}

#[test]
fn a_takeover_counts_as_a_transition_and_a_renewal_does_not() {
    let now = Timestamp::from_second(1_000).unwrap();
    let summary = |spec: LeaseSpec| {
        (
            spec.holder_identity,
            spec.lease_transitions,
            spec.acquire_time,
            spec.renew_time,
        )
    };
    let me = Some("a".to_owned());
    let (epoch, now_) = (Some(MicroTime(Timestamp::UNIX_EPOCH)), Some(MicroTime(now)));
    let cases = [
        (None, (me.clone(), Some(0), now_.clone(), now_.clone())),
        (
            Some(lease(Some("a"), Some(12))),
            (me.clone(), Some(3), epoch, now_.clone()),
        ),
        (
            Some(lease(Some("b"), Some(12))),
            (me.clone(), Some(4), now_.clone(), now_.clone()),
        ),
        (
            Some(lease(Some(""), Some(1))),
            (me, Some(4), now_.clone(), now_),
        ),
    ];
    for (object, expected) in cases {
        let spec = claim(object.as_ref(), &settings("a"), now);
        assert_eq!(spec.lease_duration_seconds, Some(12));
        assert_eq!(summary(spec), expected);
    }
}

#[test]
fn released_lease_is_free_and_keeps_its_transitions() {
    let now = Timestamp::from_second(1_000).unwrap();
    let spec = released(&lease(Some("a"), Some(12)), now);
    assert_eq!(spec.lease_transitions, Some(3));
    let object = LeaseObject {
        spec: Some(spec),
        ..LeaseObject::default()
    };
    let (at, settings) = (Instant::now(), settings("b"));
    let held = Seen::new(lease(Some("a"), Some(12)), at, &settings);
    let seen = held.then(Some(object), at, &settings);
    assert_eq!(decide(Some(&seen), at, &settings), Move::Take);
}

#[tokio::test]
async fn process_without_election_leads_until_its_shutdown() {
    let (lease, leadership) = Lease::alone();
    assert!(leadership.borrow().may_write(Instant::now()));
    lease.run(std::future::ready(())).await;
    assert!(!leadership.borrow().may_write(Instant::now()));
    let published = while_leading(&leadership, std::future::pending::<()>());
    let ended = timeout(Duration::from_secs(10), published).await;
    assert_eq!(ended, Ok(None), "an Event that hangs is given up");
}

#[test]
fn lease_that_is_deleted_or_emptied_is_held_until_its_claim_expires() {
    let (at, settings) = (Instant::now(), settings("b"));
    let after = |seconds| at + Duration::from_secs(seconds);
    let emptied = lease(Some(""), Some(12));
    let without_spec = LeaseObject::default();
    for (found, next) in [
        (None, Move::Create),
        (Some(emptied), Move::Take),
        (Some(without_spec), Move::Take),
    ] {
        let mut seen = Seen::new(lease(Some("a"), Some(12)), at, &settings);
        for seconds in [2, 4] {
            seen = seen.then(found.clone(), after(seconds), &settings);
        }
        let wait = Move::Wait {
            holder: "a".to_owned(),
            expires: after(12),
        };
        assert_eq!(decide(Some(&seen), after(11), &settings), wait);
        assert_eq!(decide(Some(&seen), after(12), &settings), next);
        let renewed = seen.then(Some(lease(Some("a"), Some(12))), after(6), &settings);
        assert_ne!(decide(Some(&renewed), after(17), &settings), next);
    }
}

#[test]
fn no_two_processes_of_one_host_share_an_identity() {
    let (one, other) = (identity(), identity());
    assert_ne!(one, other);
    assert_eq!(
        one.rsplit_once('_').map(|(host, _)| host),
        other.rsplit_once('_').map(|(host, _)| host)
    );
}

#[test]
fn a_holder_stops_before_anybody_else_may_begin() {
    let settings = Settings::default();
    assert!(settings.renew_deadline < settings.duration);
    assert!(settings.period.mul_f64(1.25) + settings.request_deadline < settings.renew_deadline);
    let followed = settings.duration + settings.look.mul_f64(1.25);
    assert!(followed < Duration::from_secs(15), "{followed:?}");
}

/// Returns a candidate that holds the Lease, at a hub that answers each request so late.
fn holder_at_late_hub(late: Duration, settings: Settings) -> Election {
    let hub = service_fn(move |_: Request<Body>| async move {
        sleep(late).await;
        let renewed = serde_json::to_vec(&lease(Some("a"), Some(12)))?;
        Ok::<_, BoxError>(Response::new(Body::from(renewed)))
    });
    let own = Seen::new(lease(Some("a"), Some(12)), Instant::now(), &settings);
    Election {
        api: Api::namespaced(Client::new(hub, "default"), "ns"),
        name: "controller".to_owned(),
        place: "ns/controller".to_owned(),
        settings,
        seen: Some(own),
        free_since: None,
        reported: None,
    }
}

#[tokio::test]
async fn process_that_is_not_ready_leaves_a_free_lease_to_another_for_a_while() {
    let readiness = Readiness::default();
    let awaited = readiness.awaits("Services of the hub");
    let settings = Settings {
        readiness: Some(readiness),
        ..settings("a")
    };
    let mut election = holder_at_late_hub(Duration::ZERO, settings);
    let now = Instant::now();
    for (seconds, may) in [(0, false), (11, false), (12, true)] {
        let may_take = election.may_take(now + Duration::from_secs(seconds));
        assert_eq!(may_take, may, "{seconds} s");
    }
    election.free_since = None;
    drop(awaited);
    assert!(election.may_take(now));
}

#[tokio::test]
async fn pause_of_a_leader_begins_when_its_renewal_is_sent() {
    let late = Duration::from_millis(50);
    for (period, is_over) in [(late / 2, true), (Duration::from_secs(3600), false)] {
        let settings = Settings {
            period,
            ..settings("a")
        };
        let mut election = holder_at_late_hub(late, settings);
        let (leadership, _receiver) = watch::channel(Leadership::Follower { holder: None });
        let pause = election.campaign(&leadership).await;
        assert!(leadership.borrow().may_write(Instant::now()));
        assert_eq!(pause.is_zero(), is_over, "{pause:?}");
    }
}

#[test]
fn what_clocks_show_decides_nothing() {
    let at = Instant::now();
    let year = 365 * 24 * 3600;
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    // What the holder's clock showed when it renewed, against this process's: both may jump at any
    // time.
    for jump in [0, 3600, -3600, 40 * year, -40 * year] {
        let shown = now.checked_add(jiff_seconds(jump)).unwrap();
        let mut object = lease(Some("b"), Some(12));
        if let Some(spec) = &mut object.spec {
            spec.renew_time = Some(MicroTime(shown));
            spec.acquire_time = Some(MicroTime(shown));
        }
        let seen = Seen::new(object, at, &settings("a"));
        for (seconds, is_taken) in [(0, false), (11, false), (12, true)] {
            let decided = decide(
                Some(&seen),
                at + Duration::from_secs(seconds),
                &settings("a"),
            );
            assert_eq!(decided == Move::Take, is_taken, "{jump} {seconds}");
        }
        let claimed = claim(Some(&lease(Some("a"), Some(12))), &settings("a"), shown);
        let object = LeaseObject {
            spec: Some(claimed),
            ..LeaseObject::default()
        };
        let seen = Seen::new(object, at, &settings("a"));
        assert_eq!(decide(Some(&seen), at, &settings("a")), Move::Renew);
    }
}

fn jiff_seconds(seconds: i64) -> k8s_openapi::jiff::SignedDuration {
    k8s_openapi::jiff::SignedDuration::from_secs(seconds)
}

#[tokio::test]
async fn no_step_of_a_request_is_taken_after_the_deadline() {
    let now = Instant::now();
    let (leads, led) = (
        Leadership::Leader {
            until: now + Duration::from_secs(3600),
        },
        // No event yet shows that this claim is over.
        Leadership::Leader { until: now },
    );
    let follows = Leadership::Follower { holder: None };
    // What is so before each step, and how many steps are taken of three.
    let cases = [
        ([&leads, &leads, &leads], 3),
        ([&leads, &leads, &led], 2),
        ([&leads, &follows, &leads], 1),
        ([&led, &leads, &leads], 0),
        ([&follows, &leads, &leads], 0),
    ];
    for (claims, expected) in cases {
        let (leadership, receiver) = watch::channel(claims[0].clone());
        let steps = std::cell::Cell::new(0);
        let request = async {
            for next in 1..=claims.len() {
                steps.set(next);
                if let Some(claim) = claims.get(next) {
                    leadership.send_replace((*claim).clone());
                    tokio::task::yield_now().await;
                }
            }
        };
        let answer = while_leading(&receiver, request).await;
        assert_eq!((steps.get(), answer.is_some()), (expected, expected == 3));
    }
}

#[tokio::test]
async fn panic_of_the_writer_releases_the_lease() {
    let written = CancellationToken::new();
    let writer = async {
        if tokio::task::try_id().is_some() {
            panic!("on purpose");
        }
    };
    let running = tokio::spawn(cancel_after(writer, written.clone()));
    let ended = running.await.expect_err("the writer panics");
    assert!(ended.is_panic());
    assert!(written.is_cancelled());
}
