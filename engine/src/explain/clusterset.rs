//! ExposedService of a service by ServiceExports.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::condition;
use causeway::api::labels;
use causeway::domain::ClusterName;

use super::exposure::ExposedService;
use super::reported::quoted;
use super::{Diagnosis, Facts};
use crate::model::slice::Exposure;
use crate::observed::member::Member;
use crate::plan::clusterset::NotImporting;
use crate::plan::clusterset::exports::Validity;
use crate::plan::clusterset::import::ImportPlan;
use crate::plan::clusterset::merge::conflict_text;
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
        .chain(facts.not_imported(&absent))
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
        let protected = Diagnosis::new(Reason::NamespaceProtected, protected.to_string());
        Some(protected.fix(
            "start causeway-controller with --allow-namespace, if the namespace is meant to be exported from",
        ))
    }

    /// Reports members that lack the namespace.
    fn not_imported(&self, without: &[ClusterName]) -> Option<Diagnosis> {
        let namespace = &self.key.namespace;
        let first = without.first()?;
        let names: Vec<_> = without.iter().map(ClusterName::as_str).collect();
        let message = format!(
            "{} without namespace {namespace} do not import it",
            names.join(", ")
        );
        let remedy = format!("in {first}: kubectl create namespace {namespace}");
        Some(Diagnosis::new(Reason::NotImported, message).fix(remedy))
    }

    /// Reports the conflicts of the exports.
    fn disagreement(&self) -> Option<Diagnosis> {
        let (reason, message) = conflict_text(&self.desired.clusterset.conflicts)?;
        let message = format!("the exports disagree, and the oldest decides: {reason} ({message})");
        let disagreement = Diagnosis::new(Reason::ExportsDisagree, message);
        Some(disagreement.fix(format!(
            "kubectl mcs status {} -n {} shows them beside each other",
            self.key.name, self.key.namespace
        )))
    }

    /// Reports that Karmada's own controllers import the service.
    fn imported_by_karmada(&self) -> Option<Diagnosis> {
        let message = self.desired.clusterset.karmadas.as_ref()?;
        let imported = Diagnosis::new(Reason::ImportedByKarmada, &**message);
        Some(imported.fix(self.delete_import()))
    }

    fn delete_import(&self) -> String {
        format!(
            "on the hub: kubectl -n {} delete serviceimport {}",
            self.key.namespace, self.key.name
        )
    }

    /// Reports members that have endpoints behind a Service of the name and do not export it.
    fn not_exported(&self, exporters: &[ClusterName]) -> Vec<Diagnosis> {
        let key = self.key;
        let others = self.backed_but_not(exporters).into_iter();
        let others = others.filter(|name| {
            let member = self.index.member(*name);
            member.and_then(Member::exports_followed).is_some()
        });
        let not_exported = |name: &ClusterName| {
            let message =
                format!("{name} has endpoints of its own for {key} and does not export them");
            Diagnosis::new(Reason::NotNamed, message).fix(format!(
                "in {name}: make a ServiceExport {key} (multicluster.x-k8s.io)"
            ))
        };
        others.map(not_exported).collect()
    }

    /// Returns the reason why the export of a member is not used.
    pub(super) fn export(&self, name: &ClusterName) -> Option<Diagnosis> {
        let (key, namespace) = (self.key, &self.key.namespace);
        match self.desired.clusterset.exports.get(name) {
            // One that is not seen now may be recorded, and what is left out was said.
            None | Some(Validity::Leaving | Validity::Withdrawn) => None,
            Some(Validity::Valid) => self.beyond_quota(name),
            Some(Validity::NoService | Validity::InvalidServiceType) => self.provider_service(name),
            Some(Validity::Forbidden) => {
                let message =
                    format!("the hub does not let {name} export from namespace {namespace}");
                let cluster = self.index.cluster(name);
                let allowed = cluster.and_then(|cluster| cluster.export_namespaces.as_ref());
                let allowed = allowed.into_iter().flatten().map(|one| &**one);
                let allowed: Vec<_> = allowed.chain([&**namespace]).collect();
                Some(Diagnosis::new(Reason::ExportRefused, message).fix(format!(
                    "kubectl annotate cluster {name} --overwrite {}={}",
                    labels::EXPORT_NAMESPACES,
                    allowed.join(",")
                )))
            }
            Some(Validity::BeyondQuota(beyond)) => {
                let message = format!("the ServiceExport {key} of {name} is not served: {beyond}");
                Some(quota_exceeded(name, message))
            }
        }
    }

    /// Reports an export beyond the quota, as its Ready condition does: only the controller lists
    /// all exports of a member.
    fn beyond_quota(&self, name: &ClusterName) -> Option<Diagnosis> {
        let export = self.index.member(name)?.export(self.key)?;
        let ready = condition::find(&export.conditions, condition::READY)?;
        (ready.reason == Reason::QuotaExceeded).then(|| {
            let message = format!(
                "the ServiceExport {} of {name} is not served: {}",
                self.key,
                quoted(ready)
            );
            quota_exceeded(name, message)
        })
    }

    /// Returns the reason why a member imports nothing.
    pub(super) fn not_importing(&self, name: &ClusterName) -> Option<Diagnosis> {
        match self.desired.clusterset.not_importing(name)? {
            NotImporting::NotServed => {
                let cluster = self.index.cluster(name)?;
                let served = condition::find(&cluster.conditions, condition::CLUSTERSET_API);
                let served = served.filter(|served| served.status != condition::TRUE);
                let why =
                    served.map_or_else(|| "it does not serve ServiceImport".to_owned(), quoted);
                let message = format!("{name} takes no part in the clusterset: {why}");
                let missing = Diagnosis::new(Reason::DefinitionMissing, message);
                Some(missing.fix(format!("kubectl mcs join {name} --member-kubeconfig FILE")))
            }
            NotImporting::NotConsumer => {
                let consumers = labels::CONSUMERS;
                let message =
                    format!("the exports do not name {name} among their consumers ({consumers})");
                let (namespace, own) = (&self.key.namespace, &self.key.name);
                Some(Diagnosis::new(Reason::NotConsumer, message).fix(format!(
                    "in the cluster of the oldest export: kubectl -n {namespace} annotate serviceexport {own} --overwrite {consumers}=..."
                )))
            }
            NotImporting::NamespaceMissing | NotImporting::NamespaceTerminating => {
                self.namespace(name)
            }
        }
    }
}

fn quota_exceeded(name: &ClusterName, message: String) -> Diagnosis {
    Diagnosis::new(Reason::QuotaExceeded, message).fix(format!(
        "in {name}: delete ServiceExports that nobody needs; or start causeway-controller with a larger --max-member-exports or \
         --max-member-exported-mib"
    ))
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
            let what = match service {
                Some(_) => format!(
                    "Service {} of {name} is theirs, and so are its endpoints",
                    self.service
                ),
                None => format!("causeway makes nothing of it in {name}, and they have not"),
            };
            let message = format!("Karmada's own controllers import {}; {what}", facts.key);
            let theirs = Diagnosis::new(Reason::ImportedByKarmada, message);
            return Some(theirs.fix(facts.delete_import()));
        }
        if service.is_some() {
            return None;
        }
        let why = self.why_unready(name, import.map(|import| &import.import));
        let why = why.unwrap_or_else(|| " yet".to_owned());
        let message = format!("{name} has no Service {}{why}", self.service);
        let missing = Diagnosis::new(Reason::ServiceMissing, message);
        Some(missing.fix(format!(
            "kubectl mcs status {} -n {}",
            facts.key.name, facts.key.namespace
        )))
    }

    /// Returns the reason why an import has no addresses, from the plan or from the import itself.
    fn why_unready(&self, name: &ClusterName, plan: Option<&ImportPlan>) -> Option<String> {
        if let Some(ImportPlan::Own(own)) = plan
            && let Some(unready) = &own.unready
        {
            return Some(format!(": {} ({})", unready.reason, unready.message));
        }
        let import = self.facts.index.member(name)?.import(self.facts.key)?;
        let ready = condition::find(&import.status.conditions, condition::READY)?;
        (ready.status == condition::FALSE && plan.is_some()).then(|| format!(": {}", quoted(ready)))
    }
}
