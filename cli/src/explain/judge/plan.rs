//! Who takes part in one way in which endpoints reach consumers, and what stands in the way.

use causeway::api::multicluster::HEADLESS;
use causeway::api::{condition, ownership};
use causeway::domain::{ServicePort, describe_ports};
use k8s_openapi::api::core::v1::Service;

use super::super::ports;
use super::super::report::{Finding, Path, Reason};
use super::super::scene::Scene;
use super::super::standing;

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

    /// A person's import in a consumer without the addresses of the derived Service: endpoints are there, and the name leads elsewhere.
    pub(super) fn unresolved(&self, name: &str) -> Option<Finding> {
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
