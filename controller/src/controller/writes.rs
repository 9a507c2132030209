//! Writes are sent, and their answers folded in.

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{Controller, Parts};
use crate::apply::apply;
use crate::index::{Item, Standing};
use crate::outbox::{Announcement, Dispatch, Lane, WriteResult};
use crate::reconcile::Now;

impl Controller {
    pub(super) fn send(&mut self, now: Instant) {
        if !self.leads {
            return;
        }
        let Parts {
            index,
            fleet,
            outbox,
            hub,
            write_deadline,
            ..
        } = &mut self.parts;
        let open = |lane: &Lane| match lane {
            Lane::Hub => Some(0),
            Lane::Member(name) if index.standing(name) == Standing::Synced => {
                fleet.client(name).map(|(_, generation)| generation)
            }
            Lane::Member(_) => None,
        };
        for dispatch in outbox.ready(now, open) {
            let client = match &dispatch.lane {
                Lane::Hub => Some(hub.clone()),
                Lane::Member(name) => fleet.client(name).map(|(client, _)| client.clone()),
            };
            if let Some(client) = client {
                let deadline = *write_deadline;
                self.writes.spawn(async move {
                    let answer = apply(
                        &client,
                        &dispatch.write.object,
                        &dispatch.write.action,
                        deadline,
                    )
                    .await;
                    WriteResult { dispatch, answer }
                });
            }
        }
    }

    pub(super) fn joined(&mut self, result: Result<WriteResult, tokio::task::JoinError>) {
        match result {
            Ok(result) => self.written(result),
            Err(error) if error.is_cancelled() => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    pub(super) fn written(&mut self, result: WriteResult) {
        let now = Now::read();
        let retry = self.parts.outbox.finished(&result, now.instant);
        let WriteResult {
            dispatch:
                Dispatch {
                    lane,
                    generation,
                    item,
                    write,
                },
            answer,
        } = result;
        let cluster = match &lane {
            Lane::Hub => "hub",
            Lane::Member(name) => name.as_str(),
        };
        let (kind, verb) = (write.object.kind(), write.action.verb());
        self.parts
            .metrics
            .wrote(cluster, kind, verb, answer.as_ref().err());
        match answer {
            Ok(ack) => {
                tracing::debug!(cluster, kind, verb, object = ?write.object, "written");
                if let (Item::Service(key), Lane::Member(_)) = (&item, &lane)
                    && let Some(change) = self.sources_changed.get_mut(key)
                {
                    change.written = true;
                }
                let current = match &lane {
                    Lane::Hub => true,
                    Lane::Member(name) => self
                        .parts
                        .index
                        .members
                        .get(name)
                        .is_some_and(|member| member.generation == generation),
                };
                if current {
                    self.parts.index.fold_ack(&lane, ack, now.wall);
                }
                self.announce(&item, write.announcements);
            }
            Err(failure) => {
                if let Lane::Member(name) = &lane {
                    self.parts.index.note_refusal(name, &item, &write, &failure);
                }
                self.parts.metrics.retried();
                tracing::warn!(cluster, kind, verb, object = ?write.object, %failure, "a write failed");
                if let Some(at) = retry {
                    self.queue.at(item.clone(), at);
                }
            }
        }
        self.queue.now(item, now.instant);
    }

    pub(super) fn announce(&self, item: &Item, announcements: Vec<Announcement>) {
        let Item::Service(key) = item else { return };
        let uid = self
            .parts
            .index
            .hub
            .multi_cluster_services
            .get(key)
            .map(|mcs| mcs.uid.to_string());
        let about = ObjectReference {
            api_version: Some("networking.karmada.io/v1alpha1".to_owned()),
            kind: Some("MultiClusterService".to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid,
            ..ObjectReference::default()
        };
        for announcement in announcements {
            self.parts.announcer.announce(about.clone(), announcement);
        }
    }
}
