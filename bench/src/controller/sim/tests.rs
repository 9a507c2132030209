use std::pin::pin;

use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};

use super::*;

#[tokio::test]
async fn kubes_watcher_lists_pages_and_then_receives_changes() {
    causeway::process::kube_client::install_crypto_provider();
    let services = ServiceSpec::new(0, [1]).times(7);
    let simulation = Simulation::serve(2, services, Access::Plain).await.unwrap();
    let config = Config::new(simulation.member_url(0).parse().unwrap());
    let slices: Api<EndpointSlice> = Api::all(Client::try_from(config).unwrap());
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
    let event = events.next().await.unwrap().unwrap();
    let name = Some(SliceId::first(4).name());
    assert!(matches!(event, Event::Apply(slice) if slice.metadata.name == name));
}
