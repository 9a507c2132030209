//! How long a change takes from the provider's API server to a watcher of the consumer's, and what everybody spends on it.

use std::time::{Duration, Instant};

use kube::api::PostParams;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::super::environment::Subject;
use super::super::load::{Load, Outcome};
use super::super::sim::text::SliceId;
use super::Extent;
use super::arrivals::{Arrivals, CONSUMER};
use super::clusters::{Clusters, Spent};
use super::place::Place;
use crate::report::Row;

const ENDPOINTS: u16 = 10;
/// What CPU times are scaled to.
const CHANGES: f64 = 1000.0;

/// A rate of changes.
struct Case {
    load: Load,
    controller: Measured,
    floor: Measured,
}

#[derive(Default)]
struct Measured {
    outcome: Outcome,
    spent: Spent,
}

/// The changes that were made until now.
#[derive(Default)]
struct Changes(u16);

pub(super) async fn measure(clusters: &Clusters<'_>, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    // Each has a namespace of its own, for what bears no label of the hub is nothing of the controller's.
    let controlled = Place::new(clusters, extent.services, 1, ENDPOINTS).await?;
    let relayed = Place::new(clusters, extent.services, 1, ENDPOINTS).await?;
    relayed.copy_by_hand().await?;
    controlled.expose().await?;
    let controller = clusters.synced().await?;
    controlled.copied().await;
    controller.end().await;

    let cases = extent.rates.iter().map(|(per_second, seconds)| Case {
        load: Load::new(*per_second, *seconds),
        controller: Measured::default(),
        floor: Measured::default(),
    });
    let mut cases: Vec<_> = cases.collect();
    let mut changes = Changes::default();
    for _ in 0..extent.rounds {
        let controller = clusters.synced().await?;
        for case in &mut cases {
            let measured = changes.measure(clusters, &controlled, &controller, case.load);
            case.controller.extend(measured.await?);
        }
        controller.end().await;
        let wiring = clusters.wiring(extent.services, Some(relayed.namespace()));
        let floor = clusters.env.floor(wiring).await?;
        for case in &mut cases {
            let measured = changes.measure(clusters, &relayed, &floor, case.load);
            case.floor.extend(measured.await?);
        }
        floor.end().await;
    }
    let rows = cases.iter().flat_map(|case| case.rows(extent.services));
    Ok(rows.collect())
}

impl Changes {
    /// Makes changes at a rate, after some that are no part of it.
    async fn measure(
        &mut self,
        clusters: &Clusters<'_>,
        place: &Place<'_>,
        subject: &Subject,
        load: Load,
    ) -> anyhow::Result<Measured> {
        let arrivals = Arrivals::watch(place).await?;
        self.make(place, &arrivals, Load::new(20.0, 0.5)).await?;
        let before = clusters.spent(Some(subject))?;
        let outcome = self.make(place, &arrivals, load).await?;
        Ok(Measured {
            outcome,
            spent: clusters.spent(Some(subject))? - before,
        })
    }

    /// Makes changes at a rate, of one service after the other, and waits until they have arrived.
    async fn make(
        &mut self,
        place: &Place<'_>,
        arrivals: &Arrivals,
        load: Load,
    ) -> anyhow::Result<Outcome> {
        let sources = place.sources_api();
        let mut requests = JoinSet::new();
        let begun = tokio::time::Instant::now();
        for number in 0..load.changes() {
            let after = Duration::from_secs_f64(f64::from(number) / load.per_second);
            self.0 += 1;
            let id = SliceId {
                service: u32::from(self.0) % place.services(),
                slice: 0,
            };
            let slice = place.changed(id, self.0)?;
            let sources = sources.clone();
            sleep_until(begun + after).await;
            let journal = &arrivals.journal;
            journal.changed(id, self.0.into(), vec![CONSUMER], Instant::now());
            requests.spawn(async move {
                let params = PostParams::default();
                sources.replace(&id.name(), &params, &slice).await
            });
        }
        while let Some(made) = requests.join_next().await {
            made??;
        }
        Ok(Outcome::of(&arrivals.journal).await)
    }
}

impl Measured {
    fn extend(&mut self, other: Self) {
        self.outcome.extend(other.outcome);
        self.spent += other.spent;
    }

    fn thousands(&self) -> f64 {
        self.outcome.arrived.len() as f64 / CHANGES
    }
}

impl Case {
    fn rows(&self, services: u32) -> Vec<Row> {
        let per_second = self.load.per_second;
        let name =
            |what: &str| format!("real API servers, {services} services, {per_second}/s: {what}");
        let (controller, floor) = (&self.controller, &self.floor);
        let percentile = |what: &str, part: f64| {
            Row::new(name(what), controller.outcome.percentile(part), "ms")
                .beside(floor.outcome.percentile(part))
        };
        let mut rows = vec![percentile("p50", 0.5), percentile("p99", 0.99)];
        let spent = controller.spent / controller.thousands();
        let floor_spent = floor.spent / floor.thousands();
        rows.extend(spent.rows(Some(&floor_spent), |who| {
            name(&format!("CPU of {CHANGES} changes, {who}"))
        }));
        let lost = controller.outcome.lost as f64;
        rows.push(Row::new(name("changes that did not arrive"), lost, "").at_most(0.0));
        rows
    }
}
