//! ExposedService of a service by ServiceExports.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::condition;
use causeway::domain::ClusterName;

use super::exposure::ExposedService;
use super::{Diagnosis, Facts};
use crate::messages::conflict;
use crate::messages::explain::{clusterset as words, karmada, quote, quoted, service};
use crate::model::slice::Exposure;
use crate::observed::member::Member;
use crate::plan::clusterset::NotImporting;
use crate::plan::clusterset::exports::Validity;
use crate::plan::clusterset::import::ImportPlan;
use crate::reasons::Reason;

/// Returns the exposure by the name of the clusterset, if a user exports the service, or if an
/// export of an unknown member is recorded.
pub(super) fn exposure<'a>(facts: &'a Facts<'a>) -> Option<ExposedService<'a>> {
    let clusterset = &facts.desired.clusterset;
    let published = &clusterset.published;
    let exports = clusterset.exports.keys();
    let exports = exports.filter(|name| !published.contains_key(*name));
    let recorded = clusterset.exporters.iter().filter(|_| published.is_empty());
    let providers: BTreeSet<_> = exports.chain(recorded).cloned().collect();
    if providers.is_empty() {
        return None;
    }
    let (key, providers) = (facts.key, providers.into_iter().collect::<Vec<_>>());
    let clusters = facts.index.clusters();
    let pushed = clusters.filter(|(_, cluster)| cluster.takes_part);
    let is_kept = |name: &&ClusterName, why| clusterset.not_importing(name) == Some(why);
    let (absent, others): (Vec<_>, Vec<_>) = pushed
        .map(|(name, _)| name)
        .partition(|name| is_kept(name, NotImporting::NamespaceMissing));
    let (kept, consumers): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|name| is_kept(name, NotImporting::NotConsumer));
    let absent: Vec<_> = absent.into_iter().cloned().collect();
    let consumers: Vec<_> = consumers.into_iter().cloned().collect();
    let copies = consumers.iter();
    let copies = copies.map(|name| (name.clone(), facts.copies(name, Exposure::Clusterset)));
    let diagnoses = facts.not_exported(&providers).into_iter();
    let diagnoses = diagnoses
        .chain(facts.disagreement())
        .chain(facts.imported_by_karmada())
        .chain(words::not_imported(key, &absent))
        .chain(
            kept.into_iter()
                .filter_map(|name| facts.not_importing(name)),
        );
    Some(ExposedService {
        facts,
        exposure: Exposure::Clusterset,
        address: format!("{}.{}.svc.clusterset.local", key.name, key.namespace),
        service: key.derived(),
        providers,
        copies: copies.collect(),
        karmadas: BTreeMap::new(),
        consumers,
        obstacle: facts.protected(),
        diagnoses: diagnoses.collect(),
    })
}

impl Facts<'_> {
    pub(super) fn protected(&self) -> Option<Diagnosis> {
        let protected = self.desired.clusterset.problem.as_ref()?;
        Some(words::protected(protected))
    }

    /// Reports the conflicts of the exports.
    fn disagreement(&self) -> Option<Diagnosis> {
        let (reason, message) = conflict::conflicts(&self.desired.clusterset.conflicts)?;
        Some(words::disagreement(self.key, &reason, &message))
    }

    /// Reports that Karmada's own controllers import the service.
    fn imported_by_karmada(&self) -> Option<Diagnosis> {
        let imported = self.desired.clusterset.karmadas.as_ref()?;
        Some(karmada::imported(self.key, imported.sentence(self.key)))
    }

    /// Reports members that have endpoints behind a Service of the name and do not export it.
    fn not_exported(&self, exporters: &[ClusterName]) -> Vec<Diagnosis> {
        let others = self.backed_but_not(exporters).into_iter();
        let others = others.filter(|name| {
            let member = self.index.member(*name);
            member.and_then(Member::exports_followed).is_some()
        });
        others
            .map(|name| words::not_exported(self.key, name))
            .collect()
    }

    /// Returns the reason why the export of a member is not used.
    pub(super) fn export(&self, name: &ClusterName) -> Option<Diagnosis> {
        match self.desired.clusterset.exports.get(name) {
            // One that is not seen now may be recorded, and what is left out was reported.
            None | Some(Validity::Leaving | Validity::Withdrawn) => None,
            Some(Validity::Valid) => self.beyond_quota(name),
            Some(Validity::NoService | Validity::InvalidServiceType) => self.provider_service(name),
            Some(Validity::Forbidden) => {
                let cluster = self.index.cluster(name);
                let allowed = cluster.and_then(|cluster| cluster.export_namespaces.as_ref());
                let allowed = allowed.into_iter().flatten().map(|one| &**one);
                Some(words::forbidden(self.key, name, allowed))
            }
            Some(Validity::BeyondQuota(beyond)) => {
                Some(words::quota_exceeded(self.key, name, beyond))
            }
        }
    }

    /// Reports an export beyond the quota, as its Ready condition does: only the controller lists
    /// all exports of a member.
    fn beyond_quota(&self, name: &ClusterName) -> Option<Diagnosis> {
        let export = self.index.member(name)?.export(self.key)?;
        let ready = condition::find(&export.conditions, condition::READY)?;
        let is_exceeded = ready.reason == Reason::QuotaExceeded;
        is_exceeded.then(|| words::quota_exceeded(self.key, name, &quote(ready)))
    }

    /// Returns the reason why a member imports nothing.
    pub(super) fn not_importing(&self, name: &ClusterName) -> Option<Diagnosis> {
        match self.desired.clusterset.not_importing(name)? {
            NotImporting::NotServed => {
                let cluster = self.index.cluster(name)?;
                let served = condition::find(&cluster.conditions, condition::CLUSTERSET_API);
                let served = served.filter(|served| served.status != condition::TRUE);
                Some(words::not_served(name, served))
            }
            NotImporting::NotConsumer => Some(words::not_consumer(self.key, name)),
            NotImporting::NamespaceMissing | NotImporting::NamespaceTerminating => {
                self.namespace(name)
            }
        }
    }
}

impl ExposedService<'_> {
    /// Reports a consumer without the Service that receives the endpoints, or in which Karmada
    /// manages it.
    pub(super) fn service_missing(&self, name: &ClusterName) -> Option<Diagnosis> {
        let facts = self.facts;
        let member = facts.index.member(name)?;
        let service = member.service(&self.service);
        let import = facts.desired.clusterset.imports.of(name);
        let import = import.filter(|_| self.exposure == Exposure::Clusterset);
        if import.is_some_and(|import| import.karmadas) {
            let has_service = service.is_some();
            return Some(karmada::imported_in(
                facts.key,
                &self.service,
                name,
                has_service,
            ));
        }
        if service.is_some() {
            return None;
        }
        let why = self.why_unready(name, import.map(|import| &import.import));
        Some(service::missing(
            facts.key,
            &self.service,
            name,
            why.as_deref(),
        ))
    }

    /// Returns the reason why an import has no addresses, from the plan or from the import itself.
    fn why_unready(&self, name: &ClusterName, plan: Option<&ImportPlan>) -> Option<String> {
        if let Some(ImportPlan::Own(own)) = plan
            && let Some(unready) = &own.unready
        {
            return Some(quoted(unready.reason().as_str(), &unready.message()));
        }
        let import = self.facts.index.member(name)?.import(self.facts.key)?;
        let ready = condition::find(&import.status.conditions, condition::READY)?;
        (ready.status == condition::FALSE && plan.is_some()).then(|| quote(ready))
    }
}
