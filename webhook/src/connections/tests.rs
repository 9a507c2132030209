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
fn a_connection_may_be_in_each_phase_for_as_long_as_an_honest_client_needs() {
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
        let place = connections(1).place().expect("room");
        place.progress().request_begins();
        place.progress().received(received as usize);
        place.progress().enter(phase);
        if let Some(seconds) = seconds {
            let_pass(&place.connections, seconds);
            assert!(!place.progress().is_leaving(), "{phase:?}");
            let_pass(&place.connections, 1);
        } else {
            let_pass(&place.connections, 1000);
        }
        assert_eq!(
            place.progress().is_leaving(),
            seconds.is_some(),
            "{phase:?}"
        );
    }
    assert_eq!(
        Phase::Unused.limit(0, true),
        Some(2 * TICKS_A_SECOND),
        "at the end"
    );
}

#[test]
fn room_is_made_by_the_one_that_is_missed_least_and_never_by_one_that_is_answered() {
    let connections = connections(9);
    let place = |phase: Phase, ticks: u64| {
        let place = connections.place().expect("room");
        place.progress().enter(phase);
        (0..ticks).for_each(|_| connections.sweep());
        place
    };
    let places = [
        place(Phase::Answer, 1),
        place(Phase::Send, 1),
        place(Phase::Body, 1),
        place(Phase::Idle, 1),
        place(Phase::Idle, 1),
        place(Phase::Unused, 1),
        place(Phase::Head, GRACE),
        place(Phase::Handshake, 0),
        place(Phase::Idle, 0),
    ];
    let mut newcomers = Vec::new();
    for leaves in [5, 6, 3, 4, 1, 2, 7, 8] {
        let newcomer = connections.place().expect("room is made");
        newcomer.progress().enter(Phase::Answer);
        newcomers.push(newcomer);
        assert!(places[leaves].progress().is_leaving(), "{leaves}");
        let leaving = places.iter().filter(|place| place.progress().is_leaving());
        assert_eq!(leaving.count(), newcomers.len());
    }
    assert!(connections.place().is_none(), "all are being answered");
    drop((places, newcomers));
    assert!(connections.place().is_some());
}

#[test]
fn a_body_that_has_just_begun_is_not_cut_for_another() {
    let connections = connections(9);
    let slow = connections.place().expect("room");
    slow.progress().request_begins();
    assert!(!connections.cut_slowest_body());
    let_pass(&connections, 2);
    let young = connections.place().expect("room");
    young.progress().request_begins();
    assert!(connections.cut_slowest_body() && slow.progress().is_leaving());
    assert!(!connections.cut_slowest_body() && !young.progress().is_leaving());
}

#[test]
fn a_large_body_that_holds_up_others_is_cut_and_a_small_one_is_not() {
    let connections = connections(9);
    let places = [FREE, FREE + 1].map(|received| {
        let place = connections.place().expect("room");
        place.progress().request_begins();
        place.progress().received(received);
        place
    });
    let_pass(&connections, 2);
    assert!(places.iter().all(|place| !place.progress().is_leaving()));
    let waiting = connections.place().expect("room");
    waiting.progress().enter(Phase::Wait);
    let_pass(&connections, 1);
    assert_eq!(
        places.map(|place| place.progress().is_leaving()),
        [false, true]
    );
}
