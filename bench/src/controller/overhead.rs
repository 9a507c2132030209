//! Changes while the controller's metrics are scraped.

use std::sync::Arc;

use anyhow::{bail, ensure};

use super::environment::{Environment, Subject};
use super::load::Load;
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::text::SliceId;
use crate::collectors::{Extent, Scraper};
use crate::pairs::Pairs;
use crate::report::Row;

const CONSUMERS: u16 = 10;
/// Of the time without, at most.
const RATIO: f64 = 1.02;

pub(crate) fn measure(extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let env = Environment::new()?;
        let consumers: Arc<[u16]> = (1..=CONSUMERS).collect();
        let spec = ServiceSpec {
            provider: 0,
            slices: 1,
            endpoints: 10,
            consumers,
        };
        let served = serve(Shape {
            members: 1 + usize::from(CONSUMERS),
            services: vec![spec; extent.services],
            dead: Vec::new(),
        })
        .await?;
        let controller = env.controller(&served)?;
        controller.synced(served.members()).await?;
        let Subject::Controller(running) = &controller else {
            bail!("the floor is not measured");
        };
        let scraper = Scraper::start(running.admin())?;
        let services = u32::try_from(extent.services)?;
        let pick = |number: u32| SliceId {
            service: number % services,
            slice: 0,
        };
        let load = Load::new(extent.per_second, extent.seconds);
        load.run(&served, pick).await;

        let (mut times, mut cpus) = (Pairs::default(), Pairs::default());
        for turn in 0..extent.turns {
            let mut rounds = [(0.0, 0.0); 2];
            let mut order = [false, true];
            order.rotate_left(turn % 2);
            for scraped in order {
                scraper.set(scraped);
                let before = controller.cpu()?;
                let outcome = load.run(&served, pick).await;
                let cpu = controller.cpu()?.saturating_sub(before);
                scraper.set(false);
                let (changes, lost) = (outcome.arrived.len(), outcome.lost);
                ensure!(lost == 0 && changes > 0, "{lost} changes were lost");
                let cpu = cpu.as_secs_f64() * 1e6 / changes as f64;
                rounds[usize::from(scraped)] = (outcome.percentile(0.5), cpu);
            }
            let [without, with] = rounds;
            times.note(without.0, with.0);
            cpus.note(without.1, with.1);
        }
        scraper.check(extent)?;
        let name = format!(
            "{}/s, {CONSUMERS} consumers, metrics scraped every second",
            extent.per_second
        );
        let times = times.row(format!("{name}: p50"), "ms");
        let cpus = cpus.row(format!("{name}: CPU of a change"), "us");
        Ok(vec![times.ratio_at_most(RATIO), cpus])
    })
}
