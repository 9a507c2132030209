//! End of a round: every cluster holds exactly the desired objects.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::Client;
use tokio::time::sleep;

use super::churn::Churn;
use super::observer::Observer;
use super::oracle::{self, Lines};
use super::snapshot::Snapshot;
use crate::Fleet;

const SAID: Duration = Duration::from_secs(20);

/// Waits until every cluster holds exactly what the objects say, what was deleted is gone, and the
/// observers have seen all of it. `clients` are those of all clusters, by name.
///
/// # Errors
/// The differences that are left when the time is over.
pub async fn settle(
    fleet: &Fleet,
    clients: &BTreeMap<String, Client>,
    churn: &Churn,
    observers: &[Observer],
    within: Duration,
) -> Result<Lines, Vec<String>> {
    let begun = Instant::now();
    let mut said = begun;
    loop {
        let snapshot = Snapshot::now(fleet, clients).await;
        let mut differences = churn.still_there(&snapshot);
        let blind = observers
            .iter()
            .filter(|observer| !observer.has_seen(&snapshot));
        differences.extend(blind.map(|_| "an observer has not seen all yet".to_owned()));
        match oracle::check(&snapshot) {
            Ok(lines) if differences.is_empty() => return Ok(lines),
            Ok(_) => {}
            Err(found) => differences.extend(found),
        }
        if begun.elapsed() > within {
            return Err(differences);
        }
        if said.elapsed() > SAID {
            said = Instant::now();
            eprintln!(
                "{} differences still after {} s, the first: {}",
                differences.len(),
                begun.elapsed().as_secs(),
                differences.first().map_or("", String::as_str)
            );
        }
        sleep(Duration::from_millis(200)).await;
    }
}
