//! Exposed part of the hub's Service, and the state that is held for a grace period after the
//! Service or a port is removed.

use std::time::Duration;

use causeway::domain::{ExposedPort, ExposedPorts, MultiClusterService, ServiceKey};

use super::inputs::Inputs;
use crate::model::TimePoint;
use crate::model::map::HashSet;
use crate::observed::Index;
use crate::observed::hub::Lost;
use crate::observed::service::{PortShape, ServiceView};
use crate::problem::Problem;

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
        }
    }
}

/// Decides which part of a service is exposed. A Service or port that the hub lost stays exposed
/// for the grace period: replacing a Service by force causes no outage.
pub(super) fn expose(inputs: Inputs<'_>, spec: &MultiClusterService) -> Exposed {
    let (index, key, now) = (inputs.index, inputs.key, inputs.now);
    let grace = inputs.settings.service_grace;
    let lost = index.lost_service(key);
    if let Some(service) = index.hub_service(key) {
        return expose_ports(inputs, spec, service);
    }
    if let Some((service, since)) = lost.and_then(|lost| lost.service.as_ref()) {
        let until = since.after(grace);
        if now < until {
            let ports = chosen(&spec.ports, &service.shape.ports, &[]);
            let problem = Some(Problem::ServiceNotFound {
                held_until: Some(until),
            });
            return Exposed {
                state: State::Service(service.clone().into()),
                ports,
                problem,
                again_at: Some(until),
            };
        }
        return Exposed::nothing(
            State::Nothing,
            Problem::ServiceNotFound { held_until: None },
            None,
        );
    }
    let held_until = forgotten_until(index, grace, key, now);
    let state = match held_until {
        Some(_) => State::Held,
        None => State::Nothing,
    };
    Exposed::nothing(state, Problem::ServiceNotFound { held_until }, held_until)
}

/// Returns the end of the grace period of a service that was exposed before this process started.
/// The time of its removal is unknown, so the period begins with the first list of the hub.
fn forgotten_until(
    index: &Index,
    grace: Duration,
    key: &ServiceKey,
    now: TimePoint,
) -> Option<TimePoint> {
    let until = index.hub_listed_since()?.after(grace);
    (now < until && index.owns_native(key)).then_some(until)
}

fn expose_ports(inputs: Inputs<'_>, spec: &MultiClusterService, service: &ServiceView) -> Exposed {
    let (index, key, now) = (inputs.index, inputs.key, inputs.now);
    let grace = inputs.settings.service_grace;
    if service.is_external_name() {
        return Exposed::nothing(State::Held, Problem::ExternalName, None);
    }
    let live = service.ports();
    let missing: Vec<_> = spec.ports.missing_from(&live).cloned().collect();
    let lost = index.lost_service(key);
    let mut held = held_ports(lost, &missing, grace, now);
    for entry in missing.iter().filter(|entry| !was_lost(lost, entry)) {
        held.extend(forgotten_ports(index, grace, key, entry, now));
    }
    let held_until = held.iter().map(|(_, until)| *until).min();
    let held: Vec<_> = held.into_iter().map(|(shape, _)| shape).collect();
    let ports = chosen(&spec.ports, &service.shape.ports, &held);
    let problem = (!missing.is_empty()).then_some(Problem::PortNotFound {
        missing,
        has: live,
        held_until,
    });
    match problem {
        Some(problem) if ports.is_empty() => Exposed::nothing(State::Nothing, problem, None),
        problem => Exposed {
            state: State::Service(service.clone().into()),
            ports,
            problem,
            again_at: held_until,
        },
    }
}

/// Returns the ports that the missing entries meant and that were lost less than `grace` ago, each
/// with the end of its grace period.
fn held_ports(
    lost: Option<&Lost>,
    missing: &[ExposedPort],
    grace: Duration,
    now: TimePoint,
) -> Vec<(PortShape, TimePoint)> {
    let all = lost.map(|lost| lost.ports.as_slice()).unwrap_or_default();
    let meant = all
        .iter()
        .filter(|(shape, _)| missing.iter().any(|entry| entry.means(&shape.port)));
    meant
        .map(|(shape, since)| (shape.clone(), since.after(grace)))
        .filter(|(_, until)| now < *until)
        .collect()
}

fn was_lost(lost: Option<&Lost>, entry: &ExposedPort) -> bool {
    lost.is_some_and(|lost| lost.ports.iter().any(|(shape, _)| entry.means(&shape.port)))
}

/// Returns the ports of an entry that were exposed before this process started, as the Services in
/// the members still have them.
fn forgotten_ports(
    index: &Index,
    grace: Duration,
    key: &ServiceKey,
    entry: &ExposedPort,
    now: TimePoint,
) -> Vec<(PortShape, TimePoint)> {
    let Some(until) = forgotten_until(index, grace, key, now) else {
        return Vec::new();
    };
    let services = index
        .members()
        .filter_map(|(_, member)| member.service(key));
    let own = services.filter(|service| service.is_delivered_by(index.hub_uid()));
    let ports = own.flat_map(|service| &service.shape.ports);
    ports
        .filter(|shape| entry.means(&shape.port))
        .map(|shape| (shape.clone(), until))
        .collect()
}

/// Returns the exposed ports among the live and the held ones, each (protocol, number) once.
fn chosen(exposed: &ExposedPorts, live: &[PortShape], held: &[PortShape]) -> Vec<PortShape> {
    let mut ids = HashSet::default();
    let included = live
        .iter()
        .chain(held)
        .filter(|shape| exposed.include(&shape.port));
    included
        .filter(|shape| ids.insert(shape.port.id))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests;
