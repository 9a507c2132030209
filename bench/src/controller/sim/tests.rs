use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};

use super::slices::service_name;
use super::*;

/// Serves some services of the first member, and returns a client of it.
async fn simulation() -> (Simulation, Client) {
    causeway::process::kube_client::install_crypto_provider();
    let services = ServiceSpec::new(0, [1]).times(7);
    let simulation = Simulation::serve(2, services, Access::Plain).await.unwrap();
    let config = Config::new(simulation.member_url(0).parse().unwrap());
    (simulation, Client::try_from(config).unwrap())
}

#[tokio::test]
async fn kubes_watcher_lists_pages_and_then_receives_changes() {
    let (simulation, client) = simulation().await;
    let slices: Api<EndpointSlice> = Api::all(client);
    let config = watcher::Config::default().page_size(3);
    let mut events = pin!(watcher(slices, config));
    let mut listed = 0;
    loop {
        match events.next().await.unwrap().unwrap() {
            Event::InitApply(_) => listed += 1,
            Event::InitDone => break,
            _ => {}
        }
    }
    assert_eq!(listed, 7);
    simulation.replace_pod(4);
    match events.next().await.unwrap().unwrap() {
        Event::Apply(slice) => assert_eq!(slice.metadata.name, Some(SliceId::first(4).name())),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn write_of_another_version_is_refused() {
    let (simulation, client) = simulation().await;
    let services: Api<Service> = Api::namespaced(client, &namespace(1));
    let code = |answer: kube::Result<Service>| match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    };
    let name = service_name(1);
    let mut known = services.get(&name).await.unwrap();
    let version = known.metadata.resource_version.clone();
    let metadata = json!({"resourceVersion": version, "labels": {"a": "b"}});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let params = PatchParams::default();
    let patched = services.patch(&name, &params, &patch).await;
    assert_eq!(patched.unwrap().metadata.labels.unwrap()["a"], "b");
    assert_eq!(code(services.patch(&name, &params, &patch).await), 409);
    let put = PostParams::default();
    assert_eq!(code(services.replace(&name, &put, &known).await), 409);
    known.metadata = ObjectMeta {
        name: Some(name.clone()),
        ..ObjectMeta::default()
    };
    let replaced = services.replace(&name, &put, &known).await.unwrap();
    assert_ne!(replaced.metadata.resource_version, version);
    assert_eq!(code(services.create(&put, &known).await), 409);
    assert_eq!(code(services.get("none").await), 404);
    assert_eq!(simulation.journal.refusals(), 3);
}
