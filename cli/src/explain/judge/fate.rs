//! What became of one endpoint in one consumer.

use causeway::api::{condition, labels};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;

use super::super::ports;
use super::super::ranges;
use super::super::report::{Fate, Finding, Path, Reason};
use super::super::scene::{has, is_ready};
use super::karmada;
use super::plan::{Plan, is_external_name};

/// An endpoint of a provider's slice, and a consumer.
pub(super) struct Question<'a> {
    pub plan: &'a Plan<'a>,
    pub provider: &'a str,
    pub consumer: &'a str,
    pub slice: &'a EndpointSlice,
    pub endpoint: &'a Endpoint,
    /// Why nothing of the provider is used.
    pub obstacle: Option<&'a Finding>,
}

impl Question<'_> {
    pub(super) fn fate(&self) -> Fate {
        let (provider, consumer) = (self.provider, self.consumer);
        if provider == consumer && self.plan.path == Path::Native {
            let finding = Finding::new(Reason::Own, format!("{consumer} has it itself"));
            return self.there(Some(self.slice), finding);
        }
        let karmadas = karmada::slice_with(self.plan, provider, consumer, self.endpoint);
        let copy = copy(self.plan, provider, consumer, self.endpoint);
        match (copy, karmadas) {
            (Some(copy), None) => self.there(Some(copy), self.of_copy(copy)),
            (Some(copy), Some(_)) if !self.plan.of_karmada => {
                self.there(Some(copy), self.of_copy(copy))
            }
            (_, Some(slice)) => self.there(Some(slice), self.of_karmadas(slice)),
            (None, None) => Fate {
                cluster: consumer.to_owned(),
                there: false,
                slice: None,
                finding: self.why_missing(),
            },
        }
    }

    fn there(&self, slice: Option<&EndpointSlice>, finding: Finding) -> Fate {
        Fate {
            cluster: self.consumer.to_owned(),
            there: true,
            slice: slice.map(EndpointSlice::name_any),
            finding,
        }
    }

    /// What is to be said of an endpoint that only Karmada's slice holds.
    fn of_karmadas(&self, slice: &EndpointSlice) -> Finding {
        let (consumer, provider) = (self.consumer, self.provider);
        let mut endpoints = slice.endpoints.iter();
        let known = endpoints.find(|one| one.addresses == self.endpoint.addresses);
        let ready = is_ready(self.endpoint);
        if !ready {
            return self.unready();
        }
        if known.map(is_ready) != Some(ready) {
            let message = format!(
                "{consumer} has it by Karmada's EndpointSlice {}, as it was before it was ready in {provider}",
                slice.name_any()
            );
            return Finding::new(Reason::NotDispatchedByKarmada, message)
                .mend(self.plan.scene.adopt());
        }
        Finding::new(
            Reason::CopiedByKarmada,
            format!("{consumer} has it by Karmada's EndpointSlice"),
        )
    }

    fn unready(&self) -> Finding {
        let (consumer, provider) = (self.consumer, self.provider);
        let message = format!("{consumer} has it; it gets no traffic there, for it is not ready");
        Finding::new(Reason::NotReady, message).mend(format!(
            "in {provider}: kubectl -n {} get pods",
            self.plan.scene.key.namespace
        ))
    }

    /// What is to be said of an endpoint that is there.
    fn of_copy(&self, copy: &EndpointSlice) -> Finding {
        let (provider, consumer) = (self.provider, self.consumer);
        let known = copy
            .endpoints
            .iter()
            .find(|one| one.addresses == self.endpoint.addresses);
        let ready = is_ready(self.endpoint);
        match self.obstacle {
            Some(obstacle) if obstacle.reason == Reason::MemberUnreachable => {
                return kept_from(provider, consumer);
            }
            Some(obstacle) => {
                let message = format!("{consumer} still has it, though {}", obstacle.message);
                return Finding::new(Reason::UnderWay, message).mend(self.wait());
            }
            None => {}
        }
        if known.map(is_ready) != Some(ready) && self.is_older(copy) {
            let message =
                format!("{consumer} has it as it was before the last change in {provider}");
            return Finding::new(Reason::UnderWay, message).mend(self.wait());
        }
        // A port of an import leads to those clusters alone that expose it.
        let matters = |port: &Finding| {
            self.plan.path == Path::Native || port.reason != Reason::PortNotInProvider
        };
        if let Some(port) = self.missing_ports().0.into_iter().find(matters) {
            return port;
        }
        if ready {
            return Finding::new(Reason::Copied, format!("{consumer} has it"));
        }
        self.unready()
    }

    fn why_missing(&self) -> Finding {
        let plan = self.plan;
        plan.obstacle
            .clone()
            .or_else(|| self.obstacle.cloned())
            .or_else(|| self.of_slice())
            .or_else(|| self.of_address())
            .or_else(|| self.of_consumer())
            .or_else(|| self.of_ports())
            .or_else(|| karmada::not_dispatched(self.plan, self.consumer))
            .unwrap_or_else(|| self.under_way())
    }

    /// A Service of somebody else is in the way only if it takes none of the ports.
    fn of_consumer(&self) -> Option<Finding> {
        let obstacle = self.plan.consumer_obstacle(self.consumer)?;
        let held = self.plan.scene.held(self.consumer);
        let service = held.and_then(|held| held.service(&self.plan.service));
        let blocks = obstacle.reason != Reason::ForeignService
            || service.is_some_and(is_external_name)
            || self.missing_ports().1;
        blocks.then_some(obstacle)
    }

    fn of_slice(&self) -> Option<Finding> {
        let (provider, slice) = (self.provider, self.slice);
        let is_carried = slice.address_type == "IPv4" || slice.address_type == "IPv6";
        (!is_carried).then(|| {
            let message = format!(
                "EndpointSlice {} of {provider} holds {} addresses, which are not carried",
                slice.name_any(),
                slice.address_type
            );
            Finding::new(Reason::AddressTypeNotCarried, message)
        })
    }

    fn of_address(&self) -> Option<Finding> {
        let scene = self.plan.scene;
        let cluster = scene.cluster(self.provider)?;
        let mut addresses = self.endpoint.addresses.iter();
        addresses.find_map(|address| ranges::refusal(address, cluster, &scene.clusters))
    }

    /// Why none of its ports is carried.
    fn of_ports(&self) -> Option<Finding> {
        let (missing, none) = self.missing_ports();
        missing.into_iter().next().filter(|_| none)
    }

    fn missing_ports(&self) -> (Vec<Finding>, bool) {
        let scene = self.plan.scene;
        let service = |cluster: &str, name: &str| scene.held(cluster)?.service(name);
        let own = service(self.provider, &scene.key.name);
        let theirs = service(self.consumer, &self.plan.service);
        let (Some(own), Some(theirs)) = (own, theirs) else {
            return (Vec::new(), false);
        };
        let wanted = ports::Wanted {
            exposed: &self.plan.exposed,
            provider: (self.provider, own),
            consumer: (self.consumer, theirs),
        };
        ports::missing(scene, &wanted, self.slice)
    }

    fn under_way(&self) -> Finding {
        let (provider, consumer) = (self.provider, self.consumer);
        let held = self.plan.scene.held(consumer).into_iter();
        let mut copies =
            held.flat_map(|held| self.plan.scene.copies(held, &self.plan.service, provider));
        let older = copies.any(|copy| self.is_older(copy) && self.is_copy_of(copy));
        let message = if older {
            format!("{consumer} has a copy of an older version of this EndpointSlice of {provider}")
        } else {
            format!("nothing that is seen stands in the way, and {consumer} has no copy of it yet")
        };
        let told = self.told().unwrap_or_default();
        Finding::new(Reason::UnderWay, format!("{message}{told}")).mend(self.wait())
    }

    /// What the controller says of the service, or of the export: also what it does not carry.
    fn told(&self) -> Option<String> {
        let scene = self.plan.scene;
        let told = match self.plan.path {
            Path::Native => scene.told()?,
            Path::Clusterset => {
                let mut exports = scene.held(self.provider)?.exports.iter();
                let export = exports.find(|export| scene.is_a_persons(*export))?;
                let conditions = &export.status.as_ref()?.conditions;
                let ready = condition::find(conditions, condition::READY)?;
                format!("{} ({})", ready.reason, ready.message)
            }
        };
        Some(format!("; the controller says {told}"))
    }

    fn wait(&self) -> String {
        let key = &self.plan.scene.key;
        format!(
            "wait a moment; if it stays: kubectl mcs status {} -n {}, and the log of causeway-controller",
            key.name, key.namespace
        )
    }

    /// The source that a copy names: UID and resourceVersion.
    fn source(copy: &EndpointSlice) -> Option<(&str, &str)> {
        copy.annotations().get(labels::SOURCE)?.split_once('/')
    }

    fn is_copy_of(&self, copy: &EndpointSlice) -> bool {
        let own = self.slice.metadata.uid.as_deref();
        Self::source(copy).map(|(uid, _)| uid) == own
    }

    fn is_older(&self, copy: &EndpointSlice) -> bool {
        let own = self.slice.metadata.resource_version.as_deref();
        Self::source(copy).map(|(_, version)| version) != own || !self.is_copy_of(copy)
    }
}

/// What a consumer holds of a provider that cannot be read.
pub(super) fn kept(
    plan: &Plan<'_>,
    provider: &str,
    consumer: &str,
    endpoint: &Endpoint,
    obstacle: Option<&Finding>,
) -> Fate {
    let copy = copy(plan, provider, consumer, endpoint);
    let drained = obstacle.filter(|one| one.reason == Reason::Drained);
    let finding = match (copy, drained) {
        (Some(_), None) => kept_from(provider, consumer),
        (Some(_), Some(drained)) => {
            let message = format!("{consumer} still has it, though {}", drained.message);
            Finding::new(Reason::UnderWay, message)
        }
        (None, _) => plan
            .obstacle
            .clone()
            .or_else(|| plan.consumer_obstacle(consumer))
            .or_else(|| obstacle.cloned())
            .unwrap_or_else(|| {
                Finding::new(Reason::UnderWay, format!("{consumer} has no copy of it"))
            }),
    };
    Fate {
        cluster: consumer.to_owned(),
        there: copy.is_some(),
        slice: copy.map(EndpointSlice::name_any),
        finding,
    }
}

fn kept_from(provider: &str, consumer: &str) -> Finding {
    let message = format!("{consumer} keeps what {provider} gave last");
    Finding::new(Reason::Kept, message)
}

fn copy<'a>(
    plan: &'a Plan<'_>,
    provider: &'a str,
    consumer: &str,
    endpoint: &Endpoint,
) -> Option<&'a EndpointSlice> {
    let held = plan.scene.held(consumer)?;
    let mut copies = plan.scene.copies(held, &plan.service, provider);
    copies.find(|copy| has(copy, endpoint))
}
