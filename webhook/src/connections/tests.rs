use prometheus_client::registry::Registry;

use super::*;

fn connections(max: usize) -> Arc<Connections> {
    let metrics = Metrics::register(&mut Registry::default());
    Arc::new(Connections::new(max, metrics))
}

fn let_pass(connections: &Connections, seconds: u64) {
    for _ in 0..seconds * TICKS_A_SECOND {
        connections.sweep();
    }
}

#[test]
fn each_phase_ends_after_its_time_limit() {
    let cases = [
        (Phase::Handshake, 0, Some(10)),
        (Phase::Unused, 0, Some(150)),
        (Phase::Head, 0, Some(10)),
        (Phase::Body, 0, Some(5)),
        (Phase::Body, 3 * MIB, Some(8)),
        (Phase::Body, 7 * MIB, Some(10)),
        (Phase::Wait, 0, Some(5)),
        (Phase::Answer, 0, None),
        (Phase::Send, 0, Some(10)),
        (Phase::Idle, 0, Some(150)),
        (Phase::Closing, 0, Some(2)),
    ];
    for (phase, received, seconds) in cases {
        let limit = seconds.map(|seconds| seconds * TICKS_A_SECOND);
        assert_eq!(phase.limit(received, false), limit, "{phase:?}");
        let slot = connections(1).slot().expect("a slot");
        slot.progress().request_begins(true);
        slot.progress().received(received as usize);
        slot.progress().enter(phase);
        if let Some(seconds) = seconds {
            let_pass(&slot.connections, seconds);
            assert!(!slot.progress().is_closing(), "{phase:?}");
            let_pass(&slot.connections, 1);
        } else {
            let_pass(&slot.connections, 1000);
        }
        assert_eq!(slot.progress().is_closing(), seconds.is_some(), "{phase:?}");
    }
    assert_eq!(
        Phase::Unused.limit(0, true),
        Some(2 * TICKS_A_SECOND),
        "at the end"
    );
}

#[test]
fn least_recently_active_connection_is_evicted_first() {
    let connections = connections(9);
    let slot = |phase: Phase, ticks: u64| {
        let slot = connections.slot().expect("a slot");
        slot.progress().enter(phase);
        (0..ticks).for_each(|_| connections.sweep());
        slot
    };
    let slots = [
        slot(Phase::Answer, 1),
        slot(Phase::Send, 1),
        slot(Phase::Body, 1),
        slot(Phase::Idle, 1),
        slot(Phase::Idle, 1),
        slot(Phase::Unused, 1),
        slot(Phase::Head, GRACE),
        slot(Phase::Handshake, 0),
        slot(Phase::Idle, 0),
    ];
    let mut later = Vec::new();
    for evicted in [5, 6, 3, 4, 1, 2, 7, 8] {
        let new = connections.slot().expect("one is evicted");
        new.progress().enter(Phase::Answer);
        later.push(new);
        assert!(slots[evicted].progress().is_closing(), "{evicted}");
        let closing = slots.iter().filter(|slot| slot.progress().is_closing());
        assert_eq!(closing.count(), later.len());
    }
    assert!(connections.slot().is_none(), "all are being answered");
    drop((slots, later));
    assert!(connections.slot().is_some());
}

#[test]
fn body_that_has_just_begun_is_not_evicted() {
    let connections = connections(9);
    let slow = connections.slot().expect("a slot");
    slow.progress().request_begins(true);
    assert!(!connections.evict_slowest_body());
    let_pass(&connections, 2);
    let young = connections.slot().expect("a slot");
    young.progress().request_begins(true);
    assert!(connections.evict_slowest_body() && slow.progress().is_closing());
    assert!(!connections.evict_slowest_body() && !young.progress().is_closing());
}

#[test]
fn slow_large_body_is_cut_while_another_waits() {
    let connections = connections(9);
    let slots = [FREE, FREE + 1].map(|received| {
        let slot = connections.slot().expect("a slot");
        slot.progress().request_begins(true);
        slot.progress().received(received);
        slot
    });
    let_pass(&connections, 2);
    assert!(slots.iter().all(|slot| !slot.progress().is_closing()));
    let waiting = connections.slot().expect("a slot");
    waiting.progress().enter(Phase::Wait);
    let_pass(&connections, 1);
    assert_eq!(
        slots.map(|slot| slot.progress().is_closing()),
        [false, true]
    );
}
