//! ExposedService of a service by a MultiClusterService.

use causeway::api::condition;
use causeway::api::karmada;
use causeway::domain::{
    ClusterName, ExposureType, MultiClusterService, ServicePort, describe_ports,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::exposure::ExposedService;
use super::providers;
use super::report::ExposureReport;
use super::{Diagnosis, Facts};
use crate::messages;
use crate::model::slice::Exposure;
use crate::observed::hub::McsView;
use crate::plan::Members;
use crate::plan::hostnames;
use crate::plan::placement::place;
use crate::problem::Problem;
use crate::reasons::Reason;

/// Returns the exposure by the service's own name, if the hub has a MultiClusterService for it.
pub(super) fn report(facts: &Facts<'_>) -> Option<ExposureReport> {
    let mcs = facts.index.multi_cluster_service(facts.key)?;
    let exposure = match &mcs.spec {
        Err(errors) => {
            let message = format!("MultiClusterService {} cannot be read: {errors}", facts.key);
            let invalid = Diagnosis::new(Reason::Invalid, message).fix(facts.edit());
            return Some(nobodys(facts, invalid));
        }
        Ok(spec) if spec.exposure == ExposureType::LoadBalancer => {
            return Some(nobodys(facts, facts.load_balancer()));
        }
        Ok(spec) => exposure(facts, mcs, spec),
    };
    Some(providers::report(exposure))
}

fn exposure<'a>(
    facts: &'a Facts<'a>,
    mcs: &McsView,
    spec: &MultiClusterService,
) -> ExposedService<'a> {
    let placement = place(facts.index, spec);
    let left_out = |is_one: &dyn Fn(&ClusterName) -> bool| -> Vec<ClusterName> {
        let left_out = placement.left_out.keys().filter(|name| is_one(name));
        left_out.cloned().collect()
    };
    let sorted = |mut names: Vec<ClusterName>| {
        names.sort();
        names
    };
    let providers = placement.providers().cloned();
    let providers = providers.chain(left_out(&|name| spec.providers.includes(name)));
    let consumers = placement.consumers().cloned();
    let consumers = consumers.chain(left_out(&|name| spec.consumers.includes(name)));
    let consumers = sorted(consumers.collect());
    let copies = consumers.iter();
    let copies = copies.map(|name| (name.clone(), facts.copies(name, Exposure::Native)));
    let members = facts.members.keys();
    let karmadas = members.map(|name| (name.clone(), facts.karmadas_slices(name)));
    let mut exposure = ExposedService {
        facts,
        exposure: Exposure::Native,
        address: address(facts),
        service: facts.key.clone(),
        providers: sorted(providers.collect()),
        copies: copies.collect(),
        karmadas: karmadas.collect(),
        consumers,
        obstacle: facts.obstacle(mcs),
        diagnoses: Vec::new(),
    };
    let diagnoses = facts.not_exposed_ports().into_iter();
    let diagnoses = diagnoses
        .chain(facts.not_observed(mcs))
        .chain(facts.not_named(&exposure.providers))
        .chain(exposure.ambiguous_hostname())
        .chain(exposure.of_karmada());
    exposure.diagnoses = diagnoses.collect();
    exposure
}

fn address(facts: &Facts<'_>) -> String {
    format!("{}.{}.svc", facts.key.name, facts.key.namespace)
}

/// Returns an exposure that leads no endpoint to another cluster.
fn nobodys(facts: &Facts<'_>, diagnosis: Diagnosis) -> ExposureReport {
    ExposureReport {
        exposure: Exposure::Native,
        address: address(facts),
        diagnoses: vec![diagnosis],
        consumers: Vec::new(),
        providers: Vec::new(),
    }
}

impl ExposedService<'_> {
    /// Returns the Ready condition of the MultiClusterService, or of the provider's export.
    pub(super) fn reported(&self, provider: &ClusterName) -> Option<&Condition> {
        let (index, key) = (self.facts.index, self.facts.key);
        let conditions = match self.exposure {
            Exposure::Native => &index.multi_cluster_service(key)?.conditions,
            Exposure::Clusterset => &index.member(provider)?.export(key)?.conditions,
        };
        condition::find(conditions, condition::READY)
    }

    /// Whether the plan leaves all objects of consumers unchanged.
    pub(super) fn leaves_all(&self) -> bool {
        let desired = self.facts.desired;
        match self.exposure {
            Exposure::Native => matches!(desired.members, Members::Untouched),
            Exposure::Clusterset => desired.clusterset.problem.is_some(),
        }
    }
}

impl ExposedService<'_> {
    /// Reports hostnames of a headless service that lead to pods of several clusters.
    fn ambiguous_hostname(&self) -> Option<Diagnosis> {
        let (index, key) = (self.facts.index, self.facts.key);
        self.consumers.first()?;
        let providers = self.providers.iter();
        let used = providers.filter(|name| self.unused(name).is_none());
        let found = hostnames::ambiguous(index, key, used)?;
        let ambiguous = Diagnosis::new(Reason::AmbiguousHostname, found.sentence(key));
        Some(ambiguous.fix(found.remedy(key)))
    }
}

impl Facts<'_> {
    fn edit(&self) -> String {
        format!(
            "kubectl -n {} edit mcs {}",
            self.key.namespace, self.key.name
        )
    }

    fn load_balancer(&self) -> Diagnosis {
        let (namespace, name) = (&self.key.namespace, &self.key.name);
        let message = format!(
            "MultiClusterService {namespace}/{name} is of type LoadBalancer: its status gathers the addresses of the providers' load \
             balancers, and no endpoint goes to another cluster"
        );
        Diagnosis::new(Reason::LoadBalancer, message).fix(format!(
            "kubectl -n {namespace} get mcs {name} -o jsonpath='{{.status.loadBalancer}}'; for endpoints delete it and create it again \
             with types: [CrossCluster]"
        ))
    }

    /// Returns the diagnosis of an obstacle for every endpoint in every other cluster.
    fn obstacle(&self, mcs: &McsView) -> Option<Diagnosis> {
        if mcs.is_deleting() {
            return Some(self.deleting(mcs));
        }
        let (namespace, name) = (&self.key.namespace, &self.key.name);
        let problem = self.desired.problem.as_ref()?;
        // Some of the ports may be there.
        let is_partial = matches!(&self.desired.members, Members::Wanted(all) if !all.is_empty());
        let (reason, remedy) = match problem {
            Problem::ServiceNotFound { .. } => (
                Reason::NoHubService,
                format!("kubectl -n {namespace} create service clusterip {name} --tcp=PORT:TARGETPORT"),
            ),
            Problem::ExternalName => (
                Reason::ExternalName,
                format!("kubectl -n {namespace} edit service {name}: give it a selector and another type"),
            ),
            Problem::PortNotFound { .. } if is_partial => return None,
            Problem::PortNotFound { .. } => (Reason::PortNotFound, self.edit()),
            Problem::Protected(_) => (
                Reason::NamespaceProtected,
                "start causeway-webhook and causeway-controller with --allow-namespace, if the namespace is meant to be exposed"
                    .to_owned(),
            ),
            Problem::Invalid(_) => (Reason::Invalid, self.edit()),
            Problem::ManagedByKarmada(_) => return None,
        };
        let message = messages::problem::problem(self.key, problem);
        Some(Diagnosis::new(reason, message).fix(remedy))
    }

    fn deleting(&self, mcs: &McsView) -> Diagnosis {
        let (key, namespace) = (self.key, &self.key.namespace);
        let holders = self.index.native_holders(key).map(ClusterName::as_str);
        let holders: Vec<_> = holders.collect();
        let (karmadas, others): (Vec<_>, Vec<_>) = mcs
            .finalizers
            .others()
            .partition(|one| karmada::FINALIZERS.contains(one));
        let waits = [
            (!holders.is_empty()).then(|| format!("{} to be cleaned", holders.join(", "))),
            (!karmadas.is_empty()).then(|| format!("Karmada's finalizer: {}", karmadas.join(", "))),
            (!others.is_empty())
                .then(|| format!("somebody else's finalizers: {}", others.join(", "))),
        ];
        let waits: Vec<_> = waits.into_iter().flatten().collect();
        let waits = match waits.as_slice() {
            [] => String::new(),
            waits => format!("; it waits for {}", waits.join(", and for ")),
        };
        let message = format!("MultiClusterService {key} is being deleted{waits}");
        let deleting = Diagnosis::new(Reason::Deleting, message);
        if karmadas.is_empty() {
            return deleting.fix(format!(
                "wait a moment; if it is to be kept, once it is gone: kubectl -n {namespace} apply -f mcs.yaml"
            ));
        }
        let (off, on) = (karmada::GATE_OFF, karmada::GATE_ON);
        deleting.fix(format!(
            "{}, with karmada-controller-manager started with {off}: then nobody but a person takes that finalizer off; with {on} \
             karmada-controller-manager does, and its log says why it does not",
            self.adopt()
        ))
    }

    /// Reports ports of the hub's Service that the plan does not expose, if it exposes any.
    fn not_exposed_ports(&self) -> Option<Diagnosis> {
        let exposed = &self.desired.exposed;
        let service = self.index.hub_service(self.key)?;
        let is_hidden = |port: &ServicePort| exposed.iter().all(|one| one.id != port.id);
        let hidden: Vec<_> = service.ports().into_iter().filter(is_hidden).collect();
        let first = hidden.first().filter(|_| !exposed.is_empty())?;
        let message = format!(
            "spec.ports of the MultiClusterService does not expose {} of Service {}",
            describe_ports(&hidden),
            self.key
        );
        let name = match &*first.name {
            "" => String::new(),
            name => format!("\"name\":\"{name}\","),
        };
        let entry = format!("{{{name}\"port\":{}}}", first.id.number);
        Some(Diagnosis::new(Reason::PortNotExposed, message).fix(format!(
            "kubectl -n {} patch mcs {} --type=json -p '[{{\"op\":\"add\",\"path\":\"/spec/ports/-\",\"value\":{entry}}}]'",
            self.key.namespace, self.key.name
        )))
    }

    /// Reports that the controller has not processed the object, or its last change, yet.
    fn not_observed(&self, mcs: &McsView) -> Option<Diagnosis> {
        let behind = match condition::find(&mcs.conditions, condition::READY) {
            None => "has not processed it yet",
            Some(ready) if ready.observed_generation.unwrap_or_default() < mcs.generation => {
                "has not processed its last change yet"
            }
            Some(_) => return None,
        };
        let message = format!("MultiClusterService {}: the controller {behind}", self.key);
        Some(Diagnosis::new(Reason::NotObserved, message).fix(format!(
            "kubectl mcs status {} -n {} --wait",
            self.key.name, self.key.namespace
        )))
    }

    /// Lists members that have endpoints of their own behind a Service of the name and are no
    /// providers.
    pub(super) fn backed_but_not(&self, providers: &[ClusterName]) -> Vec<&ClusterName> {
        let members = self.index.members();
        let others = members.filter(|(name, member)| {
            let mut sources = member.sources(self.key);
            !providers.contains(name) && sources.any(|(_, source)| !source.is_empty())
        });
        others.map(|(name, _)| name).collect()
    }

    fn not_named(&self, providers: &[ClusterName]) -> Vec<Diagnosis> {
        let (namespace, name) = (&self.key.namespace, &self.key.name);
        let others = self.backed_but_not(providers).into_iter();
        let not_named = |member: &ClusterName| {
            let message = format!(
                "{member} has endpoints of its own for {namespace}/{name}, and spec.providerClusters does not name it"
            );
            Diagnosis::new(Reason::NotNamed, message).fix(format!(
                "kubectl -n {namespace} patch mcs {name} --type=json -p \
                 '[{{\"op\":\"add\",\"path\":\"/spec/providerClusters/-\",\"value\":{{\"name\":\"{member}\"}}}}]'"
            ))
        };
        others.map(not_named).collect()
    }

    /// Reports that the Service of a provider is missing, or is an ExternalName.
    pub(super) fn provider_service(&self, name: &ClusterName) -> Option<Diagnosis> {
        let (key, namespace) = (self.key, &self.key.namespace);
        let member = self.index.member(name)?;
        self.members.get(name)?.as_ref().ok()?;
        let Some(service) = member.service(key) else {
            let message = format!("{name} has no Service {key}");
            return Some(Diagnosis::new(Reason::NoProviderService, message).fix(format!(
                "in {name}: kubectl -n {namespace} create service clusterip {} --tcp=PORT:TARGETPORT",
                key.name
            )));
        };
        service.is_external_name().then(|| {
            let message =
                format!("Service {key} of {name} is an ExternalName, which has no endpoints");
            Diagnosis::new(Reason::ExternalName, message).fix(format!(
                "in {name}: kubectl -n {namespace} delete service {}",
                key.name
            ))
        })
    }
}
