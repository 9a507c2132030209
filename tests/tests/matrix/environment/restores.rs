//! Stores that are restored from a snapshot: what was copied from the state that is lost does not
//! outlive it.

use causeway_tests::Space;
use causeway_tests::eventually::eventually;

use super::super::When;
use super::{Environment, HEALED, NOTICED, PODS};

/// Changes after a snapshot.
const CHANGES: usize = 3;

impl Environment {
    /// Restores the store of a member that provides and consumes, replaces its pods, and waits
    /// until consumers hold them.
    pub(in super::super) async fn restore_member(&mut self, name: &str, when: When) {
        let snapshot = self.fleet.member(name).snapshot();
        for _ in 0..CHANGES {
            for route in 0..self.routes.len() {
                self.change(route).await;
                self.reaches(route, HEALED).await;
            }
        }
        let member = self.fleet.member(name);
        tokio::join!(member.restore(&snapshot), self.restart(when));
        for route in 0..self.routes.len() {
            if self.routes[route].provider == name {
                self.replace_pods(route).await;
            }
        }
        self.settled(&format!("after {name} was restored, {when:?}"))
            .await;
        for route in 0..self.routes.len() {
            self.change(route).await;
            self.reaches(route, HEALED).await;
        }
    }

    /// All pods of a service are recreated: those that its provider knows are not those that run.
    async fn replace_pods(&mut self, route: usize) {
        let space = Space::existing(&self.fleet, &self.space);
        let service = self.routes[route].name.clone();
        self.backends.remove(&service);
        let provider = self.fleet.member(&self.routes[route].provider);
        let label = format!("app={service}");
        let delete = ["delete", "pods", "-n", space.name(), "-l", &label];
        let at_once = ["--force", "--grace-period=0"];
        let deleted = provider.kubectl(delete.into_iter().chain(at_once)).await;
        deleted.ok();
        drop(space);
        self.add_pods(route, PODS).await;
    }

    /// Restores the hub, and looks whether changes of a Cluster are followed afterwards.
    pub(in super::super) async fn restore_hub(&mut self, drained: &str, when: When) {
        let snapshot = self.fleet.hub().snapshot();
        for number in 0..CHANGES {
            self.touch_hub(number).await;
        }
        tokio::join!(self.fleet.hub().restore(&snapshot), self.restart(when));
        self.settled(&format!("after the hub was restored, {when:?}"))
            .await;
        self.withdrawn_and_back(drained).await;
    }

    /// A member is drained and serves again: changes of its Cluster are followed.
    pub(super) async fn withdrawn_and_back(&self, drained: &str) {
        let provided = self
            .routes
            .iter()
            .position(|route| route.provider == drained);
        let provided = provided.expect("a service of the member");
        self.annotate(drained, "mcs.causeway.dev/withdraw=true")
            .await;
        eventually(&format!("{drained} is drained"), NOTICED, async || {
            self.copied(provided).await.is_empty()
        })
        .await;
        self.annotate(drained, "mcs.causeway.dev/withdraw-").await;
        self.settled(&format!("after {drained} was drained")).await;
    }

    /// A change of everything on the hub that means nothing, so that versions move.
    async fn touch_hub(&self, number: usize) {
        let note = format!("test.causeway.dev/change={number}");
        let hub = self.fleet.hub();
        for kind in ["mcs", "services"] {
            let annotate = [
                "annotate",
                "--overwrite",
                "--all",
                "-n",
                &self.space,
                kind,
                &note,
            ];
            hub.kubectl(annotate).await.ok();
        }
        let annotate = [
            "annotate",
            "--overwrite",
            "--all",
            "clusters.cluster.karmada.io",
            &note,
        ];
        hub.kubectl(annotate).await.ok();
    }

    pub(super) async fn annotate(&self, cluster: &str, annotation: &str) {
        let hub = self.fleet.hub();
        let object = format!("clusters.cluster.karmada.io/{cluster}");
        let annotate = ["annotate", "--overwrite", &object, annotation];
        hub.kubectl(annotate).await.ok();
    }
}
