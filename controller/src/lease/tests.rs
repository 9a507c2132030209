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
fn what_is_done_about_a_lease_follows_from_who_holds_it_and_when_it_was_seen_to_change() {
    let at = Instant::now();
    let after = |seconds| at + Duration::from_secs(seconds);
    let wait = |seconds| Move::Wait {
        holder: "b".to_owned(),
        expires: after(seconds),
    };
    let cases = [
        ("no Lease", None, 0, Move::Create),
        ("nobody's", Some(lease(None, Some(15))), 0, Move::Take),
        ("released", Some(lease(Some(""), Some(1))), 0, Move::Take),
        ("its own", Some(lease(Some("a"), Some(15))), 60, Move::Renew),
        (
            "another's, fresh",
            Some(lease(Some("b"), Some(15))),
            14,
            wait(15),
        ),
        (
            "another's, expired",
            Some(lease(Some("b"), Some(15))),
            15,
            Move::Take,
        ),
        (
            "another's, of a longer duration",
            Some(lease(Some("b"), Some(60))),
            30,
            wait(60),
        ),
        (
            "another's, without a duration",
            Some(lease(Some("b"), None)),
            14,
            wait(15),
        ),
        (
            "another's, of a senseless duration",
            Some(lease(Some("b"), Some(-5))),
            14,
            wait(15),
        ),
    ];
    for (case, object, seconds, expected) in cases {
        let seen = object.map(|object| Seen { object, at });
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
            Some(lease(Some("a"), Some(15))),
            (me.clone(), Some(3), epoch, now_.clone()),
        ),
        (
            Some(lease(Some("b"), Some(15))),
            (me.clone(), Some(4), now_.clone(), now_.clone()),
        ),
        (
            Some(lease(Some(""), Some(1))),
            (me, Some(4), now_.clone(), now_),
        ),
    ];
    for (object, expected) in cases {
        let spec = claim(object.as_ref(), &settings("a"), now);
        assert_eq!(spec.lease_duration_seconds, Some(15));
        assert_eq!(summary(spec), expected);
    }
}

#[test]
fn a_released_lease_is_anybodys_at_once_and_remembers_its_transitions() {
    let now = Timestamp::from_second(1_000).unwrap();
    let spec = released(&lease(Some("a"), Some(15)), now);
    assert_eq!(spec.lease_transitions, Some(3));
    let seen = Seen {
        object: LeaseObject {
            spec: Some(spec),
            ..LeaseObject::default()
        },
        at: Instant::now(),
    };
    assert_eq!(decide(Some(&seen), seen.at, &settings("b")), Move::Take);
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
}
