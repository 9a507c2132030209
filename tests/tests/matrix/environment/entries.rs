//! Services of providers that a member of another network reaches by node ports.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::labels;
use causeway_tests::causeway::Installation;
use causeway_tests::eventually::eventually;
use causeway_tests::{Space, node};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::{Environment, PODS, Route};

impl Environment {
    /// Puts the last member into a network of its own. Each provider that it reaches gets nodes,
    /// one more than a service has pods.
    pub(super) async fn part_networks(&mut self, installation: &Installation) {
        let entered = self.routes.iter().filter(|route| route.is_entered);
        for Route {
            provider, consumer, ..
        } in entered
        {
            let member = self.fleet.member(provider);
            for number in 0..=PODS {
                let (name, address) = (format!("{provider}-{number}"), member.fresh_pod_ip());
                node(&name).address(&address).create(member).await;
                self.nodes.insert(name, address);
            }
            let rights = installation.manifest("member/networks.yaml");
            member.kubectl(["apply", "-f", &rights]).await.ok();
            for (cluster, annotation) in [
                (provider, format!("{}=node-ports", labels::REACH)),
                (consumer, format!("{}=far", labels::NETWORK)),
            ] {
                self.annotate(cluster, &annotation).await;
            }
        }
    }

    /// Returns a node of the provider without a pod of the service; its usual node where the
    /// consumer reaches pods.
    pub(super) fn free_node(&self, route: usize) -> String {
        let Route {
            name,
            provider,
            is_entered,
            ..
        } = &self.routes[route];
        if !is_entered {
            return self.fleet.member(provider).node_name();
        }
        let pods = self.backends.get(name).into_iter().flatten();
        let taken: BTreeSet<&str> = pods.map(|pod| pod.node()).collect();
        let mut names = (0..=PODS).map(|number| format!("{provider}-{number}"));
        let free = names.find(|name| !taken.contains(&**name));
        free.expect("a node more than pods")
    }

    /// Returns the UID of the companion of each service.
    pub(super) async fn companions(&self) -> Vec<Option<String>> {
        let mut all = Vec::new();
        for route in 0..self.routes.len() {
            all.push(self.companion(route).await);
        }
        all
    }

    /// Returns the UID of the companion of a service.
    pub(super) async fn companion(&self, route: usize) -> Option<String> {
        let companion = self.companion_service(route).await?;
        companion.uid()
    }

    async fn companion_service(&self, route: usize) -> Option<Service> {
        let Route {
            name,
            provider,
            is_entered,
            ..
        } = &self.routes[route];
        let space = Space::existing(&self.fleet, &self.space);
        let services = space.api::<Service>(self.fleet.member(provider));
        if !is_entered {
            return None;
        }
        let list = ListParams::default();
        let what = format!("the Services of {provider} are listed");
        let listed = eventually(&what, super::HEALED, async || services.list(&list).await).await;
        let mut companions = listed.items.into_iter().filter(|service| {
            let of = service.annotations().get(labels::COMPANION_OF);
            of.map(String::as_str) == Some(name)
        });
        let found = companions.next();
        assert!(companions.next().is_none(), "{name} has two companions");
        found
    }

    /// Waits until the consumer reaches the provider at the node port of the companion.
    pub(super) async fn enters(&self, route: usize, within: Duration) {
        let Route {
            name,
            consumer,
            is_entered,
            ..
        } = &self.routes[route];
        if !is_entered {
            return;
        }
        let space = Space::existing(&self.fleet, &self.space);
        let what = format!("{consumer} reaches {name} at a node port");
        eventually(&what, within, async || {
            let companion = self.companion_service(route).await;
            let ports = companion.and_then(|service| service.spec?.ports);
            let node_ports = ports.iter().flatten().map(|port| port.node_port);
            let node_ports: BTreeSet<_> = node_ports.collect();
            let slices = space.slices(self.fleet.member(consumer), name).await;
            let ports = slices.iter().flat_map(|slice| slice.ports.iter().flatten());
            let ports: BTreeSet<_> = ports.map(|port| port.port).collect();
            match ports == node_ports && !ports.is_empty() {
                true => Ok(()),
                false => Err(format!("{ports:?}, not {node_ports:?}")),
            }
        })
        .await;
    }
}
