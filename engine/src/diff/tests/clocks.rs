//! Wall clocks that are set during a wait: the wait ends neither sooner nor later.

use k8s_openapi::jiff::SignedDuration;

use super::*;

const STEPS: [SignedDuration; 2] = [
    SignedDuration::from_hours(48),
    SignedDuration::from_hours(-48),
];

const TTL: Duration = Duration::from_secs(120);
const LITTLE: Duration = Duration::from_secs(10);

#[test]
fn a_step_of_the_clock_neither_ends_the_grace_of_a_service_nor_prolongs_it() {
    for step in STEPS {
        let mut env = provided();
        env.off_hub(Kind::Service, "foo").settle();
        env.set_clock(step).pass(GRACE - LITTLE);
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"], "{step}");
        assert!(
            env.says("foo", "Ready")
                .contains("kept until 2026-01-01T00:05")
        );
        env.pass(LITTLE);
        assert_eq!(env.copies("member2", "foo"), [], "{step}");
    }
}

#[test]
fn a_step_of_the_clock_neither_ends_the_ttl_of_a_provider_nor_prolongs_it() {
    for step in STEPS {
        let mut env = provided();
        env.settings.provider_ttl = Some(TTL);
        env.lose("member1").settle();
        env.set_clock(step).pass(TTL - LITTLE);
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"], "{step}");
        assert!(
            env.says("foo", "Ready")
                .contains("unreachable since 2026-01-01T00:00:0"),
            "{}",
            env.says("foo", "Ready")
        );
        env.pass(LITTLE);
        assert_eq!(
            env.addresses("member2", "foo"),
            Vec::<String>::new(),
            "{step}"
        );
    }
}

#[test]
fn a_step_of_the_clock_neither_ends_the_time_of_a_finalizer_nor_prolongs_it() {
    for step in STEPS {
        let mut env = provided();
        env.silent_member("member3")
            .off_hub(Kind::Mcs, "foo")
            .settle();
        env.set_clock(step).pass(Duration::from_secs(50));
        assert!(env.mcs("foo").is_some(), "{step}");
        env.pass(LITTLE);
        assert!(env.mcs("foo").is_none(), "{step}");
    }
}

#[test]
fn a_step_of_the_clock_neither_ends_the_time_of_a_member_that_leaves_nor_prolongs_it() {
    for step in STEPS {
        let mut env = provided();
        env.keeps_clusters = true;
        env.pass(LITTLE);
        let refusal = Failure::new(FailureKind::Forbidden, "no");
        env.server("member2").refuses = Some((Kind::Slice, refusal));
        env.off_hub(Kind::Cluster, "member2").settle();
        env.set_clock(step).pass(Duration::from_secs(25));
        assert_eq!(env.seen_out, [], "{step}");
        env.pass(LITTLE);
        assert_eq!(env.seen_out.len(), 1, "{step}");
    }
}
