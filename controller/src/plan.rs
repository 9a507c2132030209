//! What every cluster should hold for one service: a pure function of what is known.

pub mod cluster;
pub mod clusterset;
pub mod copy;
pub mod exposure;
pub mod placement;
pub mod service;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::condition::reason;
use causeway::domain::protected::Protection;
use causeway::domain::{ClusterName, ExposureType, MultiClusterService, ServiceKey};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use self::copy::{Held, WantedCopy};
use self::exposure::Exposed;
use self::placement::{Placement, Roles};
use self::service::ServiceWish;
use crate::index::Index;
use crate::index::hub::McsView;

/// What the controller was started with, as far as planning is concerned.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces that are left alone.
    pub protection: Protection,
    /// How long the last state is held when the hub's Service, or an exposed port of it, goes away.
    pub service_grace: Duration,
}

/// What should be, for one service.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// What the members should hold.
    pub members: Members,
    /// What is wrong on the hub's side.
    pub problem: Option<Problem>,
    /// Who provides, who consumes, and who takes no part.
    pub placement: Placement,
    /// When time alone will change the plan.
    pub again_at: Option<Timestamp>,
}

/// What the members should hold for one service.
#[derive(Clone, Debug, Default)]
pub enum Members {
    /// Whatever they hold now.
    #[default]
    Untouched,
    /// This, and in a member that is not listed nothing.
    Wanted(BTreeMap<ClusterName, MemberWish>),
}

/// What one member should hold for one service.
#[derive(Clone, Debug)]
pub struct MemberWish {
    /// The Service.
    pub service: ServiceWish,
    /// The copies, by name.
    pub copies: BTreeMap<Arc<str>, WantedCopy>,
    /// The copies that stay as they are.
    pub held: Held,
    /// Why the member cannot be served as asked, for a person.
    pub trouble: Option<String>,
}

/// What is wrong on the hub's side: the reason and message of ServiceApplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// What is wrong and what to do, for a person.
    pub message: String,
}

/// Plans one service.
pub fn plan(index: &Index, settings: &Settings, key: &ServiceKey, now: Timestamp) -> Desired {
    let Some(mcs) = index
        .hub
        .multi_cluster_services
        .get(key)
        .filter(|mcs| !mcs.deleting)
    else {
        return Desired {
            members: Members::Wanted(BTreeMap::new()),
            ..Desired::default()
        };
    };
    if let Some(problem) = left_alone(index, settings, key) {
        return Desired {
            problem: Some(problem),
            ..Desired::default()
        };
    }
    match &mcs.wish {
        Err(errors) => {
            let problem = Problem {
                reason: reason::SERVICE_APPLIED_FAILED,
                message: errors.to_string(),
            };
            Desired {
                problem: Some(problem),
                ..Desired::default()
            }
        }
        Ok(wish) => match wish.exposure {
            ExposureType::CrossCluster => cross_cluster(index, settings, key, mcs, wish, now),
            ExposureType::LoadBalancer => Desired {
                members: Members::Wanted(BTreeMap::new()),
                placement: placement::place(index, wish),
                ..Desired::default()
            },
        },
    }
}

/// Why causeway must not touch the service, if so.
fn left_alone(index: &Index, settings: &Settings, key: &ServiceKey) -> Option<Problem> {
    if let Err(protected) = settings.protection.check(&key.namespace, &key.name) {
        return Some(Problem {
            reason: reason::SERVICE_APPLIED_FAILED,
            message: protected.to_string(),
        });
    }
    if index
        .hub
        .karmada_works
        .get(key)
        .copied()
        .unwrap_or_default()
    {
        let message = "Karmada's own controllers carry this service (there are Works of it); causeway leaves it alone";
        return Some(Problem {
            reason: reason::MANAGED_BY_KARMADA,
            message: message.to_owned(),
        });
    }
    None
}

fn cross_cluster(
    index: &Index,
    settings: &Settings,
    key: &ServiceKey,
    mcs: &McsView,
    wish: &MultiClusterService,
    now: Timestamp,
) -> Desired {
    let placement = placement::place(index, wish);
    let exposed = exposure::expose(index, settings.service_grace, key, wish, now);
    let members = match &exposed.state {
        exposure::State::Held => Members::Untouched,
        exposure::State::Nothing => Members::Wanted(BTreeMap::new()),
        exposure::State::Service(_) => {
            Members::Wanted(wishes(index, key, mcs, &placement, &exposed))
        }
    };
    Desired {
        members,
        problem: exposed.problem,
        placement,
        again_at: exposed.again_at,
    }
}

fn wishes(
    index: &Index,
    key: &ServiceKey,
    mcs: &McsView,
    placement: &Placement,
    exposed: &Exposed,
) -> BTreeMap<ClusterName, MemberWish> {
    let owner = format!("MultiClusterService/{}", mcs.uid);
    let exposure::State::Service(hub_service) = &exposed.state else {
        return BTreeMap::new();
    };
    let origin = copy::Origin {
        hub: &index.hub.uid,
        owner: &owner,
        key,
    };
    let targets = placement.targets.iter();
    let staying = targets.filter(|(name, _)| !index.hub.is_leaving(name));
    let wish = |(name, roles): (&ClusterName, &Roles)| {
        let member = index.members.get(name)?;
        let service = service::wish(
            member.service(key),
            &index.hub.uid,
            hub_service,
            &exposed.ports,
            roles.provider,
            &owner,
            member.identity.as_ref().map(|identity| identity.release),
        );
        let observed = member.service(key);
        let (ports, trouble) = service.ports_offered(observed, key, &exposed.ports);
        let consumer = copy::Consumer {
            name,
            ports: &ports,
            traffic_distribution: service.traffic_distribution(observed),
        };
        let (copies, held) = if roles.consumer {
            copy::copies(index, &origin, &consumer, placement, exposed)
        } else {
            Default::default()
        };
        let wish = MemberWish {
            service,
            copies,
            held,
            trouble,
        };
        Some((name.clone(), wish))
    };
    staying.filter_map(wish).collect()
}

/// A point in time that lies a `Duration` after another.
pub fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
