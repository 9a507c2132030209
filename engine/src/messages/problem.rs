//! Sentences about problems on the hub's side, including Karmada's management of a service.

use std::fmt;

use causeway::domain::{ServiceKey, describe_ports};

use super::{adopt, first_by, names};
use crate::model::TimePoint;
use crate::plan::{Desired, KarmadaManaged};
use crate::problem::{Gap, Problem, ServiceProblem};

/// Returns the message of ServiceApplied about a problem, with the remedy.
pub(crate) fn problem(key: &ServiceKey, problem: &Problem) -> String {
    match problem {
        Problem::ServiceNotFound { held_until } => {
            let otherwise = "nothing of it is offered to other clusters";
            let consequence = consequence(*held_until, otherwise);
            format!("the hub has no Service {key}; {consequence}")
        }
        Problem::PortNotFound {
            missing,
            has,
            held_until,
        } => {
            let otherwise = "the missing ports are not offered to other clusters";
            format!(
                "Service {key} has no port {}; it has {}; {}",
                names(missing),
                describe_ports(has),
                consequence(*held_until, otherwise)
            )
        }
        Problem::ExternalName => format!(
            "Service {key} is an ExternalName and has no endpoints; expose a Service with a selector"
        ),
        Problem::Protected(protected) => protected.to_string(),
        Problem::Invalid(errors) => errors.to_string(),
    }
}

fn consequence(held_until: Option<TimePoint>, otherwise: &str) -> String {
    match held_until {
        Some(until) => format!("what the clusters hold is kept until {until:.0}"),
        None => otherwise.to_owned(),
    }
}

/// Returns the message of Ready for a service that Karmada manages, with the remedy.
pub(crate) fn managed_by_karmada(
    key: &ServiceKey,
    desired: &Desired,
    managed: &KarmadaManaged,
) -> String {
    let work = &managed.work;
    let mut message = format!(
        "Karmada's own MultiClusterService controllers manage this service (Work {work}), and \
         causeway begins nothing beside them"
    );
    let hub = desired.problem().map(|hub| problem(key, hub));
    let endpoints = (!desired.members.is_untouched()).then(|| endpoints(key, managed));
    for part in hub.into_iter().chain(endpoints).chain(left(managed)) {
        message.push_str(". ");
        message.push_str(&part);
    }
    message.push_str(&format!(
        ". For causeway to manage it, without a gap: {}",
        adopt(key)
    ));
    message
}

fn endpoints(key: &ServiceKey, managed: &KarmadaManaged) -> String {
    let known = match (&*managed.late, managed.wavers(), managed.any_ready) {
        ([], true, _) => "Not every ready endpoint is in every consumer yet".to_owned(),
        ([], false, true) => "Every ready endpoint is in every consumer".to_owned(),
        ([], false, false) => "No provider has a ready endpoint".to_owned(),
        (gaps, ..) => {
            let gaps = first_by("; ", gaps.iter().map(|gap| self::gap(key, gap)));
            format!("Not every ready endpoint is in every consumer: {gaps}")
        }
    };
    match managed.unknown.is_empty() {
        true => known,
        false => format!(
            "{known}, as far as is known: {} cannot be read",
            first_by(", ", &managed.unknown)
        ),
    }
}

fn gap(key: &ServiceKey, gap: &Gap) -> String {
    match gap {
        Gap::Service { consumer } => format!("{consumer} has no Service {}", key.name),
        Gap::Fit { consumer, problem } => format!("{consumer} {problem}"),
        Gap::Endpoints {
            consumer,
            provider,
            slice,
        } => format!("{consumer} lacks those of EndpointSlice {slice} of {provider}"),
        Gap::Behind { consumer, slice } => {
            format!("Karmada's EndpointSlice {slice} in {consumer} is behind")
        }
    }
}

/// Describes the objects of causeway that remain, and the members that hold them.
fn left(managed: &KarmadaManaged) -> Option<String> {
    let kinds = [
        ("its Service in", &managed.services),
        ("EndpointSlices in", &managed.slices),
    ];
    let kinds = kinds.iter().filter(|(_, members)| !members.is_empty());
    let kinds: Vec<_> = kinds
        .map(|(kind, members)| format!("{kind} {}", first_by(", ", *members)))
        .collect();
    (!kinds.is_empty()).then(|| {
        format!(
            "What causeway made stays until Karmada's stands in its place: {}",
            kinds.join("; ")
        )
    })
}

/// Writes the text that follows the name of the member in a message.
impl fmt::Display for ServiceProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandsFor { service, of } => write!(
                out,
                "has a Service {service} that stands for the imported service {of}; rename this service, or delete the ServiceExports of {of}"
            ),
            Self::NameTaken {
                service,
                imported,
                delivered: true,
            } => write!(
                out,
                "has a Service {service} for the MultiClusterService of that name, under which {imported} is imported; \
                 rename that MultiClusterService"
            ),
            Self::NameTaken {
                service,
                imported,
                delivered: false,
            } => write!(
                out,
                "has a Service {service} of its own, under which name {imported} is imported; rename or delete that Service"
            ),
            Self::ExternalName(service) => write!(
                out,
                "has a Service {service} of its own that is an ExternalName; remove or rename it"
            ),
            Self::MissingPorts {
                service,
                missing,
                has,
            } => write!(
                out,
                "has a Service {service} of its own without {}; it has {}; add the port there or remove that Service",
                describe_ports(missing),
                describe_ports(has)
            ),
        }
    }
}
