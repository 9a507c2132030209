//! Reference model of failover: after any pod changes, preferences, outages and restarts, every
//! consumer holds the copies that the rules require.

use std::collections::BTreeMap;

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use proptest::collection::vec;
use proptest::prelude::*;

use super::cases;
use super::fleet::Simulation;
use super::kind::{Fleet, MEMBERS};
use super::step::{Step, failover, preferring};
use crate::explain::tests::agreement::assert_agrees;
use crate::fixtures::Environment;
use crate::fixtures::objects::{Kind, NAMESPACE};
use crate::plan::tiers::HOLD;

/// Preference and numbers of endpoints.
struct Model {
    /// Numbers of ready and of all endpoints, by member.
    pods: BTreeMap<&'static str, (usize, usize)>,
    prefer: String,
    min_ready: usize,
}

impl Model {
    fn read(env: &Environment) -> Self {
        let count = |member: &&'static str| {
            let slice = env.members[*member].get(Kind::Slice, NAMESPACE, "foo-0");
            let endpoints = slice.and_then(|slice| slice["endpoints"].as_array());
            let all = endpoints.expect("endpoints");
            let ready = all.iter().filter(|one| one["conditions"]["ready"] == true);
            (*member, (ready.count(), all.len()))
        };
        let annotation = |name: &str| {
            let mcs = env.mcs("foo").expect("a MultiClusterService");
            let value = mcs["metadata"]["annotations"][name].as_str();
            value.unwrap_or_default().to_owned()
        };
        let min_ready = annotation(labels::MIN_READY);
        Self {
            pods: MEMBERS.iter().map(count).collect(),
            prefer: annotation(labels::PREFER),
            min_ready: min_ready.trim_end_matches('%').parse().unwrap_or_default(),
        }
    }

    /// Returns the tiers of a consumer, nearest first, each with its clusters.
    fn tiers(&self, consumer: &str) -> Vec<Vec<&'static str>> {
        let region = |member: &str| member != "member3";
        let mut left = MEMBERS.to_vec();
        let mut tiers = Vec::new();
        for word in self.prefer.split(", ") {
            let takes = |member: &str| match word {
                "local" => member == consumer,
                "region" => region(member) == region(consumer),
                "any" => true,
                named => named == format!("cluster/{member}"),
            };
            let (taken, rest) = left.iter().partition(|member| takes(member));
            left = rest;
            tiers.push(taken);
        }
        tiers
    }

    /// Returns the number of active tiers according to the rules.
    fn active(&self, tiers: &[Vec<&str>]) -> usize {
        let has_enough = |tier: &Vec<&str>| {
            let pods = tier.iter().map(|member| self.pods[member]);
            let (ready, total) = pods.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            ready > 0 && ready * 100 >= total * self.min_ready
        };
        let first = tiers.iter().position(has_enough);
        first.map_or(tiers.len(), |first| first + 1)
    }

    /// Asserts that a consumer never has fewer endpoints than the rules require, has none that is
    /// not ready at its source and, if failback has settled, has no ready one of an inactive tier.
    fn assert_holds(
        &self,
        env: &Environment,
        consumer: &str,
        settled: bool,
    ) -> Result<(), TestCaseError> {
        let usable = usable(&env.copies(consumer, "foo"));
        let tiers = self.tiers(consumer);
        let active = self.active(&tiers);
        for (place, tier) in tiers.iter().enumerate() {
            for member in tier.iter().filter(|member| **member != consumer) {
                let pods = self.pods[member].0;
                let (ready, standby) = usable.get(*member).copied().unwrap_or_default();
                let of_member = format!("{member} in {consumer}, {}", self.prefer);
                prop_assert_eq!(ready + standby, pods, "{}", of_member);
                prop_assert!(place >= active || ready == pods, "promoted: {}", of_member);
                let is_demoted = !settled || place < active || ready == 0;
                prop_assert!(is_demoted, "demoted: {}", of_member);
            }
        }
        Ok(())
    }
}

/// Counts ready and standby endpoints of a consumer's copies, by provider.
fn usable(copies: &[EndpointSlice]) -> BTreeMap<String, (usize, usize)> {
    let mut found = BTreeMap::new();
    for copy in copies {
        let labels = copy.metadata.labels.clone().unwrap_or_default();
        let conditions = copy
            .endpoints
            .iter()
            .filter_map(|one| one.conditions.as_ref());
        let is = |value: Option<bool>| value.unwrap_or_default();
        let ready = conditions.clone().filter(|one| is(one.ready)).count();
        let is_standby = |one: &&_| {
            let EndpointConditions {
                ready,
                serving,
                terminating,
            } = **one;
            !is(ready) && is(serving) && is(terminating)
        };
        let standby = conditions.filter(is_standby).count();
        found.insert(labels[labels::SOURCE_CLUSTER].clone(), (ready, standby));
    }
    found
}

/// Returns three members with two ready endpoints each, which prefer their own.
fn preferred() -> Simulation {
    let mut simulation = Simulation::new(Fleet::Native { exposed: false });
    for member in 0..MEMBERS.len() {
        simulation.take(&(member, Step::Pods { ready: 2, total: 2 }));
    }
    simulation.take(&(0, preferring("local, any", 0)));
    simulation.env.settle();
    simulation
}

fn assert_members_hold(simulation: &Simulation, settled: bool) -> Result<(), TestCaseError> {
    let model = Model::read(&simulation.env);
    let mut seen = MEMBERS.into_iter();
    let seen = seen
        .by_ref()
        .filter(|member| !simulation.disconnected.contains(member));
    for member in seen {
        model.assert_holds(&simulation.env, member, settled)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn consumers_hold_what_the_rules_require_and_nothing_flaps(steps in vec(failover(), 1..30)) {
        let mut simulation = preferred();
        for (member, step) in steps {
            let is_lost = !simulation.disconnected.is_empty();
            let is_skipped = match step {
                // The model does not distinguish what a lost member has from what is observed.
                Step::Pods { .. } => simulation.disconnected.contains(MEMBERS[member]),
                // A process that never observed a member leaves its copies as they are.
                Step::Restart => is_lost,
                _ => false,
            };
            simulation.env.forget_writes();
            if !is_skipped {
                simulation.take(&(member, step));
            }
            simulation.env.settle();
            let log = simulation.env.log();
            let slices = log.iter().filter(|line| line.ends_with("EndpointSlice")).count();
            // A consumer writes each copy when the source changes and when a tier is given up.
            prop_assert!(slices <= 2 * 6, "{:?}", log);
            assert_members_hold(&simulation, false)?;
        }
        simulation.env.pass(HOLD * 2);
        assert_members_hold(&simulation, true)?;
        if simulation.disconnected.is_empty() {
            assert_agrees(&simulation.env);
            simulation.env.assert_at_rest();
        }
    }
}

#[test]
fn model_rejects_standby_endpoints_of_an_active_tier() {
    let mut simulation = preferred();
    let mut model = Model::read(&simulation.env);
    assert!(model.assert_holds(&simulation.env, "member1", true).is_ok());
    "any".clone_into(&mut model.prefer);
    assert!(
        model
            .assert_holds(&simulation.env, "member1", true)
            .is_err()
    );
    simulation.take(&(0, preferring("any", 0)));
    simulation.env.settle();
    assert!(model.assert_holds(&simulation.env, "member1", true).is_ok());
}
