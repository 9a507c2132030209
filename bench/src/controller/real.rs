//! CPU of a real API server for a start of the controller, beside a list of the same slices.

use causeway_tests::{Fleet, Installation};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::PostParams;

use super::environment::Subject;
use super::pages;
use super::sim::ServiceSpec;
use super::sim::slices::{self, Encoding, SliceId};
use super::start::{ENDPOINTS, SLICES};
use crate::machine;
use crate::pairs::Pairs;
use crate::report::Row;

pub(super) async fn measure(quick: bool) -> anyhow::Result<Vec<Row>> {
    let (services, rounds) = if quick { (3, 1) } else { (200, 5) };
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let member = fleet.member("member1");
    let controller = || Subject(installation.controller().start_unready());
    // A member is joined once the controller has engaged it.
    let engaged = controller();
    installation.join(member).await;
    engaged.synced(1).await?;
    engaged.end().await;
    let space = fleet.space("bench").await;
    create(&space.api(member), services).await?;
    let cpu = || anyhow::Ok(machine::cpu_time(member.api_server().pid())?.as_secs_f64());
    let (mut pairs, mut listed) = (Pairs::default(), (0, 0));
    // The first round warms up.
    for round in 0..=rounds {
        let before = cpu()?;
        listed = pages::list(&member.client()).await?;
        let list = cpu()? - before;
        let controller = controller();
        controller.synced(1).await?;
        let start = cpu()? - before - list;
        controller.end().await;
        if round > 0 {
            pairs.note(list, start);
        }
    }
    let (count, bytes) = listed;
    let name = |what: &str| format!("a real API server, {count} slices: {what}");
    Ok(vec![
        pairs.row(name("CPU of a start, beside a list"), "s"),
        Row::new(name("sent, protobuf"), bytes as f64 / 1e6, "MB"),
    ])
}

/// Creates slices as the imitated API servers have them, without an owner.
async fn create(api: &Api<EndpointSlice>, services: u32) -> anyhow::Result<()> {
    const AT_ONCE: usize = 16;
    let spec = ServiceSpec::new(0, []).slices(SLICES, ENDPOINTS);
    let ids = (0..services).flat_map(|service| {
        let slices = 0..SLICES;
        slices.map(move |slice| SliceId { service, slice })
    });
    let created = stream::iter(ids).map(async |id| {
        let text = slices::source(id, &spec, 0, 0).encode(Encoding::Json);
        let mut slice: EndpointSlice = serde_json::from_slice(&text)?;
        let metadata = std::mem::take(&mut slice.metadata);
        slice.metadata.name = metadata.name;
        slice.metadata.labels = metadata.labels;
        anyhow::Ok(drop(api.create(&PostParams::default(), &slice).await?))
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}
