//! Liveness of the controller according to its Lease.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::interval;

use super::live::Note;
use crate::cluster::api_server::ApiServer;
use crate::cluster::lease::{self, Controller, LeaseName};

/// Interval between two reads of the controller's Lease.
const LEASE_EVERY: Duration = Duration::from_secs(5);

/// Reads the Lease every 5 seconds and reports each change of the problem that it shows.
pub(super) async fn follow(hub: ApiServer, lease: LeaseName, notes: mpsc::Sender<Note>) {
    let mut ticks = interval(LEASE_EVERY);
    let mut last = None;
    loop {
        ticks.tick().await;
        let Ok(controller) = Controller::read(&hub, &lease).await else {
            continue;
        };
        let problem = controller.problem(lease::now(&hub).await);
        if last.as_ref() != Some(&problem) {
            last = Some(problem.clone());
            notes.send(Note::Controller(problem)).await.ok();
        }
    }
}
