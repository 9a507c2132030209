//! V5: the ports are ports of the Service. The parser reports errors of the list itself (V3).

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use causeway::api::ExposurePort;
use causeway::domain::{FieldError, describe_ports, dns1123_label, quoted};

use super::hub_view::{ServiceFacts, ServiceKind};
use super::violations::{Severity, Violations};
use super::{HubView, Impact, Policy, PreparedChange, name};

pub(super) fn validate(
    change: &PreparedChange,
    view: &HubView,
    policy: &Policy,
    violations: &mut Violations,
) {
    let changed = change
        .spec
        .ports
        .get(change.ports_kept..)
        .unwrap_or_default();
    if changed.is_empty() {
        return;
    }
    let Some(observed) = &view.service else {
        return violations.unconfirmed_service(Impact::Denial);
    };
    let is_new = change.before.spec().is_none();
    let port_index = observed
        .value
        .as_deref()
        .map(|service| PortIndex::of(service, change.service()));
    let mut impact = None;
    for (index, port) in changed.iter().enumerate() {
        let Some(path) = change.port_path(change.ports_kept + index) else {
            continue;
        };
        let (error, severity) = match &port_index {
            // V4 refuses a new object without a usable Service.
            None if is_new => continue,
            Some(ports) if ports.kind == ServiceKind::ExternalName && is_new => continue,
            None => without_service(change, policy, &path, port),
            Some(ports) if ports.kind == ServiceKind::ExternalName => {
                let why = format!("{}; until it is of another type,", external(change));
                let severity = Severity::by_other_object(change.dry_run);
                (only_removed(&path, port, &why), severity)
            }
            Some(ports) => match ports.mismatch(&path, port) {
                Some(error) => (error, name::severity(change, policy)),
                None => continue,
            },
        };
        impact = impact.max(Some(violations.add(error, severity)));
    }
    if let (Some(impact), false) = (impact, observed.live) {
        violations.unconfirmed_service(impact);
    }
}

fn external(change: &PreparedChange) -> String {
    let (namespace, name) = change.service();
    format!("Service {namespace}/{name} is of type ExternalName, an alias without endpoints")
}

/// Returns the error of a port that is added or changed while the Service is missing.
fn without_service(
    change: &PreparedChange,
    policy: &Policy,
    path: &str,
    port: &ExposurePort,
) -> (FieldError, Severity) {
    let (namespace, name) = change.service();
    if dns1123_label(name).is_err() {
        let why = format!("no Service can be named {:?};", quoted(name));
        return (only_removed(path, port, &why), Severity::Denied);
    }
    let severity = name::severity(change, policy);
    if severity != Severity::Warned {
        let why = format!("there is no Service {namespace}/{name}; until there is one,");
        return (only_removed(path, port, &why), severity);
    }
    let wanted = match name_of(port) {
        Some(name) => format!("port named {:?}", quoted(name)),
        None => format!("port {}", port.port),
    };
    let detail = format!("there is no Service {namespace}/{name} yet; it has to have the {wanted}");
    (invalid(path, port, detail), severity)
}

fn only_removed(path: &str, port: &ExposurePort, why: &str) -> FieldError {
    invalid(path, port, format!("{why} ports can only be removed"))
}

fn invalid(path: &str, port: &ExposurePort, detail: String) -> FieldError {
    match name_of(port) {
        Some(name) => FieldError::invalid(format!("{path}.name"), name, detail),
        None => FieldError::invalid(format!("{path}.port"), port.port, detail),
    }
}

/// Service, indexed by the numbers and the names of its ports.
struct PortIndex<'a> {
    kind: ServiceKind,
    numbers: HashSet<u16>,
    names: HashMap<&'a str, u16>,
    service: &'a ServiceFacts,
    key: (&'a str, &'a str),
    description: OnceCell<Description>,
}

/// Description of a Service in errors.
struct Description {
    whole: String,
    has: String,
}

impl<'a> PortIndex<'a> {
    fn of(service: &'a ServiceFacts, key: (&'a str, &'a str)) -> Self {
        let ports = service.ports.iter();
        Self {
            kind: service.kind,
            numbers: ports.clone().map(|port| port.id.number).collect(),
            names: ports.map(|port| (&*port.name, port.id.number)).collect(),
            service,
            key,
            description: OnceCell::new(),
        }
    }

    /// Description, made once for the first error.
    fn description(&self) -> &Description {
        self.description.get_or_init(|| {
            let (namespace, name) = self.key;
            Description {
                whole: format!("Service {namespace}/{name}"),
                has: describe_ports(self.service.ports.iter()),
            }
        })
    }

    /// Returns the error of a port. The parser reports invalid names and numbers.
    fn mismatch(&self, path: &str, port: &ExposurePort) -> Option<FieldError> {
        let number = u16::try_from(port.port).ok().filter(|number| *number > 0)?;
        let Some(name) = name_of(port) else {
            return (!self.numbers.contains(&number)).then(|| {
                let Description { whole, has } = self.description();
                let detail = format!("{whole} has no port {number}; it has {has}");
                FieldError::invalid(format!("{path}.port"), number, detail)
            });
        };
        if dns1123_label(name).is_err() {
            return None;
        }
        match self.names.get(name) {
            None => {
                let Description { whole, has } = self.description();
                let detail = format!("{whole} has no port named {name:?}; it has {has}");
                Some(FieldError::invalid(format!("{path}.name"), name, detail))
            }
            Some(actual) if *actual != number => {
                let Description { whole, has } = self.description();
                let detail = format!("port {name:?} of {whole} is {actual}; the Service has {has}");
                Some(FieldError::invalid(format!("{path}.port"), number, detail))
            }
            Some(_) => None,
        }
    }
}

fn name_of(port: &ExposurePort) -> Option<&str> {
    port.name.as_deref().filter(|name| !name.is_empty())
}
