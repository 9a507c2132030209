//! Parts of a service that Karmada's own controllers manage, or have left behind.

use causeway::domain::ClusterName;

use super::Diagnosis;
use super::exposure::ExposedService;
use crate::messages::explain::karmada as words;
use crate::model::slice::Exposure;

impl ExposedService<'_> {
    /// Whether Karmada's own controllers manage the MultiClusterService.
    pub(super) fn is_managed_by_karmada(&self) -> bool {
        self.exposure == Exposure::Native && self.facts.desired.karmada.is_some()
    }

    /// Reports that Karmada, which manages the service, has not brought an endpoint to a consumer.
    pub(super) fn not_dispatched(&self, consumer: &ClusterName) -> Option<Diagnosis> {
        let is_managed = self.is_managed_by_karmada();
        is_managed.then(|| words::not_dispatched(self.facts.key, consumer))
    }

    /// Lists the diagnoses of Karmada's part in the service as a whole.
    pub(super) fn of_karmada(&self) -> Vec<Diagnosis> {
        let managed = self.managed();
        let whole = managed.or_else(|| self.left());
        whole.into_iter().chain(self.stale()).collect()
    }

    fn managed(&self) -> Option<Diagnosis> {
        let managed = self.facts.desired.karmada.as_ref()?;
        Some(words::managed(self.facts.key, &managed.work))
    }

    /// Reports members with slices of Karmada's controllers that nobody updates any more.
    fn left(&self) -> Option<Diagnosis> {
        let members = self
            .karmadas
            .iter()
            .filter(|(_, slices)| !slices.is_empty());
        let members: Vec<_> = members.map(|(name, _)| name).collect();
        (!members.is_empty()).then(|| words::left(self.facts.key, members))
    }

    /// Reports endpoints that consumers offer although their provider no longer has them as ready.
    /// It covers Karmada's slices, and causeway's copies while Karmada manages the service.
    fn stale(&self) -> Vec<Diagnosis> {
        let copies = self.copies.iter().filter(|_| self.is_managed_by_karmada());
        let mut stale = Vec::new();
        for (consumer, slices) in self.karmadas.iter().chain(copies) {
            for slice in slices {
                let provider = &slice.provider;
                let Some(ready) = self.facts.ready_in(provider) else {
                    continue;
                };
                let gone = slice.stale(&ready).into_iter().flatten();
                let gone: Vec<_> = gone.map(ToString::to_string).collect();
                if gone.is_empty() {
                    continue;
                }
                let offered = words::Stale {
                    consumer,
                    provider,
                    slice: &slice.name,
                    addresses: &gone.join(", "),
                };
                stale.push(words::stale(self.facts.key, &offered));
            }
        }
        stale
    }
}
