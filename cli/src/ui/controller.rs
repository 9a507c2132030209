//! Whether the controller seems to run, by its Lease.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::interval;

use super::live::Note;
use crate::api_server::ApiServer;
use crate::args::Lease;
use crate::lease::Controller;

/// How often the Lease of the controller is read.
const LEASE_EVERY: Duration = Duration::from_secs(5);

/// Reads the Lease every few seconds. Reports when it begins or ceases to show a problem.
pub(super) async fn follow(hub: ApiServer, lease: Lease, notes: mpsc::Sender<Note>) {
    let mut ticks = interval(LEASE_EVERY);
    let mut last = None;
    loop {
        ticks.tick().await;
        let Ok(controller) = Controller::read(&hub, &lease).await else {
            continue;
        };
        let problem = controller.problem(Timestamp::now());
        if last.as_ref() != Some(&problem) {
            last = Some(problem.clone());
            notes.send(Note::Controller(problem)).await.ok();
        }
    }
}
