//! The controller among real API servers, few of them, and what each of these spends.

mod arrivals;
mod audited;
mod clusters;
mod events;
mod lists;
mod place;
mod propagation;
mod start;

use self::clusters::Clusters;
use self::place::Place;
use super::environment::Environment;
use crate::report::Row;

/// Slices of each of the services that are started into, and endpoints of each of these slices: as many as among imitated API servers.
const SLICES: u16 = 10;
const ENDPOINTS: u16 = 100;

/// How much is done.
pub(super) struct Extent {
    /// Services of one slice each whose changes are timed.
    pub(super) services: u32,
    /// Changes a second, and for how many seconds in each round.
    pub(super) rates: &'static [(f64, f64)],
    /// Rounds of the controller and the floor, in turns.
    pub(super) rounds: usize,
    /// Services that are started into.
    pub(super) large: u32,
    /// Rounds of lists and of watches.
    pub(super) turns: usize,
    pub(super) starts: u32,
    /// Changes that are counted in audit logs.
    pub(super) audited: usize,
}

pub(super) const FULL: Extent = Extent {
    services: 50,
    rates: &[(10.0, 2.0), (50.0, 2.0)],
    rounds: 2,
    large: 200,
    turns: 9,
    starts: 3,
    audited: 20,
};

pub(super) const QUICK: Extent = Extent {
    services: 4,
    rates: &[(20.0, 0.3)],
    rounds: 1,
    large: 3,
    turns: 1,
    starts: 1,
    audited: 3,
};

pub(super) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let clusters = Clusters::start(env).await?;
    let mut rows = propagation::measure(&clusters, extent).await?;
    let before = clusters.version_of_provider().await?;
    let place = Place::new(&clusters, extent.large, SLICES, ENDPOINTS).await?;
    rows.extend(lists::measure(&clusters, extent).await?);
    rows.extend(events::measure(&clusters, &before, place.slices(), extent.turns).await?);
    rows.extend(start::measure(&clusters, &place, extent).await?);
    rows.extend(audited::measure(&clusters, extent.audited).await?);
    Ok(rows)
}
