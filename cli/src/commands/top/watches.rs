//! Watches of the EndpointSlices of all members during a measurement. They are not those of
//! `observe::follow`, which lists all objects first (docs/decisions/0029).

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::Cluster;
use futures::stream::{BoxStream, StreamExt as _, select_all};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::time::{Instant, interval_at, sleep_until};

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::observe::connect::{self, ConnectError};
use crate::observe::pace;
use crate::term::progress::Progress;
use crate::views::top::activity::Activity;

type Events = BoxStream<'static, Result<EndpointSlice, RequestError>>;

/// Time by which a watch outlasts the measurement, which begins once every member is connected or
/// given up.
const MARGIN: Duration = Duration::from_secs(300);

/// Started watches by member, or the error of the start.
#[derive(Default)]
pub(super) struct Watches(BTreeMap<String, Result<Events, ConnectError>>);

/// Starts a watch of each member for a measurement of that interval, beginning with the current
/// resource version. Lists only one slice, to read that version.
pub(super) async fn start(
    hub: &ApiServer,
    clusters: &[Cluster],
    insecure: bool,
    interval: Duration,
) -> Watches {
    let lasting = interval.saturating_add(MARGIN);
    let watch = |member| watch(member, lasting);
    Watches(connect::read_each(hub, clusters.iter(), insecure, watch).await)
}

async fn watch(member: ApiServer, lasting: Duration) -> Result<Events, RequestError> {
    let slices = member.all::<EndpointSlice>();
    Ok(pace::from_now(&member, slices, lasting).await?.boxed())
}

impl Watches {
    /// Whether no member is watched.
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(Result::is_err)
    }

    /// Returns the members that are not watched, one line for each cause.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut causes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, watch) in &self.0 {
            if let Err(why) = watch {
                causes.entry(why.to_string()).or_default().push(name);
            }
        }
        let causes = causes.into_iter();
        causes
            .map(|(why, names)| format!("{} not watched: {why}", names.join(", ")))
            .collect()
    }

    /// Counts events in the members for the given duration. Returns the members whose watch broke
    /// as well.
    pub(super) async fn observe(self, hub: &str, interval: Duration) -> (Activity, Vec<String>) {
        let until = Instant::now() + interval;
        let second = Duration::from_secs(1);
        let seconds = usize::try_from(interval.as_secs()).unwrap_or(usize::MAX);
        let mut progress = Progress::new("measuring, seconds", seconds);
        let mut ticks = interval_at(Instant::now() + second, second);
        let begun = self.0.into_iter();
        let events = begun.filter_map(|(name, events)| Some((name, events.ok()?)));
        let events = events.map(|(name, events)| {
            let end = futures::stream::iter([None]);
            let events = events.map(Some).chain(end);
            events.map(move |event| (name.clone(), event)).boxed()
        });
        let mut events = select_all(events);
        let mut activity = Activity::default();
        let mut broken = Vec::new();
        loop {
            tokio::select! {
                Some((name, event)) = events.next() => match event {
                    Some(Ok(slice)) => {
                        activity.see(hub, &name, &slice, std::time::Instant::now());
                    }
                    Some(Err(_)) | None => broken.push(name),
                },
                _ = ticks.tick() => progress.step(),
                () = sleep_until(until) => break,
            }
        }
        broken.sort();
        broken.dedup();
        let broken = broken.iter();
        let broken =
            broken.map(|name| format!("{name} was not watched to the end: its watch broke"));
        (activity, broken.collect())
    }
}
