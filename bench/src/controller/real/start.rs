//! A start of the controller between real API servers, in which all copies stand but for one slice that changed meanwhile.

use std::time::Instant;

use anyhow::ensure;
use kube::api::PostParams;

use super::super::load::Outcome;
use super::super::relay::Encoding;
use super::super::sim::text::SliceId;
use super::Extent;
use super::arrivals::{Arrivals, CONSUMER};
use super::clusters::{Clusters, MEMBERS, Spent};
use super::place::Place;
use crate::pairs::median;
use crate::report::Row;

/// A start; seconds since it began.
struct Started {
    first_change: f64,
    synced: f64,
    /// Until both.
    spent: Spent,
}

/// The floor: the same lists.
struct Listed {
    seconds: f64,
    spent: Spent,
}

/// Has the controller copy a place whose slices are in the provider, and starts it again, in turns with the floor.
pub(super) async fn measure(
    clusters: &Clusters<'_>,
    place: &Place<'_>,
    extent: &Extent,
) -> anyhow::Result<Vec<Row>> {
    place.expose().await?;
    let controller = clusters.synced().await?;
    place.copied().await;
    controller.end().await;
    let (mut starts, mut lists) = (Vec::new(), Vec::new());
    for number in 0..extent.starts {
        starts.push(start(clusters, place, number).await?);
        lists.push(list(clusters).await?);
    }
    Ok(rows(&starts, &lists, place.slices()))
}

async fn start(clusters: &Clusters<'_>, place: &Place<'_>, number: u32) -> anyhow::Result<Started> {
    let id = SliceId {
        service: number % place.services(),
        slice: 0,
    };
    let change = u16::try_from(number)? + 1;
    let changed = place.changed(id, change)?;
    let params = PostParams::default();
    let sources = place.sources_api();
    sources.replace(&id.name(), &params, &changed).await?;
    let arrivals = Arrivals::watch(place).await?;
    let (begun, before) = (Instant::now(), clusters.spent(None)?);
    let journal = &arrivals.journal;
    journal.changed(id, change.into(), vec![CONSUMER], begun);
    let controller = clusters.controller();
    controller.synced(MEMBERS).await?;
    let synced = begun.elapsed();
    let outcome = Outcome::of(journal).await;
    ensure!(outcome.lost == 0, "the change of meanwhile was lost");
    let spent = clusters.spent(Some(&controller))? - before;
    controller.end().await;
    Ok(Started {
        first_change: outcome.percentile(1.0) / 1e3,
        synced: synced.as_secs_f64(),
        spent,
    })
}

async fn list(clusters: &Clusters<'_>) -> anyhow::Result<Listed> {
    let before = clusters.spent(None)?;
    let wiring = clusters.wiring(0, None);
    let (took, _) = clusters.env.list_all(wiring, Encoding::Protobuf).await?;
    Ok(Listed {
        seconds: took.as_secs_f64(),
        spent: clusters.spent(None)? - before,
    })
}

fn rows(starts: &[Started], lists: &[Listed], slices: usize) -> Vec<Row> {
    let name = |what: &str| {
        format!(
            "real API servers, start, {MEMBERS} clusters, {slices} slices, {slices} copies: {what}"
        )
    };
    let of = |value: fn(&Started) -> f64| median(starts.iter().map(value));
    let floor = median(lists.iter().map(|listed| listed.seconds));
    let first = of(|started| started.first_change);
    let synced = of(|started| started.synced);
    let mut rows = vec![
        Row::new(name("to the first propagated change"), first, "s"),
        Row::new(name("to synced, beside the lists passed over"), synced, "s").beside(floor),
    ];
    let (mut own, mut other) = (Spent::default(), Spent::default());
    starts.iter().for_each(|started| own += started.spent);
    lists.iter().for_each(|listed| other += listed.spent);
    let count = starts.len() as f64;
    rows.extend((own / count).rows(Some(&(other / count)), |who| name(&format!("CPU, {who}"))));
    rows
}
