//! Slices that people make, and what they delete that is not theirs.

use causeway::api::labels;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Churn, NATIVE};
use crate::soak::random::Random;
use crate::soak::snapshot::{annotation, is_balanced, label};
use crate::{Fleet, Space};

impl Churn {
    /// A slice made by hand, or it goes.
    pub(super) async fn slices(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let namespace = self.somewhere(random);
        let members = self.members_with(namespace);
        let (name, member) = (*random.of(&NATIVE), *random.of(&members));
        self.touch(namespace, name);
        let (cluster, slice) = (fleet.member(member), format!("{name}-by-hand"));
        let place = (namespace, name, member);
        if self.by_hand.remove(&place) {
            let slices = Space::existing(fleet, namespace).api::<EndpointSlice>(cluster);
            let deleted = slices.delete(&slice, &DeleteParams::default()).await;
            deleted.unwrap_or_else(|e| panic!("cannot delete {slice}: {e}"));
            return format!("the slice {namespace}/{slice} of {member} is gone");
        }
        let address = cluster.fresh_pod_ip();
        let object = format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
             metadata: {{name: {slice}, namespace: {namespace}, labels: {{{}: {name}}}}}\n\
             endpoints: [{{addresses: [{address}], conditions: {{ready: true}}}}]\n\
             ports: [{{name: http, port: 8080}}]\n",
            labels::SERVICE_NAME
        );
        cluster.apply(&object).await.ok();
        self.by_hand.insert(place);
        format!("a slice {namespace}/{slice} of {member} is made")
    }

    /// Somebody applies over a Service that was delivered to a member, or deletes what they
    /// applied. One of type LoadBalancer would remain with an address that belongs to nobody's
    /// request.
    pub(super) async fn claim(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let namespace = self.somewhere(random);
        let (name, member) = (
            *random.of(&NATIVE),
            *random.of(&self.members_with(namespace)),
        );
        let space = Space::existing(fleet, namespace);
        let services = space.api::<Service>(fleet.member(member));
        let place = (namespace, name, member);
        if self.claimed.remove(&place) {
            self.touch(namespace, name);
            let deleted = services.delete(name, &DeleteParams::default()).await;
            deleted.unwrap_or_else(|e| panic!("cannot delete {name}: {e}"));
            return format!(
                "the Service {namespace}/{name} that somebody applied in {member} is gone"
            );
        }
        let delivered = services.get_opt(name).await;
        let delivered = delivered.unwrap_or_else(|e| panic!("cannot read {name}: {e}"));
        let delivered = delivered.filter(|service| {
            label(service, labels::MANAGED_BY) == labels::MANAGER
                && !is_balanced(service)
                && service.metadata.deletion_timestamp.is_none()
        });
        let Some(spec) = delivered.and_then(|service| service.spec) else {
            return "nothing".to_owned();
        };
        self.touch(namespace, name);
        let applied = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": spec.ports, "selector": spec.selector, "clusterIP": spec.cluster_ip},
        });
        let params = PatchParams::apply("somebody").force();
        let applied = services.patch(name, &params, &Patch::Apply(applied)).await;
        applied.unwrap_or_else(|e| panic!("cannot apply {name}: {e}"));
        self.claimed.insert(place);
        format!("somebody applies over the Service {namespace}/{name} in {member}")
    }

    /// Somebody deletes an object of causeway's in a member.
    pub(super) async fn vandalise(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let namespace = self.somewhere(random);
        let member = *random.of(&self.members_with(namespace));
        let (cluster, space) = (fleet.member(member), Space::existing(fleet, namespace));
        let gone = match random.below(3) {
            0 => one_of(&space.api::<Service>(cluster), random).await,
            1 => one_of(&space.api::<EndpointSlice>(cluster), random).await,
            _ => one_of(&space.imports(cluster), random).await,
        };
        let Some((name, service)) = gone else {
            return "nothing".to_owned();
        };
        self.touch(
            namespace,
            service.strip_prefix("derived-").unwrap_or(&service),
        );
        format!("somebody deletes {namespace}/{name} in {member}")
    }
}

/// Deletes one of causeway's objects; gives its name and that of the Service that it is about.
async fn one_of<K>(api: &Api<K>, random: &mut Random) -> Option<(String, String)>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let ours = format!("{}={}", labels::MANAGED_BY, labels::MANAGER);
    let list = api.list(&ListParams::default().labels(&ours)).await;
    let all = list.unwrap_or_else(|e| panic!("cannot list: {e}")).items;
    if all.is_empty() {
        return None;
    }
    let chosen = random.of(&all);
    let name = chosen.name_any();
    let service = match label(chosen, labels::SERVICE_NAME) {
        "" => {
            let of = annotation(chosen.meta(), labels::COMPANION_OF);
            of.unwrap_or(&name).to_owned()
        }
        service => service.to_owned(),
    };
    match api.delete(&name, &DeleteParams::default()).await {
        // The controller may have been faster.
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        deleted => {
            deleted.unwrap_or_else(|e| panic!("cannot delete {name}: {e}"));
            Some((name, service))
        }
    }
}
