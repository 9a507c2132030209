//! Stories that once failed.

use causeway::api::labels;
use serde_json::{Value, json};

use super::fleet::Simulation;
use super::kind::{Fleet, MEMBERS};
use super::picture::differences;
use super::step::{At, Outage, Step, exported, exposed};
use super::{end, forge, lose, reconnect};
use crate::explain::tests::agreement::assert_agrees;
use crate::fixtures::GRACE;
use crate::fixtures::networks::NetworkStep;
use crate::fixtures::objects::{Kind, NAMESPACE};

/// Returns a clusterset after steps, each with a second for the controller.
fn settled(publish: bool, steps: &[At]) -> Simulation {
    let mut simulation = Simulation::new(Fleet::Clusterset { publish });
    for step in steps {
        simulation.take(step);
        simulation.env.settle();
    }
    simulation
}

/// Returns the writes of losses after a rest.
fn written_by(simulation: &mut Simulation, losses: &[At]) -> Vec<String> {
    simulation.rest();
    simulation.env.forget_writes();
    lose(simulation, losses);
    simulation.env.log()
}

fn network(edge: bool, reach: Option<&'static str>) -> Step {
    Step::Network(NetworkStep::Cluster { edge, reach })
}

fn export(annotation: &str, value: Value) -> Step {
    Step::Export {
        team: 0,
        annotations: json!({ annotation: value }),
    }
}

#[test]
fn explain_knows_the_slice_that_makes_another_redundant() {
    let mut simulation = Simulation::new(Fleet::Native { exposed: false });
    simulation.env.keeps_clusters = true;
    let by_hand = Step::SliceByHand {
        slice: 0,
        address: 0,
        ready: false,
    };
    let of_kubernetes = Step::Slice {
        slice: 0,
        address: 0,
    };
    for step in [by_hand, network(true, Some("node-ports")), of_kubernetes] {
        simulation.take(&(1, step));
        simulation.env.work();
    }
    reconnect(&mut simulation);
    simulation.env.pass(GRACE + GRACE);
    assert_agrees(&simulation.env);
}

#[test]
fn export_behind_an_outage_is_no_older_than_one_of_before() {
    let changes = [
        (0, exposed(0)),
        (0, network(false, None)),
        (0, network(false, None)),
        (0, exported(0)),
        (0, Step::NoExport),
        (1, exported(0)),
        (0, export(labels::CONSUMERS, json!("member1"))),
    ];
    let outage = Outage {
        member: 0,
        begins: 5,
        changes: 0,
        restarts: false,
    };
    let end = |outage| end(Fleet::Clusterset { publish: true }, &changes, outage);
    let found = differences(&end(Some(outage)), &end(None));
    assert_eq!(found, Default::default());
}

#[test]
fn conflict_is_reported_after_a_restart_without_recorded_exporters() {
    let mut simulation = settled(
        false,
        &[
            (0, Step::Drain(true)),
            (2, exported(1)),
            (1, exported(0)),
            (2, Step::Import { ports: false }),
        ],
    );
    let losses = [(1, Step::Lose), (0, Step::Lose), (0, Step::Restart)];
    let written = written_by(&mut simulation, &losses);
    assert_eq!(written, Vec::<String>::new());
}

#[test]
fn a_members_import_is_not_repeated_in_exports_of_others() {
    for ports in [false, true] {
        let mut simulation = settled(
            false,
            &[
                (0, Step::Drain(true)),
                (1, Step::Import { ports }),
                (0, Step::Drain(false)),
            ],
        );
        assert_eq!(forge(&mut simulation, 1, false), Vec::<String>::new());
    }
}

/// The new exporter was not recorded when the process was killed, and the next process cannot
/// decide whether it is one: the import is deleted, and created after a second list.
#[test]
fn import_is_back_once_a_second_list_confirms_its_exporter() {
    let mut simulation = settled(false, &[(2, exported(0)), (0, exposed(0))]);
    for step in [(0, Step::NoSlices), (2, Step::NoExport)] {
        simulation.take(&step);
        simulation.env.work();
    }
    simulation.take(&(0, exported(0)));
    simulation.take(&(0, Step::Crash { arrived: 0 }));
    simulation.rest();
    for member in MEMBERS {
        let import = simulation.env.members[member].get(Kind::Import, NAMESPACE, "foo");
        assert!(import.is_some(), "{member}");
    }
}

#[test]
fn hand_made_import_keeps_its_tiers_while_an_exporter_is_unknown() {
    let mut simulation = settled(
        false,
        &[
            (0, Step::Drain(true)),
            (1, Step::Import { ports: true }),
            (0, Step::Drain(false)),
            (0, export(labels::PREFER, json!("cluster/member1, any"))),
            (2, exported(0)),
        ],
    );
    let written = written_by(&mut simulation, &[(0, Step::Lose), (0, Step::Restart)]);
    assert_eq!(written, Vec::<String>::new());
}

#[test]
fn published_export_keeps_its_status_while_a_member_is_lost() {
    let mut simulation = settled(true, &[(0, Step::Drain(true)), (2, exposed(2))]);
    let written = written_by(&mut simulation, &[(1, Step::Lose), (0, Step::Restart)]);
    let is_hub = |line: &String| line.starts_with("hub");
    assert!(written.iter().all(is_hub), "{written:?}");
}
