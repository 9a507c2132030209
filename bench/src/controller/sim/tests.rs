use std::pin::pin;
use std::sync::Arc;

use causeway::api::Cluster;
use causeway::domain::protected::MEMBERS_NAMESPACE;
use causeway::target::Target;
use futures::StreamExt as _;
use http::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};
use serde_json::json;

use super::seed::{Shape, serve, serve_over_tls};
use super::services::ServiceSpec;
use super::simulation::Simulation;
use super::text::{SliceId, member_name, namespace, service_name};

/// Some services of the first member, each with a copy in the second.
async fn simulation() -> Simulation {
    let consumers: Arc<[u16]> = Arc::new([1]);
    let spec = ServiceSpec {
        provider: 0,
        slices: 1,
        endpoints: 3,
        consumers,
    };
    serve(Shape {
        members: 2,
        services: vec![spec; 7],
        dead: Vec::new(),
    })
    .await
    .unwrap()
}

fn client(simulation: &Simulation, member: usize) -> Client {
    causeway::process::kube_client::install_crypto_provider();
    let config = Config::new(simulation.member_url(member).parse().unwrap());
    Client::try_from(config).unwrap()
}

fn code<T: std::fmt::Debug>(answer: kube::Result<T>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_client_that_streams_its_list_is_sent_all_objects_the_end_of_them_and_then_the_changes() {
    let simulation = simulation().await;
    let slices: Api<EndpointSlice> = Api::all(client(&simulation, 0));
    let mut events = pin!(watcher(
        slices,
        watcher::Config::default().streaming_lists()
    ));
    let mut listed = 0;
    loop {
        match events.next().await.unwrap().unwrap() {
            Event::Init => {}
            Event::InitApply(_) => listed += 1,
            Event::InitDone => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(listed, 7);
    let id = SliceId {
        service: 4,
        slice: 0,
    };
    simulation.replace_pod(id);
    match events.next().await.unwrap().unwrap() {
        Event::Apply(slice) => assert_eq!(slice.metadata.name, Some(id.name())),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn pages_make_a_whole_list_and_a_watch_goes_on_where_it_ended() {
    let simulation = simulation().await;
    let slices: Api<EndpointSlice> = Api::all(client(&simulation, 1));
    let (mut names, mut token, mut version) = (Vec::new(), None, String::new());
    loop {
        let params = ListParams {
            limit: Some(3),
            continue_token: token,
            ..ListParams::default()
        };
        let page = slices.list(&params).await.unwrap();
        version = page.metadata.resource_version.unwrap_or(version);
        names.extend(
            page.items
                .into_iter()
                .filter_map(|slice| slice.metadata.name),
        );
        token = page.metadata.continue_;
        if token.is_none() {
            break;
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 7);
    let in_namespace: Api<EndpointSlice> = Api::namespaced(client(&simulation, 1), &namespace(2));
    let options = DeleteParams::default();
    let held = in_namespace.list(&ListParams::default()).await.unwrap();
    let name = held.items[0].metadata.name.clone().unwrap();
    in_namespace.delete(&name, &options).await.unwrap();
    let params = kube::api::WatchParams::default();
    let mut events = pin!(slices.watch(&params, &version).await.unwrap());
    match events.next().await.unwrap().unwrap() {
        kube::api::WatchEvent::Deleted(slice) => assert_eq!(slice.metadata.name, Some(name)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_write_of_another_version_or_of_nothing_is_refused_as_kubernetes_does() {
    let simulation = simulation().await;
    let services: Api<Service> = Api::namespaced(client(&simulation, 0), &namespace(1));
    let name = service_name(1);
    let mut known = services.get(&name).await.unwrap();
    let patch = |version: &str| {
        Patch::Merge(json!({"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}))
    };
    let params = PatchParams::default();
    let version = known.metadata.resource_version.clone().unwrap();
    let patched = services.patch(&name, &params, &patch(&version)).await;
    assert_eq!(patched.unwrap().metadata.labels.unwrap()["a"], "b");
    let again = services.patch(&name, &params, &patch(&version)).await;
    assert_eq!(code(again), 409);
    let put = PostParams::default();
    assert_eq!(code(services.replace(&name, &put, &known).await), 409);
    known.metadata = ObjectMeta {
        name: Some(name.clone()),
        ..ObjectMeta::default()
    };
    assert_eq!(code(services.create(&put, &known).await), 409);
    assert_eq!(code(services.get("none").await), 404);
    assert_eq!(simulation.journal.refusals(), 3);
}

#[tokio::test]
async fn members_are_reached_over_tls_as_their_clusters_say() {
    let shape = Shape {
        members: 1,
        services: Vec::new(),
        dead: Vec::new(),
    };
    let simulation = serve_over_tls(shape).await.unwrap();
    causeway::process::kube_client::install_crypto_provider();
    let hub = Config::new(simulation.hub_url().parse().unwrap());
    let hub = Client::try_from(hub).unwrap();
    let cluster = Api::<Cluster>::all(hub.clone())
        .get(&member_name(0))
        .await
        .unwrap();
    let secret = Api::<Secret>::namespaced(hub, MEMBERS_NAMESPACE);
    let secret = secret.get(&member_name(0)).await.unwrap();
    let (target, token) = Target::read(&cluster, &secret, false).unwrap();
    let mut member = target.config();
    member.headers.push((AUTHORIZATION, token.header()));
    let namespaces = Api::<Namespace>::all(Client::try_from(member).unwrap());
    namespaces.get("kube-system").await.unwrap();
}
