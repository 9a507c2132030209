//! Cache of the Secrets and of the webhook configurations.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::snapshot::{Snapshot, StoredSecrets};
use crate::watch::Apply;

/// Cached objects. Clones share the cache.
#[derive(Clone, Default)]
pub(super) struct Cache {
    pub(super) serving: Slot<Secret>,
    pub(super) authority: Slot<Secret>,
    pub(super) mutating: Slot<MutatingWebhookConfiguration>,
    pub(super) validating: Slot<ValidatingWebhookConfiguration>,
    changed: Arc<Notify>,
}

impl Cache {
    /// Returns the cached objects once all of them have been listed.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let mutating = self.mutating.lock().clone()?;
        let validating = self.validating.lock().clone()?;
        let secrets = StoredSecrets {
            serving: self.serving.lock().clone()?,
            authority: self.authority.lock().clone()?,
        };
        Some(Snapshot::new(
            mutating.as_deref(),
            validating.as_deref(),
            secrets,
        ))
    }

    /// Waits for a change since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the receiver of a watch that fills a slot.
    pub(super) fn updater<K>(&self, slot: &Slot<K>) -> SlotUpdater<K> {
        SlotUpdater {
            slot: Arc::clone(slot),
            incoming: None,
            changed: Arc::clone(&self.changed),
        }
    }
}

/// Cached object, or its absence; `None` before the first list.
pub(super) type Slot<K> = Arc<Mutex<Option<Option<Arc<K>>>>>;

/// Applies the events of a watch to a slot.
pub(super) struct SlotUpdater<K> {
    slot: Slot<K>,
    incoming: Option<Arc<K>>,
    changed: Arc<Notify>,
}

impl<K> Apply<K> for SlotUpdater<K> {
    fn apply(&mut self, event: Event<K>) -> bool {
        let listed = matches!(event, Event::InitDone);
        match event {
            Event::Init => self.incoming = None,
            Event::InitApply(object) => self.incoming = Some(Arc::new(object)),
            Event::InitDone => *self.slot.lock() = Some(self.incoming.take()),
            Event::Apply(object) => *self.slot.lock() = Some(Some(Arc::new(object))),
            Event::Delete(_) => *self.slot.lock() = Some(None),
        }
        self.changed.notify_one();
        listed
    }
}
