//! Reasons why nothing of a provider is used, and why nothing, or not all, reaches a consumer.

use causeway::api::condition;
use causeway::domain::ClusterName;

use super::exposure::ExposedService;
use super::{Diagnosis, Facts};
use crate::messages::copies::Slice;
use crate::messages::{cluster, entry_clusters, exports, karmada, quote, quoted, service};
use crate::model::slice::Exposure;
use crate::model::{LeftOut, MemberState, Refusal};
use crate::observed::hub::ClusterView;
use crate::plan::clusterset::NotImporting;
use crate::plan::clusterset::exports::Validity;
use crate::plan::clusterset::import::ImportPlan;
use crate::plan::copies::{CopyDecision, Hold, Observation, Request, Skipped, Withdraw};
use crate::plan::ignored::ignored;
use crate::plan::provider_use::Unused;
use crate::plan::providers::Unfit;
use crate::plan::shares::Shares;
use crate::plan::tiers::Tiers;
use crate::reasons::Reason;

impl Facts<'_> {
    /// Returns the reason why a member cannot take part, as provider or as consumer. Observed facts
    /// precede the controller's report, and a failure to read the member from here comes last.
    pub(super) fn member(&self, name: &ClusterName) -> Option<Diagnosis> {
        let Some(view) = self.index.cluster(name) else {
            return Some(cluster::not_joined(name));
        };
        self.left_out(name)
            .or_else(|| view.removed_since.map(|_| cluster::terminating(name)))
            .or_else(|| self.refused(name))
            .or_else(|| reported(name, view))
            .or_else(|| {
                Some(cluster::unread(
                    name,
                    self.members.get(name)?.as_ref().err()?,
                ))
            })
    }

    /// Reports that the plan uses nothing that a member provides, for this reason.
    pub(super) fn unused_by(&self, name: &ClusterName, why: Unused) -> Option<Diagnosis> {
        match why {
            Unused::NotJoined => Some(cluster::not_joined(name)),
            Unused::Drained => Some(cluster::drained(name)),
            Unused::Duplicate => self.refused(name),
            Unused::TtlExpired => Some(cluster::ttl_expired(name)),
            Unused::WithdrawAfter => Some(cluster::withdrawn_after(name)),
        }
    }

    /// Reports a member that takes no part.
    fn left_out(&self, name: &ClusterName) -> Option<Diagnosis> {
        match self.index.member_state(name) {
            MemberState::LeftOut(LeftOut::PullWithoutCredentials) => {
                Some(cluster::pull_without_credentials(name))
            }
            MemberState::LeftOut(why) => Some(cluster::left_out(name, &why)),
            _ => None,
        }
    }

    /// Reports the identity or the duplicate for which a member cannot be used, as the member
    /// itself shows it.
    fn refused(&self, name: &ClusterName) -> Option<Diagnosis> {
        let refusals = self.index.member(name)?.refusals();
        if refusals.is_another_cluster {
            return Some(cluster::other_identity(name, &Refusal::AnotherCluster));
        }
        let duplicate = Refusal::DuplicateOf(refusals.duplicate_of.clone()?);
        Some(cluster::duplicate(name, &duplicate))
    }

    /// Reports that the namespace of a member is missing or terminating: the member cannot hold
    /// what is delivered. A member that was not read has no report.
    fn namespace(&self, name: &ClusterName) -> Option<Diagnosis> {
        let member = self.index.member(name).filter(|_| self.is_read(name))?;
        let namespace = &self.key.namespace;
        service::namespace(namespace, name, member.namespace(namespace))
    }

    /// Reports that the Service of a provider is missing, or is an ExternalName.
    fn provider_service(&self, name: &ClusterName) -> Option<Diagnosis> {
        let member = self.index.member(name).filter(|_| self.is_read(name))?;
        service::of_provider(self.key, name, member.service(self.key))
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
                Some(exports::forbidden(
                    self.key,
                    name,
                    allowed.map(|one| &**one),
                ))
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
    /// Returns the reason why nothing of a provider is used.
    pub(super) fn unused(&self, provider: &ClusterName) -> Option<Diagnosis> {
        let facts = self.facts;
        let unused = || facts.unused_by(provider, self.planned_as_unused(provider)?);
        let of_export = || facts.export(provider).filter(|_| !self.is_native());
        facts.left_out(provider).or_else(unused).or_else(of_export)
    }

    /// Returns the plan's reason why nothing of a provider is used. A request of the service
    /// precedes `--provider-ttl`, in both directions.
    fn planned_as_unused(&self, provider: &ClusterName) -> Option<Unused> {
        let (index, key) = (self.facts.index, self.facts.key);
        let planned = self.consumers.iter().filter_map(|name| self.desired(name));
        let mut is_used = false;
        // No copy has this name, so the decision is about the provider as a whole.
        let mut decisions = planned.map(|copies| copies.decide(index, key, provider.as_str(), ""));
        let unused = decisions.find_map(|decision| match decision {
            CopyDecision::Withdraw(Withdraw::Requested(Request::Unused(why))) => Some(why),
            CopyDecision::Hold(Hold::ProviderUnknown)
            | CopyDecision::Withdraw(Withdraw::Observed(Observation::SourceGone, _)) => {
                is_used = true;
                None
            }
            _ => None,
        });
        unused.or_else(|| {
            let everywhere = Unused::everywhere(index, provider);
            everywhere.filter(|why| !is_used || *why != Unused::TtlExpired)
        })
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
        let copies: Vec<_> = self
            .consumers
            .iter()
            .filter_map(|name| self.desired(name))
            .collect();
        let member = self.facts.index.member(provider).into_iter();
        let sources = member.flat_map(|member| member.sources(key));
        let reported = sources.filter_map(|(name, source)| {
            let slice = Slice {
                key,
                provider,
                name,
            };
            match copies
                .iter()
                .find_map(|copies| copies.skipped(provider, name))
            {
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
                let tiers = self.tiers(name).filter(|tiers| tiers.lack_providers())?;
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

    /// Reports the addresses of an entry cluster.
    pub(super) fn entry_cluster(&self, name: &ClusterName) -> Option<Diagnosis> {
        let facts = self.facts;
        let entries = facts
            .desired
            .entry_clusters
            .as_ref()
            .filter(|_| self.is_native())?;
        Some(entry_clusters::diagnosis(
            facts.key,
            name,
            entries.get(name)?,
        ))
    }

    /// Returns the tiers of a consumer, if it does not use all providers alike.
    pub(super) fn tiers(&self, consumer: &ClusterName) -> Option<&'a Tiers> {
        self.desired(consumer)?.tiers.as_ref()
    }

    /// Returns the shares of a consumer's providers, if any are requested.
    pub(super) fn shares(&self, consumer: &ClusterName) -> Option<&'a Shares> {
        self.desired(consumer)?.shares.as_ref()
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

    pub(super) fn is_native(&self) -> bool {
        self.exposure == Exposure::Native
    }
}
