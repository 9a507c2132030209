//! Parts of a service that Karmada's own controllers manage, or have left behind.

use causeway::domain::ClusterName;

use super::exposure::ExposedService;
use super::{Diagnosis, Facts};
use crate::model::slice::Exposure;
use crate::reasons::Reason;

impl Facts<'_> {
    /// Returns the command by which a user has causeway manage the service.
    pub(super) fn adopt(&self) -> String {
        format!(
            "kubectl mcs adopt {} -n {}",
            self.key.name, self.key.namespace
        )
    }
}

impl ExposedService<'_> {
    /// Whether Karmada's own controllers manage the MultiClusterService.
    pub(super) fn is_managed_by_karmada(&self) -> bool {
        self.exposure == Exposure::Native && self.facts.desired.karmada.is_some()
    }

    /// Reports that Karmada, which manages the service, has not brought an endpoint to a consumer.
    pub(super) fn not_dispatched(&self, consumer: &ClusterName) -> Option<Diagnosis> {
        self.is_managed_by_karmada().then(|| {
            let message = format!(
                "Karmada's own controllers manage {}, and no EndpointSlice of theirs in {consumer} holds it",
                self.facts.key
            );
            Diagnosis::new(Reason::NotDispatchedByKarmada, message).fix(self.facts.adopt())
        })
    }

    /// Lists the diagnoses of Karmada's part in the service as a whole.
    pub(super) fn of_karmada(&self) -> Vec<Diagnosis> {
        let managed = self.managed();
        let whole = managed.or_else(|| self.left());
        whole.into_iter().chain(self.stale()).collect()
    }

    fn managed(&self) -> Option<Diagnosis> {
        let beside = self.facts.desired.karmada.as_ref()?;
        let message = format!(
            "Karmada's own MultiClusterService controllers manage {} (Work {}); causeway begins nothing of it",
            self.facts.key, beside.work
        );
        let managed = Diagnosis::new(Reason::ManagedByKarmada, message);
        Some(managed.fix(format!("for causeway to manage it: {}", self.facts.adopt())))
    }

    /// Reports members with slices of Karmada's controllers that nobody updates any more.
    fn left(&self) -> Option<Diagnosis> {
        let members = self
            .karmadas
            .iter()
            .filter(|(_, slices)| !slices.is_empty());
        let members: Vec<_> = members.map(|(name, _)| name.as_str()).collect();
        let message = format!(
            "EndpointSlices of Karmada's are left in {}, beside causeway's, and nobody keeps them up",
            members.join(", ")
        );
        let left = Diagnosis::new(Reason::LeftByKarmada, message);
        (!members.is_empty()).then(|| left.fix(self.facts.adopt()))
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
                let message = format!(
                    "{consumer} offers {} of {provider}, which {provider} no longer has as ready (EndpointSlice {} of {consumer})",
                    gone.join(", "),
                    slice.name
                );
                let diagnosis = Diagnosis::new(Reason::StaleEndpoints, message);
                stale.push(diagnosis.fix(self.facts.adopt()));
            }
        }
        stale
    }
}
