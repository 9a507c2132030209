//! V5: the ports are those of the Service. What is wrong in the list itself (V3) the parser says.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use causeway::api::ExposurePort;
use causeway::domain::{FieldError, describe_ports, dns1123_label, quoted};

use super::findings::{Findings, Severity};
use super::view::{ServiceFacts, ServiceKind};
use super::{Policy, Question, Stake, View, name};

pub(super) fn judge(question: &Question, view: &View, policy: &Policy, findings: &mut Findings) {
    let changed = question
        .spec
        .ports
        .get(question.ports_kept..)
        .unwrap_or_default();
    if changed.is_empty() {
        return;
    }
    let Some(seen) = &view.service else {
        return findings.doubt_service(Stake::Refusal);
    };
    let is_new = question.before.spec().is_none();
    let known = seen
        .value
        .as_deref()
        .map(|service| Known::of(service, question.service()));
    let mut stake = None;
    for (index, port) in changed.iter().enumerate() {
        let Some(path) = question.port_path(question.ports_kept + index) else {
            continue;
        };
        let (error, severity) = match &known {
            // A new object without a usable Service is V4's to refuse.
            None if is_new => continue,
            Some(known) if known.kind == ServiceKind::ExternalName && is_new => continue,
            None => without_service(question, policy, &path, port),
            Some(known) if known.kind == ServiceKind::ExternalName => {
                let why = format!("{}; until it is of another type,", external(question));
                (only_removed(&path, port, &why), Severity::Refused)
            }
            Some(known) => match known.mismatch(&path, port) {
                Some(error) => (error, name::severity(question, policy)),
                None => continue,
            },
        };
        stake = stake.max(Some(findings.fault(error, severity)));
    }
    if let (Some(stake), false) = (stake, seen.live) {
        findings.doubt_service(stake);
    }
}

fn external(question: &Question) -> String {
    let (namespace, name) = question.service();
    format!("Service {namespace}/{name} is of type ExternalName, an alias without endpoints")
}

/// A port that is added or changed while there is no Service to have it.
fn without_service(
    question: &Question,
    policy: &Policy,
    path: &str,
    port: &ExposurePort,
) -> (FieldError, Severity) {
    let (namespace, name) = question.service();
    if dns1123_label(name).is_err() {
        let why = format!("no Service can be named {:?};", quoted(name));
        return (only_removed(path, port, &why), Severity::Refused);
    }
    let severity = name::severity(question, policy);
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

/// A Service, by what its ports are looked for.
struct Known<'a> {
    kind: ServiceKind,
    numbers: HashSet<u16>,
    names: HashMap<&'a str, u16>,
    service: &'a ServiceFacts,
    key: (&'a str, &'a str),
    words: OnceCell<Words>,
}

/// A Service in the words of an error.
struct Words {
    whole: String,
    has: String,
}

impl<'a> Known<'a> {
    fn of(service: &'a ServiceFacts, key: (&'a str, &'a str)) -> Self {
        let ports = service.ports.iter();
        Self {
            kind: service.kind,
            numbers: ports.clone().map(|port| port.id.number).collect(),
            names: ports.map(|port| (&*port.name, port.id.number)).collect(),
            service,
            key,
            words: OnceCell::new(),
        }
    }

    /// Found when they are needed, and once for all errors.
    fn words(&self) -> &Words {
        self.words.get_or_init(|| {
            let (namespace, name) = self.key;
            Words {
                whole: format!("Service {namespace}/{name}"),
                has: describe_ports(self.service.ports.iter()),
            }
        })
    }

    /// What is wrong with a port; names and numbers that are wrong in themselves are left to the parser.
    fn mismatch(&self, path: &str, port: &ExposurePort) -> Option<FieldError> {
        let number = u16::try_from(port.port).ok().filter(|number| *number > 0)?;
        let Some(name) = name_of(port) else {
            return (!self.numbers.contains(&number)).then(|| {
                let Words { whole, has } = self.words();
                let detail = format!("{whole} has no port {number}; it has {has}");
                FieldError::invalid(format!("{path}.port"), number, detail)
            });
        };
        if dns1123_label(name).is_err() {
            return None;
        }
        match self.names.get(name) {
            None => {
                let Words { whole, has } = self.words();
                let detail = format!("{whole} has no port named {name:?}; it has {has}");
                Some(FieldError::invalid(format!("{path}.name"), name, detail))
            }
            Some(known) if *known != number => {
                let Words { whole, has } = self.words();
                let detail = format!("port {name:?} of {whole} is {known}; the Service has {has}");
                Some(FieldError::invalid(format!("{path}.port"), number, detail))
            }
            Some(_) => None,
        }
    }
}

fn name_of(port: &ExposurePort) -> Option<&str> {
    port.name.as_deref().filter(|name| !name.is_empty())
}
