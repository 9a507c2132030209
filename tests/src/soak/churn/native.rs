//! MultiClusterServices and the Services that they are named after.

use causeway::api::{ClusterSelector, ExposurePort, MultiClusterService, labels};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::networks::reach;
use super::{Churn, EXPORTED, NATIVE};
use crate::fixtures::ServiceFixture;
use crate::soak::random::Random;
use crate::soak::snapshot::is_balanced;
use crate::write::{delete, merge};
use crate::{Fleet, Space, multi_cluster_service, service};

/// The ports that every such Service has. One more comes and goes, and is never named.
const PORTS: [(&str, u16, u16); 2] = [("http", 80, 8080), ("metrics", 9090, 9090)];

/// The service that members have by themselves, with the first of these ports at least: no other is
/// exposed of it.
const SHARED: &str = EXPORTED[0];

/// Values of the annotation `prefer`.
const PREFERENCES: [Option<&str>; 5] = [
    None,
    Some("local, any"),
    Some("cluster/member1, local, any"),
    Some("cluster/member2, cluster/member1"),
    Some("local, cluster/member3"),
];

/// A service that is exposed.
#[derive(Clone, Copy)]
pub(super) struct Exposed {
    headless: bool,
    more: bool,
    /// Whether it is of type LoadBalancer.
    balanced: bool,
}

impl Exposed {
    fn service(self, name: &str) -> ServiceFixture {
        let all = PORTS
            .into_iter()
            .chain(self.more.then_some(("more", 7070, 7070)));
        let fixture = all.fold(service(name), |fixture, (port, number, target)| {
            fixture.port_to(port, number, target)
        });
        if self.headless {
            fixture.headless()
        } else {
            fixture
        }
    }
}

impl Churn {
    pub(super) async fn native(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let (namespace, name) = (self.somewhere(random), *random.of(&NATIVE));
        let space = Space::existing(fleet, namespace);
        let key = (namespace.to_owned(), name.to_owned());
        let objects = space.api::<MultiClusterService>(fleet.hub());
        let services = space.api::<Service>(fleet.hub());
        let Some(exposed) = self.exposed.get(&(namespace, name)).copied() else {
            if self.leaving.contains(&key) {
                return "nothing".to_owned();
            }
            self.touch(namespace, name);
            return self.expose(&space, name, random).await;
        };
        self.touch(namespace, name);
        if self.networks.is_some() && random.once_in(8) {
            let way = reach(&objects, name, random).await;
            return format!("{namespace}/{name} {way}");
        }
        if exposed.balanced && self.has_entries && random.once_in(2) {
            return self.balance(fleet, (namespace, name), random).await;
        }
        match random.below(7) {
            0 => {
                delete(&objects, name).await;
                delete(&services, name).await;
                self.exposed.remove(&(namespace, name));
                self.leaving.insert(key);
                format!("{namespace}/{name} is not exposed any more")
            }
            1 => {
                delete(&services, name).await;
                exposed.service(name).create(fleet.hub(), &space).await;
                format!("the Service of {namespace}/{name} is replaced by force")
            }
            2 => {
                let more = !exposed.more;
                let exposed = Exposed { more, ..exposed };
                let spec = exposed.service(name).object().spec.unwrap_or_default();
                merge(&services, name, json!({ "spec": { "ports": spec.ports } })).await;
                self.exposed.insert((namespace, name), exposed);
                format!("the Service of {namespace}/{name} has one port more: {more}")
            }
            3 => {
                let ports = some_ports(name, random);
                merge(&objects, name, json!({ "spec": { "ports": ports } })).await;
                format!("{namespace}/{name} exposes {ports:?}")
            }
            4 | 5 if self.prefers && !exposed.headless => {
                let preference = prefer(&objects, name, random).await;
                format!("{namespace}/{name} {preference}")
            }
            _ => {
                let (providers, consumers) = (self.placed(random), self.placed(random));
                let consumers = self.consumers(exposed, consumers);
                let spec = json!({ "providerClusters": providers, "consumerClusters": consumers });
                merge(&objects, name, json!({ "spec": spec })).await;
                format!("{namespace}/{name}: from {providers:?} to {consumers:?}")
            }
        }
    }

    async fn expose(
        &mut self,
        space: &Space<'_>,
        name: &'static str,
        random: &mut Random,
    ) -> String {
        let exposed = Exposed {
            headless: random.once_in(5) && name != SHARED,
            more: false,
            balanced: random.once_in(if self.has_entries { 3 } else { 8 }),
        };
        let type_ = match exposed.balanced {
            true => "LoadBalancer",
            false => "CrossCluster",
        };
        let (ports, providers, consumers) = (
            some_ports(name, random),
            self.placed(random),
            self.consumers(exposed, self.placed(random)),
        );
        let object = multi_cluster_service(name).type_(type_).with(|spec| {
            spec.ports.clone_from(&ports);
            spec.provider_clusters.clone_from(&providers);
            spec.consumer_clusters.clone_from(&consumers);
        });
        exposed
            .service(name)
            .create(space.fleet().hub(), space)
            .await;
        object.create(space).await;
        let namespace = super::NAMESPACES
            .into_iter()
            .find(|known| *known == space.name());
        self.exposed
            .insert((namespace.expect("a namespace of these"), name), exposed);
        format!(
            "{}/{name} is exposed as {type_} (headless: {}), {ports:?}, from {providers:?} to {consumers:?}",
            space.name(),
            exposed.headless
        )
    }

    /// Returns the consumers that a service names: none for type LoadBalancer without entry
    /// clusters.
    fn consumers(&self, of: Exposed, placed: Vec<ClusterSelector>) -> Vec<ClusterSelector> {
        match of.balanced && !self.has_entries {
            true => Vec::new(),
            false => placed,
        }
    }

    /// The load balancers of entry clusters give new addresses, or take theirs away.
    async fn balance(
        &self,
        fleet: &Fleet,
        (namespace, name): (&str, &str),
        random: &mut Random,
    ) -> String {
        let space = Space::existing(fleet, namespace);
        let mut said = format!("load balancers of {namespace}/{name}:");
        for member in self.members_with(namespace) {
            let cluster = fleet.member(member);
            let address = (!random.once_in(4)).then(|| cluster.fresh_pod_ip());
            if balance(&space.api(cluster), name, address.as_deref()).await {
                said.push_str(&format!(" {member} has {address:?}"));
            }
        }
        said
    }

    fn placed(&self, random: &mut Random) -> Vec<ClusterSelector> {
        let names = random.some(&self.members).into_iter();
        names
            .map(|name| ClusterSelector {
                name: name.to_owned(),
            })
            .collect()
    }
}

/// Has the load balancer of a Service give that address, or none. Returns whether the Service is
/// there and of type LoadBalancer.
pub(in crate::soak) async fn balance(
    services: &Api<Service>,
    name: &str,
    address: Option<&str>,
) -> bool {
    let found = services.get_opt(name).await;
    let found = found.unwrap_or_else(|e| panic!("cannot read {name}: {e}"));
    if !found.as_ref().is_some_and(is_balanced) {
        return false;
    }
    let ingress: Vec<_> = address.iter().map(|ip| json!({ "ip": ip })).collect();
    let status = Patch::Merge(json!({ "status": { "loadBalancer": { "ingress": ingress } } }));
    let params = PatchParams::default();
    match services.patch_status(name, &params, &status).await {
        // The controller may have deleted it, or changed its type.
        Err(kube::Error::Api(status)) if [404, 422].contains(&status.code) => false,
        Err(e) => panic!("cannot change the status of {name}: {e}"),
        Ok(_) => true,
    }
}

fn some_ports(name: &str, random: &mut Random) -> Vec<ExposurePort> {
    let chosen = if name == SHARED {
        PORTS[..1].to_vec()
    } else {
        random.some(&PORTS)
    };
    let mut ports = Vec::new();
    for (name, number, _) in chosen {
        // A number alone means the same.
        let name = random.once_in(2).then(|| name.to_owned());
        ports.push(ExposurePort {
            name,
            port: number.into(),
        });
    }
    ports
}

/// Sets a random preference in the annotations of an object, or removes it. Returns it in words.
pub(super) async fn prefer<K>(api: &Api<K>, name: &str, random: &mut Random) -> String
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let preference = *random.of(&PREFERENCES);
    let least = preference.and(random.once_in(2).then_some("50%"));
    let annotations = json!({ labels::PREFER: preference, labels::MIN_READY: least });
    merge(
        api,
        name,
        json!({ "metadata": { "annotations": annotations } }),
    )
    .await;
    format!("prefers {preference:?}, at least {least:?} ready")
}
