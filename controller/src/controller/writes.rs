//! Writes are sent, and their answers applied.

use std::time::{Duration, Instant};

use causeway::domain::{ClusterName, ServiceKey};
use causeway_engine::model::slice::Exposure;
use causeway_engine::model::{
    Dispatch, Failure, Item, MemberState, ObjectEvent, ObjectId, Priority, SliceId, TargetCluster,
    WriteResult,
};
use causeway_engine::observed::{Index, RejectedWrite};
use causeway_engine::problem::ObjectConflict;
use causeway_engine::reasons::Reason;
use causeway_engine::reconcile::serves;
use causeway_engine::write_conflict::WriteConflict;
use causeway_engine::write_queue::Finished;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;

use super::{Controller, Parts, Written};
use crate::apply::apply;
use crate::clock;
use crate::event_recorder::{EventClient, reference};
use crate::fleet::Fleet;
use crate::lease::while_leading;

impl Controller {
    pub(super) fn send(&mut self, now: Instant) {
        if !self.leads {
            return;
        }
        let Parts {
            index,
            fleet,
            write_queue,
            hub,
            write_deadline,
            leadership,
            ..
        } = &mut self.parts;
        let open = |target: &TargetCluster| match target {
            TargetCluster::Hub => Some(0),
            TargetCluster::Member(name) if index.member_state(name) == MemberState::Synced => {
                fleet.client(name).map(|through| through.generation)
            }
            TargetCluster::Member(_) => None,
        };
        for dispatch in write_queue.ready(now, open) {
            if let Some(through) = client(fleet, hub, &dispatch.target) {
                let client = through.client.clone();
                let span = self.traces.write(&dispatch, now);
                let (deadline, leadership) = (*write_deadline, leadership.clone());
                self.writes.spawn(async move {
                    let begun = Instant::now();
                    let answer = apply(&client, &dispatch.write, deadline);
                    let answer = while_leading(&leadership, answer).await?;
                    let result = WriteResult { dispatch, answer };
                    let taken = begun.elapsed();
                    Some(Written {
                        result,
                        taken,
                        span,
                    })
                });
            }
        }
    }

    pub(super) fn joined(&mut self, result: Result<Option<Written>, tokio::task::JoinError>) {
        match result {
            Ok(Some(written)) => {
                self.parts.metrics.begins_to_work(Instant::now());
                self.note_duration(&written.result.dispatch, written.taken);
                self.written(written);
            }
            // Leadership ended before the write was answered. It may have been renewed since, which
            // nothing would report again.
            Ok(None) => {
                self.lead(false);
                let leadership = self.parts.leadership.borrow().clone();
                self.note_leadership(&leadership);
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Whether metrics show a cluster: not a member that is gone, whose last writes are answered.
    fn shows(&self, target: &TargetCluster) -> bool {
        match target {
            TargetCluster::Hub => true,
            TargetCluster::Member(name) => self.parts.index.member(name).is_some(),
        }
    }

    fn note_duration(&mut self, dispatch: &Dispatch, taken: Duration) {
        if !self.shows(&dispatch.target) {
            return;
        }
        let cluster = dispatch.target.name();
        self.parts.metrics.write_took(cluster, taken);
        if self.slow_writes.is_news(cluster, taken, Instant::now()) {
            let kind = dispatch.write.object().kind();
            let seconds = taken.as_secs_f64();
            tracing::warn!(cluster, kind, seconds, "write slow");
        }
    }

    fn written(&mut self, Written { result, span, .. }: Written) {
        let now = clock::now();
        let finished = self.parts.write_queue.finished(&result, now.instant);
        let WriteResult { dispatch, answer } = result;
        let Dispatch {
            target,
            generation,
            item,
            write,
        } = &dispatch;
        let cluster = target.name();
        let (kind, verb) = (write.object().kind(), write.operation().verb());
        let (namespace, name) = (write.object().namespace(), write.object().name());
        if self.shows(target) {
            let metrics = &self.parts.metrics;
            metrics.wrote(cluster, kind, verb, answer.as_ref().err());
        }
        self.traces.written(item, span, answer.as_ref().err(), now);
        let is_copy = matches!(write.object(), ObjectId::Slice(_));
        let may_wait = is_copy && answer.is_ok() && finished == Finished::default();
        match answer {
            Ok(ack) => {
                tracing::debug!(cluster, namespace, name, kind, verb, "write applied");
                if let (Item::Service(key), TargetCluster::Member(_)) = (item, target)
                    && let Some(change) = self.sources_changed.get_mut(key)
                {
                    change.written = Some(now.instant);
                }
                let current = match target {
                    TargetCluster::Hub => true,
                    TargetCluster::Member(name) => {
                        let member = self.parts.index.member(name);
                        member.is_some_and(|member| member.generation() == *generation)
                    }
                };
                if current {
                    self.parts.index.apply_ack(target, ack, now);
                }
                self.record(target, item, write.object(), write.events().to_vec());
                if let Some(write_conflict) = finished.write_conflict {
                    self.note_write_conflict(target, item, write.object(), write_conflict);
                }
            }
            Err(failure) => {
                tracing::warn!(cluster, namespace, name, kind, verb, error = %failure, "write failed");
                self.failed(&dispatch, &failure, finished.lasting_attempts);
            }
        }
        let priority = match may_wait {
            true => Priority::Debounced,
            false => Priority::High,
        };
        self.queue.push(dispatch.item, priority, now.instant);
    }

    /// Somebody changes an object back as often as it is written. Exports tell of their imports
    /// themselves.
    fn note_write_conflict(
        &mut self,
        target: &TargetCluster,
        item: &Item,
        object: &ObjectId,
        write_conflict: WriteConflict,
    ) {
        let cluster = target.name();
        let manager = self.parts.index.other_writer(target, object);
        let conflict = ObjectConflict {
            object: object.clone(),
            manager: manager.map(str::to_owned),
        };
        let text = conflict.to_string();
        self.parts.metrics.conflicted(cluster);
        tracing::warn!(
            cluster,
            namespace = object.namespace(),
            name = object.name(),
            kind = object.kind(),
            pause = ?write_conflict.pause,
            error = text,
            "write conflict"
        );
        // The Event about a copy waits for the name of the other writer.
        if write_conflict.is_new && !matches!(object, ObjectId::Slice(_)) {
            self.report_conflict(target, item, object, text);
        }
    }

    /// Reports a write conflict over a copy, whose other writer was looked up.
    pub(super) fn writer_found(
        &mut self,
        cluster: ClusterName,
        key: ServiceKey,
        slice: SliceId,
        found: Result<Option<String>, Failure>,
    ) {
        let manager = found.unwrap_or_else(|failure| {
            let (namespace, name) = (&*slice.service.namespace, &*slice.name);
            tracing::warn!(%cluster, namespace, name, kind = "EndpointSlice", error = %failure, "writer lookup failed");
            None
        });
        let (target, item) = (TargetCluster::Member(cluster), Item::Service(key));
        let object = ObjectId::Slice(slice);
        let conflicts = &mut self.parts.write_queue.write_conflicts;
        if conflicts.note_writer(&target, &object, manager.as_deref()) {
            let conflict = ObjectConflict { object, manager };
            let text = conflict.to_string();
            self.report_conflict(&target, &item, &conflict.object, text);
        }
        self.queue.push(item, Priority::High, Instant::now());
    }

    fn report_conflict(
        &mut self,
        target: &TargetCluster,
        item: &Item,
        object: &ObjectId,
        text: String,
    ) {
        let Item::Service(key) = item else { return };
        if !serves(object, key, Exposure::Clusterset) {
            let cluster = target.name();
            let event = ObjectEvent {
                warning: true,
                reason: Reason::WriteConflict.into(),
                note: format!("{cluster}: {text}"),
            };
            self.record(target, item, object, vec![event]);
        }
    }

    fn failed(&mut self, dispatch: &Dispatch, failure: &Failure, attempts: Option<u32>) {
        let Dispatch { item, write, .. } = dispatch;
        self.parts.metrics.retried();
        if let TargetCluster::Member(name) = &dispatch.target {
            let rejected = RejectedWrite {
                item,
                write,
                failure,
            };
            self.parts.index.note_refusal(name, rejected, attempts);
        }
    }

    /// Records events about the object of a write in the cluster that holds it.
    pub(super) fn record(
        &mut self,
        target: &TargetCluster,
        item: &Item,
        object: &ObjectId,
        news: Vec<ObjectEvent>,
    ) {
        let Item::Service(key) = item else { return };
        let Parts {
            index,
            fleet,
            hub,
            event_recorder,
            ..
        } = &mut self.parts;
        let Some((target, about)) = reported_object(index, target, key, object) else {
            return;
        };
        if let Some(through) = client(fleet, hub, &target) {
            for event in news {
                event_recorder.record(&target, through, about.clone(), event);
            }
        }
    }

    /// Records an event about an object of the hub.
    pub(super) fn record_on_hub(&mut self, about: ObjectReference, event: ObjectEvent) {
        let parts = &mut self.parts;
        let through = EventClient::of_hub(&parts.hub);
        let recorder = &mut parts.event_recorder;
        recorder.record(&TargetCluster::Hub, through, about, event);
    }
}

/// Returns the client of a cluster; `None` for a member that is not watched.
fn client<'a>(
    fleet: &'a Fleet,
    hub: &'a Client,
    target: &TargetCluster,
) -> Option<EventClient<'a>> {
    match target {
        TargetCluster::Hub => Some(EventClient::of_hub(hub)),
        TargetCluster::Member(name) => fleet.client(name),
    }
}

/// Returns the object that Events about a written object refer to, and its cluster.
fn reported_object(
    index: &Index,
    target: &TargetCluster,
    key: &ServiceKey,
    object: &ObjectId,
) -> Option<(TargetCluster, ObjectReference)> {
    let about = |api_version: String, kind: &str, uid: Option<&str>| {
        reference(api_version, kind, Some(&key.namespace), &key.name, uid)
    };
    match (object, target) {
        (ObjectId::ServiceExportStatus(version, _), TargetCluster::Member(name)) => {
            let export = index.member(name).and_then(|member| member.export(key));
            let uid = export.map(|export| &*export.uid);
            let about = about(version.api_version(), "ServiceExport", uid);
            Some((target.clone(), about))
        }
        (ObjectId::Slice(id), TargetCluster::Member(name))
            if id.exposure == Exposure::Clusterset =>
        {
            let member = index.member(name)?;
            let version = member.imports_followed()?.version.api_version();
            let import = member.import(key)?;
            let about = about(version, "ServiceImport", Some(&*import.uid));
            Some((target.clone(), about))
        }
        _ => {
            let uid = index.multi_cluster_service(key).map(|mcs| &*mcs.uid);
            let version = "networking.karmada.io/v1alpha1".to_owned();
            let about = about(version, "MultiClusterService", uid);
            Some((TargetCluster::Hub, about))
        }
    }
}
