//! Random stories of one service in three members, and the rules that hold in all of them.
//!
//! [`step`] generates moves. A [`Simulation`] applies them to the servers of a fleet and runs the
//! ordinary loop of the controller. The tests of this file are the rules, [`failover`] has a
//! reference model of tiers, and [`found`] repeats stories that once failed.

mod failover;
mod fleet;
mod found;
mod kind;
mod picture;
mod step;

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::labels;
use proptest::collection::vec;
use proptest::prelude::*;

use self::fleet::Simulation;
use self::kind::{Fleet, MEMBERS, clusterset, native};
use self::picture::{differences, held, picture};
use self::step::{
    At, Outage, Step, Steps, change, loss, outage, patient, request, request_or_removal, step,
};
use crate::explain::tests::agreement::assert_agrees;
use crate::fixtures::GRACE;
use crate::fixtures::objects::is_ours;
use crate::model::{ObjectId, Operation, Write};

/// Returns the configuration of proptest, with a number of cases that `PROPTEST_CASES` replaces.
fn cases(cases: u32) -> ProptestConfig {
    let requested = std::env::var("PROPTEST_CASES").ok();
    let requested = requested.and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: requested.unwrap_or(cases),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Generates a fleet of either kind, and steps for it.
fn story(steps: Steps, most: usize) -> impl Strategy<Value = (Fleet, Vec<At>)> {
    let of = |fleet| vec(steps(fleet), 1..most);
    prop_oneof![
        (native(), of(Fleet::Native { exposed: false })),
        (clusterset(), of(Fleet::Clusterset { publish: false })),
    ]
}

/// Applies steps with a run of the controller after each, except before a crash.
fn play(simulation: &mut Simulation, steps: &[At]) {
    for (index, step) in steps.iter().enumerate() {
        simulation.take(step);
        if !matches!(steps.get(index + 1), Some((_, Step::Crash { .. }))) {
            simulation.env.work();
        }
    }
}

/// Applies losses with time between them.
fn lose(simulation: &mut Simulation, losses: &[At]) {
    for loss in losses {
        simulation.take(loss);
        simulation.env.pass(Duration::from_secs(40));
    }
}

/// Returns the simulation at rest after requests that hold the endpoints of unreachable members.
fn requested(fleet: Fleet, requests: Vec<At>) -> Simulation {
    let mut simulation = Simulation::new(fleet);
    for request in requests.into_iter().map(patient) {
        simulation.take(&request);
        simulation.env.work();
    }
    simulation.rest();
    simulation.env.forget_writes();
    simulation
}

fn exports_with(steps: &[At], annotation: &str) -> bool {
    steps.iter().any(|(_, step)| step.exports_with(annotation))
}

fn reconnect(simulation: &mut Simulation) {
    for member in MEMBERS {
        simulation.back(member);
    }
}

fn deleted_imports(simulation: &Simulation) -> usize {
    let is_deletion = |(_, write): &&(String, Write)| {
        let is_import = matches!(write.object(), ObjectId::ServiceImport(..));
        is_import && matches!(write.operation(), Operation::Delete(_))
    };
    simulation.env.written.iter().filter(is_deletion).count()
}

/// Returns the state at rest after changes and an outage during them.
fn end(fleet: Fleet, changes: &[At], outage: Option<Outage>) -> BTreeSet<String> {
    let mut simulation = Simulation::new(fleet);
    for (number, change) in changes.iter().enumerate() {
        if let Some(outage) = outage {
            simulation.take_outage(outage, number);
        }
        if matches!(change.1, Step::Export { .. }) {
            // An export that was published keeps its age when a user makes it their own.
            simulation.unpublish(MEMBERS[change.0]);
        }
        simulation.take(change);
        simulation.env.settle();
    }
    if let Some(outage) = outage {
        simulation.back(MEMBERS[outage.member]);
    }
    simulation.end();
    picture(&simulation.env)
}

/// Forges the import of a member and returns the writes into the others, except statuses of
/// imports: these name recorded exporters. Statuses of exports are returned on request.
fn forge(simulation: &mut Simulation, forger: usize, has_statuses: bool) -> Vec<String> {
    simulation.env.forget_writes();
    simulation.take(&(forger, Step::Forge));
    simulation.env.pass(Duration::from_secs(120));
    let is_status = |write: &Write| match write.object() {
        ObjectId::ServiceImportStatus(..) => true,
        ObjectId::ServiceExportStatus(..) => has_statuses,
        _ => false,
    };
    let of_others =
        |(to, write): &&(String, Write)| to != MEMBERS[forger] && to != "hub" && !is_status(write);
    let written = simulation.env.written.iter().filter(of_others);
    written.map(|write| format!("{write:?}")).collect()
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn any_story_ends_as_the_present_objects_request((fleet, steps) in story(step, 25)) {
        let mut simulation = Simulation::new(fleet);
        let all_import = !exports_with(&steps, labels::CONSUMERS);
        for (index, step) in steps.iter().enumerate() {
            let (exported, deleted) = (simulation.is_exported(), deleted_imports(&simulation));
            let with_crash = matches!(steps.get(index + 1), Some((_, Step::Crash { .. })));
            simulation.take(step);
            if !with_crash {
                simulation.env.work();
            }
            if all_import && exported && simulation.is_exported() {
                prop_assert_eq!(deleted_imports(&simulation), deleted, "an import lives as long as any export");
            }
        }
        reconnect(&mut simulation);
        simulation.end();
        for member in MEMBERS {
            let derived = simulation.env.service(member, "derived-foo");
            if derived.is_some_and(|service| !is_ours(service)) {
                let mixed = simulation.env.copies(member, "derived-foo");
                prop_assert!(mixed.is_empty(), "{} of a user's derived-foo: {:#?}", member, mixed);
            }
        }
        let (before, kept) = (picture(&simulation.env), held(&simulation.env));
        if simulation.is_clusterset() {
            let mut fresh = simulation.without_a_past();
            fresh.rest();
            prop_assert_eq!(differences(&before, &picture(&fresh.env)), Default::default());
        }
        simulation.env.restart();
        simulation.rest();
        prop_assert_eq!(differences(&picture(&simulation.env), &before), Default::default());
        prop_assert_eq!(held(&simulation.env), kept);
        simulation.env.assert_at_rest();
    }

    #[test]
    fn explain_and_the_controller_never_disagree(
        (fleet, steps) in story(step, 20), lost in vec(any::<bool>(), MEMBERS.len()),
    ) {
        let mut simulation = Simulation::new(fleet);
        simulation.env.keeps_clusters = true;
        play(&mut simulation, &steps);
        reconnect(&mut simulation);
        simulation.rest();
        for (member, lost) in MEMBERS.into_iter().zip(lost) {
            if lost {
                simulation.env.lose(member);
            }
        }
        simulation.rest();
        assert_agrees(&simulation.env);
    }

    #[test]
    fn losing_clusters_writes_nothing_into_members(
        (fleet, requests) in story(request, 12), losses in vec(loss(), 1..12),
    ) {
        // Under a list an unobserved exporter may have no importer that records it, so another list
        // decides, or none. Ready names no preference that is unknown.
        let has_lists = exports_with(&requests, labels::CONSUMERS);
        let has_tiers = exports_with(&requests, labels::PREFER);
        let fleet = match fleet {
            Fleet::Clusterset { publish } => Fleet::Clusterset { publish: publish && !has_lists },
            native @ Fleet::Native { .. } => native,
        };
        let mut simulation = requested(fleet, requests);
        lose(&mut simulation, &losses);
        let is_expected = |line: &String| {
            let is_status = line.ends_with("patch ServiceExport");
            let is_deletion = line.contains(" delete ");
            line.starts_with("hub") || has_lists && !is_deletion || is_status && has_tiers
        };
        let mut members = simulation.env.log();
        members.retain(|line| !is_expected(line));
        prop_assert_eq!(members, Vec::<String>::new());
    }

    #[test]
    fn a_restart_while_a_member_is_lost_takes_nothing(
        (fleet, steps) in story(request_or_removal, 12), lost in 0..MEMBERS.len(),
        seconds in 0..400u64, keeps_clusters in any::<bool>(),
    ) {
        let play = |restarts: bool| {
            let mut simulation = Simulation::new(fleet);
            simulation.env.keeps_clusters = keeps_clusters;
            for step in &steps {
                simulation.take(step);
                simulation.env.settle();
            }
            simulation.rest();
            simulation.env.lose(MEMBERS[lost]).pass(Duration::from_secs(seconds));
            if restarts {
                simulation.env.restart();
            }
            simulation.env.pass(GRACE + GRACE);
            held(&simulation.env)
        };
        let (kept, left) = (play(false), play(true));
        let taken: Vec<_> = kept.difference(&left).collect();
        prop_assert_eq!(taken, Vec::<&String>::new());
    }

    #[test]
    fn after_an_outage_everything_ends_as_if_there_had_been_none(
        (fleet, changes) in story(change, 12), outage in outage(),
    ) {
        let end = |outage| end(fleet, &changes, outage);
        prop_assert_eq!(differences(&end(Some(outage)), &end(None)), Default::default());
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn watches_of_exposed_slices_end_as_those_of_all_slices(
        steps in vec(step(Fleet::Native { exposed: false }), 1..25),
    ) {
        let end = |exposed| {
            let mut simulation = Simulation::new(Fleet::Native { exposed });
            play(&mut simulation, &steps);
            reconnect(&mut simulation);
            simulation.end();
            picture(&simulation.env)
        };
        prop_assert_eq!(differences(&end(true), &end(false)), Default::default());
    }

    #[test]
    fn forged_import_changes_nothing_in_other_members(
        requests in vec(request(Fleet::Clusterset { publish: false }), 1..12),
        losses in vec(loss(), 1..6), forger in 0..MEMBERS.len(),
    ) {
        // Statuses name importers and preferred clusters: the forger's own import counts.
        let has_statuses = exports_with(&requests, labels::CONSUMERS) || exports_with(&requests, labels::PREFER);
        let mut simulation = requested(Fleet::Clusterset { publish: false }, requests);
        lose(&mut simulation, &losses);
        prop_assert_eq!(forge(&mut simulation, forger, has_statuses), Vec::<String>::new());
    }
}
