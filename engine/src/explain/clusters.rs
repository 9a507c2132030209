//! Reasons why nothing of a provider is used, and why nothing, or not all, reaches a consumer.

use causeway::api::condition;
use causeway::domain::ClusterName;

use super::exposure::ExposedService;
use super::{Diagnosis, Facts};
use crate::messages::cluster::AccessSource;
use crate::messages::copies::Slice;
use crate::messages::{cluster, exports, karmada, quote, quoted, service};
use crate::model::MemberState;
use crate::model::slice::Exposure;
use crate::observed::hub::ClusterView;
use crate::plan::clusterset::exports::Validity;
use crate::plan::clusterset::{DesiredImport, NotImporting};
use crate::plan::copies::Skipped;
use crate::plan::ignored::ignored;
use crate::plan::provider_use::Unused;
use crate::plan::providers::Unfit;
use crate::reasons::Reason;

impl Facts<'_> {
    /// Returns the reason why a member cannot take part, as provider or as consumer. Observed facts
    /// precede the controller's report, and a failure to read the member from here comes last.
    pub(super) fn member(&self, name: &ClusterName) -> Option<Diagnosis> {
        let Some(view) = self.index.cluster(name) else {
            return Some(cluster::not_joined(name));
        };
        match self.index.member_state(name) {
            MemberState::LeftOut(why) => Some(cluster::left_out(name, &why)),
            _ if view.removed_since.is_some() => Some(cluster::terminating(name)),
            MemberState::Refused(why) => Some(cluster::refused(name, &why)),
            _ => reported(name, view).or_else(|| {
                let failure = self.members.get(name)?.as_ref().err()?;
                Some(cluster::unread(name, failure))
            }),
        }
    }

    /// Reports that the namespace of a member is missing or terminating: the member cannot hold
    /// what is delivered. A member that was not read has no report.
    fn namespace(&self, name: &ClusterName) -> Option<Diagnosis> {
        let namespace = &self.key.namespace;
        let state = self.read(name)?.namespace(namespace);
        service::namespace(namespace, name, state)
    }

    /// Reports that the Service of a provider is missing, or is an ExternalName.
    fn provider_service(&self, name: &ClusterName) -> Option<Diagnosis> {
        service::of_provider(self.key, name, self.read(name)?.service(self.key))
    }

    fn managed_by_other(&self, name: &ClusterName) -> Option<Diagnosis> {
        let member = self.index.member(name)?;
        let other = member.other_controller_in(&self.key.namespace)?;
        Some(exports::managed_by_other(name, &other))
    }

    /// Returns the reason why a member imports nothing.
    fn not_importing(&self, name: &ClusterName) -> Option<Diagnosis> {
        match self.desired.clusterset.not_importing(name)? {
            NotImporting::NotServed | NotImporting::Unknown => {
                let conditions = &self.index.cluster(name)?.conditions;
                let served = condition::find(conditions, condition::CLUSTERSET_API);
                let served = served.filter(|served| served.status != condition::TRUE);
                Some(exports::not_served(name, served))
            }
            NotImporting::NotConsumer => Some(exports::not_consumer(self.key, name)),
            NotImporting::ManagedByOther => self.managed_by_other(name),
            NotImporting::NamespaceMissing | NotImporting::NamespaceTerminating => {
                self.namespace(name)
            }
        }
    }
}

/// Returns the controller's report of a member that it cannot follow. A Ready of Karmada's tells
/// whether Karmada reaches the member, and nothing about the controller.
fn reported(name: &ClusterName, view: &ClusterView) -> Option<Diagnosis> {
    let Some(ready) = condition::find(&view.conditions, condition::READY) else {
        return Some(cluster::not_engaged(name));
    };
    // By its last connection it takes part as before.
    let takes_part = ready.status == condition::TRUE
        || ready.reason == Reason::InvalidConfiguration
        || Reason::of(&ready.reason).is_none();
    (!takes_part).then(|| cluster::not_ready(name, ready, AccessSource::of(view)))
}

impl ExposedService<'_> {
    /// Returns the reason why nothing of a provider is used. Where the plan has no copies that
    /// decide, the reason that holds for every service counts.
    pub(super) fn unused(&self, provider: &ClusterName) -> Option<Diagnosis> {
        let facts = self.facts;
        if let MemberState::LeftOut(why) = facts.index.member_state(provider) {
            return Some(cluster::left_out(provider, &why));
        }
        let decided = self.copies().filter_map(|copies| copies.unused(provider));
        let unused = decided.reduce(Option::or);
        match unused.unwrap_or_else(|| Unused::everywhere(facts.index, provider)) {
            Some(why) => {
                let view = facts.index.cluster(provider);
                let source = view.map_or(AccessSource::Cluster, AccessSource::of);
                cluster::unused(provider, why, source).or_else(|| facts.member(provider))
            }
            None => self.export(provider).filter(|_| !self.is_native()),
        }
    }

    /// Returns the reason why the export of a member is not used. One that is not observed now may
    /// be recorded.
    fn export(&self, name: &ClusterName) -> Option<Diagnosis> {
        let (facts, key) = (self.facts, self.facts.key);
        match facts.desired.clusterset.exports.get(name)? {
            // The state of the member is the reason.
            Validity::Leaving | Validity::Withdrawn => None,
            // Only the controller lists all exports of a member, so it alone knows its quota.
            Validity::Valid => {
                let ready = self.reported(name)?;
                let is_exceeded = ready.reason == Reason::QuotaExceeded;
                is_exceeded.then(|| exports::quota_exceeded(key, name, &quote(ready)))
            }
            Validity::NoService | Validity::InvalidServiceType => facts.provider_service(name),
            Validity::ManagedByOther => facts.managed_by_other(name),
            Validity::Forbidden => {
                let allowed = facts.index.cluster(name)?.export_namespaces.iter();
                let allowed = allowed.flatten().map(|one| &**one);
                Some(exports::forbidden(key, name, allowed))
            }
            Validity::BeyondQuota(beyond) => Some(exports::quota_exceeded(key, name, beyond)),
        }
    }

    /// Lists the diagnoses of a provider, the most important first.
    pub(super) fn provider(&self, name: &ClusterName) -> Vec<Diagnosis> {
        let facts = self.facts;
        let first = self
            .unused(name)
            .or_else(|| facts.member(name))
            .or_else(|| facts.namespace(name).filter(|_| self.is_native()))
            .or_else(|| facts.provider_service(name));
        let view = facts.index.cluster(name);
        let suspended = view.and_then(|view| {
            let suspended = condition::find(&view.conditions, condition::DELETIONS_SUSPENDED)?;
            (suspended.status == condition::TRUE).then(|| cluster::suspended(name, suspended))
        });
        let all = first.into_iter().chain(self.skipped_slices(name));
        all.chain(suspended).collect()
    }

    /// Reports slices of a provider that cannot be read, that hold endpoints without a usable
    /// address, or that disagree with slices which Kubernetes manages.
    fn skipped_slices(&self, provider: &ClusterName) -> Vec<Diagnosis> {
        let key = self.facts.key;
        let member = self.facts.index.member(provider).into_iter();
        let sources = member.flat_map(|member| member.sources(key));
        let reported = sources.filter_map(|(name, source)| {
            let slice = Slice {
                key,
                provider,
                name,
            };
            let skipped = self.copies().find_map(|one| one.skipped(provider, name));
            match skipped {
                Some(why @ Skipped::Unfit(Unfit::AddressType | Unfit::Unreadable)) => {
                    Some(slice.skipped(why))
                }
                Some(Skipped::Unfit(Unfit::Redundant {
                    disagreement: Some(disagreement),
                })) => Some(slice.writers_disagree(disagreement)),
                _ => (source.odd > 0).then(|| slice.without_address(source)),
            }
        });
        reported.collect()
    }

    /// Returns the reason why nothing, or not all, reaches a consumer.
    pub(super) fn consumer(&self, name: &ClusterName) -> Option<Diagnosis> {
        let (facts, service) = (self.facts, &self.service);
        let (copies, import) = (self.desired(name), self.import(name));
        let problem = || facts.desired.problem_in(self.exposure, name);
        let unresolved = || import?.unresolved.as_ref();
        let ignored = || {
            let observed = facts.index.member(name)?.service(service)?;
            ignored(self.exposure, name, observed, copies?)
        };
        facts
            .member(name)
            .or_else(|| match self.exposure {
                Exposure::Native => facts.namespace(name),
                Exposure::Clusterset => facts.not_importing(name),
            })
            .or_else(|| Some(service::problem(service, name, problem()?)))
            .or_else(|| self.service_missing(name))
            .or_else(|| Some(service::no_preferred_provider(name, copies?.unserved()?)))
            .or_else(|| Some(exports::name_not_resolved(facts.key, name, unresolved()?)))
            .or_else(|| Some(service::ignored(service, name, &ignored()?)))
    }

    /// Reports a consumer without the Service that receives the endpoints, or in which Karmada
    /// manages it.
    fn service_missing(&self, name: &ClusterName) -> Option<Diagnosis> {
        let (key, service) = (self.facts.key, &self.service);
        let member = self.facts.index.member(name)?;
        let has_service = member.service(service).is_some();
        let import = self.import(name);
        if import.is_some_and(|import| import.karmadas) {
            return Some(karmada::imported_in(key, service, name, has_service));
        }
        // The reason why the import has no addresses is in the plan, or in the import itself.
        let planned = import.and_then(|import| import.import.unready());
        let planned = planned.map(|why| quoted(why.reason().as_str(), &why.message()));
        let why = planned.or_else(|| {
            let stored = member.import(key).filter(|_| import.is_some())?;
            let ready = condition::find(&stored.status.conditions, condition::READY)?;
            (ready.status == condition::FALSE).then(|| quote(ready))
        });
        (!has_service).then(|| service::missing(key, service, name, why.as_deref()))
    }

    /// Returns the desired import of a consumer.
    fn import(&self, consumer: &ClusterName) -> Option<&DesiredImport> {
        let import = self.facts.desired.clusterset.imports.of(consumer);
        import.filter(|_| !self.is_native())
    }
}
