//! Reasons why nothing of a provider is used, and why nothing, or not all, reaches a consumer.

use causeway::api::condition;
use causeway::domain::ClusterName;

use super::exposure::ExposedService;
use super::{Diagnosis, Facts};
use crate::messages::copies::Slice;
use crate::messages::{cluster, exports, karmada, quote, quoted, service};
use crate::model::MemberState;
use crate::model::slice::Exposure;
use crate::observed::hub::ClusterView;
use crate::plan::clusterset::NotImporting;
use crate::plan::clusterset::exports::Validity;
use crate::plan::clusterset::import::ImportPlan;
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

    /// Returns the reason why the export of a member is not used.
    fn export(&self, name: &ClusterName) -> Option<Diagnosis> {
        match self.desired.clusterset.exports.get(name) {
            // One that is not seen now may be recorded, and what is left out was reported.
            None | Some(Validity::Leaving | Validity::Withdrawn) => None,
            // Only the controller lists all exports of a member, so it alone knows its quota.
            Some(Validity::Valid) => {
                let export = self.index.member(name)?.export(self.key)?;
                let ready = condition::find(&export.conditions, condition::READY)?;
                let is_exceeded = ready.reason == Reason::QuotaExceeded;
                is_exceeded.then(|| exports::quota_exceeded(self.key, name, &quote(ready)))
            }
            Some(Validity::NoService | Validity::InvalidServiceType) => self.provider_service(name),
            Some(Validity::ManagedByOther) => self.managed_by_other(name),
            Some(Validity::Forbidden) => {
                let allowed = self.index.cluster(name)?.export_namespaces.iter().flatten();
                let allowed = allowed.map(|one| &**one);
                Some(exports::forbidden(self.key, name, allowed))
            }
            Some(Validity::BeyondQuota(beyond)) => {
                Some(exports::quota_exceeded(self.key, name, beyond))
            }
        }
    }

    fn managed_by_other(&self, name: &ClusterName) -> Option<Diagnosis> {
        let other = self.index.member(name)?.other_controller()?;
        Some(exports::managed_by_other(name, other))
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
    (!takes_part).then(|| cluster::not_ready(name, ready, view.is_tunnelled))
}

impl<'a> ExposedService<'a> {
    /// Returns the reason why nothing of a provider is used. Where the plan has no copies that
    /// decide, the reason that holds for every service counts.
    pub(super) fn unused(&self, provider: &ClusterName) -> Option<Diagnosis> {
        let facts = self.facts;
        if let MemberState::LeftOut(why) = facts.index.member_state(provider) {
            return Some(cluster::left_out(provider, &why));
        }
        let planned = self.consumers.iter().filter_map(|name| self.desired(name));
        let decided = planned.filter_map(|copies| copies.unused(provider));
        let unused = decided.reduce(Option::or);
        match unused.unwrap_or_else(|| Unused::everywhere(facts.index, provider)) {
            Some(why) => cluster::unused(provider, why).or_else(|| facts.member(provider)),
            None => facts.export(provider).filter(|_| !self.is_native()),
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
        let skipped = |slice: &str| {
            let mut planned = self.consumers.iter().filter_map(|name| self.desired(name));
            planned.find_map(|copies| copies.skipped(provider, slice))
        };
        let member = self.facts.index.member(provider).into_iter();
        let sources = member.flat_map(|member| member.sources(key));
        let reported = sources.filter_map(|(name, source)| {
            let slice = Slice {
                key,
                provider,
                name,
            };
            match skipped(name) {
                Some(why @ Skipped::Unfit(Unfit::AddressType | Unfit::Unreadable)) => {
                    Some(slice.skipped(why))
                }
                Some(Skipped::Unfit(Unfit::Redundant(Some(disagreement)))) => {
                    Some(slice.writers_disagree(disagreement))
                }
                _ => (source.odd > 0).then(|| slice.without_address(source)),
            }
        });
        reported.collect()
    }

    /// Returns the reason why nothing, or not all, reaches a consumer.
    pub(super) fn consumer(&self, name: &ClusterName) -> Option<Diagnosis> {
        let facts = self.facts;
        facts
            .member(name)
            .or_else(|| match self.exposure {
                Exposure::Native => facts.namespace(name),
                Exposure::Clusterset => facts.not_importing(name),
            })
            .or_else(|| {
                let problem = facts.desired.problem_in(self.exposure, name)?;
                Some(service::problem(&self.service, name, problem))
            })
            .or_else(|| self.service_missing(name))
            .or_else(|| {
                let tiers = self.desired(name)?.tiers.as_ref();
                let tiers = tiers.filter(|tiers| tiers.lack_providers())?;
                Some(service::no_preferred_provider(name, tiers))
            })
            .or_else(|| {
                let import = facts.desired.clusterset.imports.of(name);
                let import = import.filter(|_| !self.is_native())?;
                let unresolved = import.unresolved.as_ref()?;
                Some(exports::name_not_resolved(facts.key, name, unresolved))
            })
            .or_else(|| {
                let observed = facts.index.member(name)?.service(&self.service)?;
                let ignored = ignored(self.exposure, name, observed, self.desired(name)?)?;
                Some(service::ignored(&self.service, name, &ignored))
            })
    }

    /// Reports that Karmada, which manages the service, has not brought an endpoint to a consumer.
    pub(super) fn not_dispatched(&self, consumer: &ClusterName) -> Option<Diagnosis> {
        let is_managed = self.is_managed_by_karmada();
        is_managed.then(|| karmada::not_dispatched(self.facts.key, consumer))
    }

    /// Reports a consumer without the Service that receives the endpoints, or in which Karmada
    /// manages it.
    fn service_missing(&self, name: &ClusterName) -> Option<Diagnosis> {
        let (key, service) = (self.facts.key, &self.service);
        let member = self.facts.index.member(name)?;
        let has_service = member.service(service).is_some();
        let import = self.facts.desired.clusterset.imports.of(name);
        let import = import.filter(|_| !self.is_native());
        if import.is_some_and(|import| import.karmadas) {
            return Some(karmada::imported_in(key, service, name, has_service));
        }
        if has_service {
            return None;
        }
        // The reason why the import has no addresses is in the plan, or in the import itself.
        let why = import.and_then(|import| {
            if let ImportPlan::Own(own) = &import.import
                && let Some(unready) = &own.unready
            {
                return Some(quoted(unready.reason().as_str(), &unready.message()));
            }
            let observed = &member.import(key)?.status.conditions;
            let ready = condition::find(observed, condition::READY)?;
            (ready.status == condition::FALSE).then(|| quote(ready))
        });
        Some(service::missing(key, service, name, why.as_deref()))
    }
}
