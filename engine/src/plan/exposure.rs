//! Exposed part of the hub's Service, and the state that is held for a grace period after the
//! Service or a port is removed.

use std::time::Duration;

use causeway::domain::{ExposedPort, ExposedPorts, MultiClusterService, ServicePort};

use super::inputs::Inputs;
use crate::model::TimePoint;
use crate::model::map::HashSet;
use crate::observed::service::{PortShape, ServiceView};
use crate::problem::Problem;

/// Time within which the events that a failing watch has missed come once it works again.
const EVENTS_WITHIN: Duration = Duration::from_secs(5);

/// Exposed part of a service.
#[derive(Clone, Debug)]
pub(crate) struct Exposed {
    /// Basis of the plan.
    pub state: State,
    /// Exposed ports, each (protocol, number) once.
    pub ports: Vec<PortShape>,
    /// Problem on the hub's side.
    pub problem: Option<Problem>,
    /// End of a grace period.
    pub again_at: Option<TimePoint>,
    /// Whether the Service, or a port of it, may exist although it was not observed.
    pub is_unknown: bool,
}

/// Basis of a plan.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Service of the hub, as it is or as it was before its removal.
    Service(Box<ServiceView>),
    /// The exposed ports are unknown; the members retain the objects that they hold.
    Held,
    /// Nothing is exposed.
    Nothing,
}

impl Exposed {
    fn nothing(state: State, problem: Problem, again_at: Option<TimePoint>) -> Self {
        Self {
            state,
            ports: Vec::new(),
            problem: Some(problem),
            again_at,
            is_unknown: false,
        }
    }
}

/// Decides which part of a service is exposed. A Service or port that the hub lost stays exposed
/// for the grace period: replacing a Service by force causes no outage. No grace period ends, and
/// nothing is known to be missing, while the watch of the hub's Services fails, and until its
/// events have come afterwards.
pub(super) fn expose(inputs: Inputs<'_>, spec: &MultiClusterService) -> Exposed {
    let index = inputs.index;
    let failing = index.hub_services_failing_since();
    let now = failing.map_or(inputs.now, |since| since.min(inputs.now));
    let mut exposed = expose_at(Inputs { now, ..inputs }, spec);
    let events_by = index.hub_services_recovered_at();
    let events_by = events_by.map(|since| since.after(EVENTS_WITHIN));
    let events_by = events_by.filter(|until| inputs.now < *until);
    let is_lack = matches!(
        exposed.problem,
        Some(Problem::ServiceNotFound { .. } | Problem::PortNotFound { .. })
    );
    if is_lack && (failing.is_some() || events_by.is_some()) {
        exposed.is_unknown = true;
        exposed.problem = None;
        if matches!(exposed.state, State::Nothing) {
            exposed.state = State::Held;
        }
        exposed.again_at = events_by;
    }
    exposed
}

fn expose_at(inputs: Inputs<'_>, spec: &MultiClusterService) -> Exposed {
    let (index, key, now) = (inputs.index, inputs.key, inputs.now);
    if let Some(service) = index.hub_service(key) {
        return expose_ports(inputs, spec, service);
    }
    let lost = index.lost_service(key);
    let lost = lost.and_then(|lost| lost.service.as_ref());
    let held_until = match lost {
        Some((_, since)) => {
            let until = since.after(inputs.settings.service_grace);
            (now < until).then_some(until)
        }
        None => forgotten_until(inputs),
    };
    let problem = Problem::ServiceNotFound { held_until };
    match (held_until, lost) {
        (Some(_), Some((service, since))) => {
            // A port that was held when the Service went stays as long as the others.
            let at_loss = Inputs {
                now: *since,
                ..inputs
            };
            let exposed = expose_ports(at_loss, spec, service);
            if matches!(exposed.state, State::Nothing) {
                let problem = Problem::ServiceNotFound { held_until: None };
                return Exposed::nothing(State::Nothing, problem, None);
            }
            Exposed {
                problem: Some(problem),
                again_at: held_until,
                ..exposed
            }
        }
        (Some(_), None) => Exposed::nothing(State::Held, problem, held_until),
        (None, _) => Exposed::nothing(State::Nothing, problem, None),
    }
}

/// Returns the end of the grace period of a service that was exposed before this process started.
/// The time of its removal is unknown, so the period begins with the first list of the hub.
fn forgotten_until(inputs: Inputs<'_>) -> Option<TimePoint> {
    let since = inputs.index.hub_listed_since()?;
    let until = since.after(inputs.settings.service_grace);
    let until = until.after(inputs.index.hub_services_unwatched());
    (inputs.now < until && inputs.index.owns_native(inputs.key)).then_some(until)
}

fn expose_ports(inputs: Inputs<'_>, spec: &MultiClusterService, service: &ServiceView) -> Exposed {
    if service.is_external_name() {
        return Exposed::nothing(State::Held, Problem::ExternalName, None);
    }
    let live = service.ports();
    let missing: Vec<_> = spec.ports.missing_from(&live).cloned().collect();
    let mut ports = included(&spec.ports, &service.shape.ports);
    let held_until = hold(&mut ports, held_ports(inputs, service, &missing));
    // Services of other writers do not show what was exposed before this process started.
    let unknown_until = match ports.is_empty() {
        true => forgotten_until(inputs),
        false => None,
    };
    let problem = (!missing.is_empty()).then_some(Problem::PortNotFound {
        missing,
        has: live,
        held_until: held_until.or(unknown_until),
    });
    match problem {
        Some(problem) if ports.is_empty() => {
            let state = unknown_until.map_or(State::Nothing, |_| State::Held);
            Exposed::nothing(state, problem, unknown_until)
        }
        problem => Exposed {
            state: State::Service(service.clone().into()),
            ports,
            problem,
            again_at: held_until,
            is_unknown: false,
        },
    }
}

/// Returns the ports that stay exposed while entries are missing, each with the end of its grace
/// period: those that were lost, the newest first, and those that were exposed before this process
/// started.
fn held_ports(
    inputs: Inputs<'_>,
    service: &ServiceView,
    missing: &[ExposedPort],
) -> Vec<(PortShape, TimePoint)> {
    if missing.is_empty() {
        return Vec::new();
    }
    let grace = inputs.settings.service_grace;
    let lost = inputs.index.lost_service(inputs.key).into_iter();
    let lost = lost.flat_map(|lost| lost.ports.iter().rev());
    let lost = lost.map(|(shape, since)| (shape.clone(), since.after(grace)));
    let lost = lost.filter(|(_, until)| inputs.now < *until);
    lost.chain(forgotten_ports(inputs, service, missing))
        .collect()
}

/// Returns the ports that were exposed before this process started, as far as the Services in the
/// members show them: those of the missing entries, and those that the hub's Service has and may be
/// about to rename.
fn forgotten_ports(
    inputs: Inputs<'_>,
    service: &ServiceView,
    missing: &[ExposedPort],
) -> Vec<(PortShape, TimePoint)> {
    let Some(until) = forgotten_until(inputs) else {
        return Vec::new();
    };
    let (index, key) = (inputs.index, inputs.key);
    let services = index
        .members()
        .filter_map(|(_, member)| member.service(key));
    let own = services.filter(|service| service.is_delivered_by(index.hub_uid()));
    let ports = own.flat_map(|service| &service.shape.ports);
    let ports = ports.filter_map(|shape| {
        let is_missing = missing.iter().any(|entry| entry.means(&shape.port));
        let mut live = service.shape.ports.iter();
        let of_hub = live.find(|other| other.port.id == shape.port.id);
        is_missing.then_some(shape).or(of_hub)
    });
    ports.map(|shape| (shape.clone(), until)).collect()
}

/// Returns the exposed ports among the live ones, each (protocol, number) once.
fn included(exposed: &ExposedPorts, live: &[PortShape]) -> Vec<PortShape> {
    let mut ids = HashSet::default();
    let exposed = live.iter().filter(|shape| exposed.include(&shape.port));
    let exposed = exposed.filter(|shape| ids.insert(shape.port.id));
    exposed.cloned().collect()
}

/// Adds the held ports that an API server accepts in one Service with the others. Returns the end
/// of the first grace period of an added port.
fn hold(ports: &mut Vec<PortShape>, held: Vec<(PortShape, TimePoint)>) -> Option<TimePoint> {
    let mut ids: HashSet<_> = ports.iter().map(|shape| shape.port.id).collect();
    let mut names: HashSet<_> = ports.iter().map(|shape| shape.port.name.clone()).collect();
    let mut first = None;
    for (shape, until) in held {
        let ServicePort { id, name } = &shape.port;
        let are_named = !name.is_empty() && !names.contains("");
        if (are_named || ports.is_empty()) && !ids.contains(id) && !names.contains(name) {
            ids.insert(*id);
            names.insert(name.clone());
            ports.push(shape);
            first = first.into_iter().chain([until]).min();
        }
    }
    first
}

#[cfg(test)]
mod tests;
