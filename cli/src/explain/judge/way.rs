//! One way in which endpoints reach consumers, whatever asked for it.

use std::collections::BTreeMap;

use causeway::api::multicluster::HEADLESS;
use causeway::api::{condition, labels, ownership};
use causeway::domain::{ServicePort, describe_ports};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;

use super::super::ports;
use super::super::report::{
    ConsumerReport, EndpointReport, Fate, Finding, Path, ProviderReport, Reason, Way,
};
use super::super::scene::Scene;
use super::super::standing;
use super::fate;

/// Who takes part, and what stands in the way of all of it.
pub(super) struct Plan<'a> {
    pub scene: &'a Scene,
    pub path: Path,
    /// The Service that copies belong to in a consumer.
    pub service: String,
    pub providers: Vec<String>,
    pub consumers: Vec<String>,
    /// What keeps every endpoint from every consumer.
    pub obstacle: Option<Finding>,
    /// The exposed ports.
    pub exposed: Vec<ServicePort>,
    /// Whether Karmada's own controllers carry it.
    pub of_karmada: bool,
}

impl Plan<'_> {
    /// What became of it all.
    pub(super) fn carry_out(&self, mut findings: Vec<Finding>, address: String) -> Way {
        findings.extend(self.obstacle.clone());
        let providers: Vec<_> = self
            .providers
            .iter()
            .map(|name| self.provider(name))
            .collect();
        let mut endpoints = providers.iter().flat_map(|one| &one.endpoints);
        if !endpoints.any(|one| one.ready) {
            findings.push(self.no_endpoints());
        }
        let consumers = self.consumers.iter().map(|name| ConsumerReport {
            cluster: name.clone(),
            findings: self
                .consumer_obstacle(name)
                .or_else(|| self.unresolved(name))
                .into_iter()
                .collect(),
        });
        Way {
            path: self.path,
            address,
            findings,
            consumers: consumers.collect(),
            providers,
        }
    }

    fn no_endpoints(&self) -> Finding {
        let (namespace, name) = (&self.scene.key.namespace, &self.scene.key.name);
        let providers = match self.providers.as_slice() {
            [] => "there is none".to_owned(),
            names => names.join(", "),
        };
        let message = format!("no provider has a ready endpoint ({providers}): nothing can answer");
        Finding::new(Reason::NoEndpoints, message).mend(format!(
            "in a provider: kubectl -n {namespace} get endpointslices -l {}={name}; kubectl -n {namespace} get pods",
            labels::SERVICE_NAME
        ))
    }

    fn provider(&self, name: &str) -> ProviderReport {
        let obstacle = self.provider_obstacle(name);
        let mut findings: Vec<_> = obstacle.clone().into_iter().collect();
        findings.extend(standing::not_believed(self.scene, name));
        let endpoints = match self.scene.held(name) {
            Some(held) => held
                .sources(&self.scene.key.name)
                .flat_map(|slice| slice.endpoints.iter().map(move |one| (slice, one)))
                .map(|(slice, endpoint)| self.endpoint(name, slice, endpoint, obstacle.as_ref()))
                .collect(),
            None => self.last_known(name, obstacle.as_ref()),
        };
        ProviderReport {
            cluster: name.to_owned(),
            findings,
            endpoints,
        }
    }

    fn endpoint(
        &self,
        provider: &str,
        slice: &EndpointSlice,
        endpoint: &Endpoint,
        obstacle: Option<&Finding>,
    ) -> EndpointReport {
        let consumers = self.consumers.iter();
        let fates = consumers.map(|consumer| {
            let question = fate::Question {
                plan: self,
                provider,
                consumer,
                slice,
                endpoint,
                obstacle,
            };
            question.fate()
        });
        EndpointReport {
            slice: Some(slice.name_any()),
            ..report(endpoint, fates.collect())
        }
    }

    /// What the consumers hold of a provider that cannot be read.
    fn last_known(&self, provider: &str, obstacle: Option<&Finding>) -> Vec<EndpointReport> {
        let mut known: BTreeMap<Vec<String>, &Endpoint> = BTreeMap::new();
        for consumer in &self.consumers {
            let held = self.scene.held(consumer).into_iter();
            let copies = held.flat_map(|held| self.scene.copies(held, &self.service, provider));
            for endpoint in copies.flat_map(|copy| &copy.endpoints) {
                known.insert(endpoint.addresses.clone(), endpoint);
            }
        }
        let known = known.into_values();
        known
            .map(|endpoint| {
                let consumers = self.consumers.iter();
                let others = consumers.filter(|consumer| *consumer != provider);
                let fates =
                    others.map(|consumer| fate::kept(self, provider, consumer, endpoint, obstacle));
                report(endpoint, fates.collect())
            })
            .collect()
    }

    /// Why nothing of a provider is used.
    pub(super) fn provider_obstacle(&self, name: &str) -> Option<Finding> {
        let scene = self.scene;
        let own = || match self.path {
            Path::Native => standing::namespace(scene, name),
            Path::Clusterset => {
                standing::clusterset(scene, name).or_else(|| standing::export(scene, name))
            }
        };
        standing::drained(scene, name)
            .or_else(|| standing::member(scene, name))
            .or_else(own)
            .or_else(|| self.no_service(name))
    }

    fn no_service(&self, name: &str) -> Option<Finding> {
        let key = &self.scene.key;
        let (namespace, held) = (&key.namespace, self.scene.held(name)?);
        let Some(service) = held.service(&key.name) else {
            let message = format!("{name} has no Service {key}");
            return Some(Finding::new(Reason::NoProviderService, message).mend(format!(
                "in {name}: kubectl -n {namespace} create service clusterip {} --tcp=PORT:TARGETPORT",
                key.name
            )));
        };
        is_external_name(service).then(|| {
            let message =
                format!("Service {key} of {name} is an ExternalName, which has no endpoints");
            Finding::new(Reason::ExternalName, message).mend(format!(
                "in {name}: kubectl -n {namespace} delete service {}",
                key.name
            ))
        })
    }

    /// Why nothing reaches a consumer.
    pub(super) fn consumer_obstacle(&self, name: &str) -> Option<Finding> {
        let scene = self.scene;
        standing::member(scene, name)
            .or_else(|| standing::namespace(scene, name))
            .or_else(|| match self.path {
                Path::Native => None,
                Path::Clusterset => standing::clusterset(scene, name),
            })
            .or_else(|| self.no_place(name))
    }

    /// What the import of a member says is wrong with it.
    fn import_trouble(&self, name: &str) -> Option<String> {
        let imports = &self.scene.held(name)?.imports;
        let mut conditions = imports.iter().flat_map(|import| import.status.iter());
        let unready = conditions.find_map(|status| {
            let ready = condition::find(&status.conditions, condition::READY)?;
            (ready.status == condition::FALSE).then_some(ready)
        })?;
        Some(format!("{} ({})", unready.reason, unready.message))
    }

    /// The Service in a consumer that endpoints are to be behind.
    fn no_place(&self, name: &str) -> Option<Finding> {
        let (key, held) = (&self.scene.key, self.scene.held(name)?);
        let namespace = &key.namespace;
        if let Some(left) = self.left_to_karmada(name, held.service(&self.service)) {
            return Some(left);
        }
        let Some(service) = held.service(&self.service) else {
            let why = self.import_trouble(name).map(|why| format!(": {why}"));
            let message = format!(
                "{name} has no Service {namespace}/{}{}",
                self.service,
                why.unwrap_or_else(|| " yet".to_owned())
            );
            let command = format!("kubectl mcs status {} -n {namespace}", key.name);
            return Some(Finding::new(Reason::ServiceMissing, message).mend(command));
        };
        if let Some(conflict) = self.conflict(name, service) {
            return Some(conflict);
        }
        let ports = ports::of(service);
        let lacks = |port: &&ServicePort| !ports.iter().any(|own| own.id == port.id);
        let lacking: Vec<_> = self.exposed.iter().filter(lacks).collect();
        let of_others = !self.scene.is_ours(service);
        (of_others && (is_external_name(service) || !lacking.is_empty())).then(|| {
            let what = if is_external_name(service) {
                "is an ExternalName".to_owned()
            } else {
                format!(
                    "lacks {}; it has {}",
                    describe_ports(lacking),
                    describe_ports(&ports)
                )
            };
            let own = &self.service;
            let message = format!("Service {namespace}/{own} of {name} is somebody else's and {what}");
            Finding::new(Reason::ForeignService, message).mend(format!(
                "in {name}: kubectl -n {namespace} edit service {own} to have the ports; or, if nobody needs it: \
                 kubectl -n {namespace} delete service {own}"
            ))
        })
    }
}

impl Plan<'_> {
    /// A person's import in a consumer without the addresses of the derived Service: endpoints are there, and the name leads elsewhere.
    fn unresolved(&self, name: &str) -> Option<Finding> {
        let (scene, held) = (self.scene, self.scene.held(name)?);
        let import = held
            .imports
            .iter()
            .find(|import| scene.is_a_persons(*import))?;
        let spec = held
            .service(&self.service)
            .filter(|_| self.path == Path::Clusterset)?
            .spec
            .as_ref()?;
        let mut addresses: Vec<_> = spec
            .cluster_ips
            .iter()
            .flatten()
            .map(String::as_str)
            .collect();
        addresses.retain(|address| *address != "None");
        if import.spec.type_ == HEADLESS {
            return None;
        }
        let key = &scene.key;
        let (why, remedy) =
            ownership::unresolved(key, &import.spec.ips, &key.derived(), &addresses)?;
        let finding = Finding::new(Reason::NameNotResolved, format!("{name} {why}"));
        Some(finding.mend(format!("in {name}: {remedy}")))
    }

    /// Karmada's own controllers import the service: causeway makes nothing of it where they have made the Service, or may.
    fn left_to_karmada(&self, name: &str, service: Option<&Service>) -> Option<Finding> {
        let may = service.is_none_or(|service| ownership::is_karmadas(&service.metadata));
        let told = standing::karmadas_import(self.scene);
        let told = told.filter(|_| may && self.path == Path::Clusterset)?;
        let what = match service {
            Some(_) => format!(
                "Service {}/{} of {name} is theirs, and so are its endpoints",
                self.scene.key.namespace, self.service
            ),
            None => format!("causeway makes nothing of it in {name}, and they have not"),
        };
        Some(Finding {
            message: format!(
                "Karmada's own controllers import {}; {what}",
                self.scene.key
            ),
            ..told
        })
    }

    /// A Service of the name in a consumer that belongs to another service: it gets no endpoints of this one.
    fn conflict(&self, name: &str, service: &Service) -> Option<Finding> {
        let (scene, own) = (self.scene, &self.service);
        let (key, namespace) = (&scene.key, &scene.key.namespace);
        let of = ownership::derived_for(&service.metadata);
        let (message, remedy) = match (self.path, of) {
            (Path::Native, Some(of)) => (
                format!("Service {namespace}/{own} of {name} stands for the imported service {of}"),
                format!(
                    "give this service another name, or, if nobody needs {of}, in its exporters: kubectl -n {namespace} delete serviceexport {of}"
                ),
            ),
            (Path::Clusterset, of) if of != Some(&*key.name) || !scene.is_ours(service) => (
                format!(
                    "Service {namespace}/{own} of {name} has the name under which {key} is imported, and is another; it gets no endpoints of {key}"
                ),
                match scene.is_ours(service) && of.is_none() {
                    true => format!("give MultiClusterService {namespace}/{own} another name"),
                    false => format!(
                        "give that Service another name, or, if nobody needs it: in {name}: kubectl -n {namespace} delete service {own}"
                    ),
                },
            ),
            _ => return None,
        };
        Some(Finding::new(Reason::ServiceConflict, message).mend(remedy))
    }
}

pub(super) fn is_external_name(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    kind == Some("ExternalName")
}

fn report(endpoint: &Endpoint, consumers: Vec<Fate>) -> EndpointReport {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let ready = conditions.ready.unwrap_or(true);
    EndpointReport {
        addresses: endpoint.addresses.clone(),
        slice: None,
        node: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        ready,
        serving: conditions.serving.unwrap_or(ready),
        terminating: conditions.terminating.unwrap_or(false),
        consumers,
    }
}
