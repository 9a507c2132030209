//! Lists and watches of an API server, and pauses between attempts.

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use futures::{Stream, StreamExt as _};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::DynamicResourceScope;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Error, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::cluster::api_server::{ApiServer, RequestError, root_cause};

/// Pause before another look at a kind that is not served or forbidden.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Age of a connection after which the next one begins at once.
const LASTED: Duration = Duration::from_secs(10);
/// Interval between two probes.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// Maximum time of a probe.
const PROBE_WITHIN: Duration = Duration::from_secs(3);
/// First pause before the next attempt at an unreachable API server. The pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Maximum number of objects that a list and the watch after it may have.
const OBJECTS_MAX: usize = 250_000;

/// Kind of the Multi-Cluster Services API: ServiceExport or ServiceImport.
pub(crate) trait ClustersetKind:
    Resource<DynamicType = Version, Scope = DynamicResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + 'static
{
}

impl ClustersetKind for ServiceExport {}
impl ClustersetKind for ServiceImport {}

/// Error of a watch.
#[derive(Debug)]
pub(crate) struct Broken {
    pub why: RequestError,
    /// Whether a list failed.
    pub unlisted: bool,
}

impl Broken {
    fn new(server: &ApiServer, error: Error) -> Self {
        let unlisted = matches!(error, Error::InitialListFailed(_));
        let why = match error {
            Error::InitialListFailed(error)
            | Error::WatchStartFailed(error)
            | Error::WatchFailed(error) => server.failure(&error),
            Error::WatchError(status) => server.failure(&kube::Error::Api(status)),
            error @ Error::NoResourceVersion => server.unreachable(root_cause(&error)),
        };
        Self { why, unlisted }
    }
}

/// Pace of the connections to one API server. A broken connection older than [`LASTED`] is renewed
/// once before its end is reported, unless the API server does not respond.
pub(super) struct Pace {
    next_pause: Duration,
    begun: Instant,
    is_renewed: bool,
}

impl Pace {
    /// Returns the pace before the first connection.
    pub(super) fn new() -> Self {
        Self {
            next_pause: FIRST_PAUSE,
            begun: Instant::now(),
            is_renewed: false,
        }
    }

    /// Records the begin of a connection.
    pub(super) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// Records the end of a connection. Returns the error unless the connection is renewed first.
    pub(super) fn end<E>(&mut self, ended: Ended<E>) -> Option<E> {
        let has_lasted = self.begun.elapsed() > LASTED;
        if has_lasted {
            self.next_pause = FIRST_PAUSE;
        }
        let is_renewed = std::mem::take(&mut self.is_renewed);
        match ended {
            Ended::Broken(_) if has_lasted && !is_renewed => {
                self.is_renewed = true;
                None
            }
            Ended::Broken(why) | Ended::Silent(why) => Some(why),
        }
    }

    /// Waits for the next attempt.
    pub(super) async fn pause(&mut self) {
        sleep(self.grow()).await;
    }

    /// Returns the next pause, and doubles the one after it.
    fn grow(&mut self) -> Duration {
        let longer = (self.next_pause * 2).min(LONGEST_PAUSE);
        std::mem::replace(&mut self.next_pause, longer)
    }
}

/// End of a connection.
pub(super) enum Ended<E> {
    /// The attempt failed, or a watch broke.
    Broken(E),
    /// A probe failed.
    Silent(E),
}

/// Probes the API server every 2 seconds and returns the first failure. A watch alone does not
/// reveal an API server that hangs.
pub(super) async fn probe<F>(server: &ApiServer, probe: impl Fn() -> F) -> RequestError
where
    F: Future<Output = Result<(), RequestError>>,
{
    loop {
        sleep(PROBE_EVERY).await;
        match tokio::time::timeout(PROBE_WITHIN, probe()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => {
                let why = format!("no answer within {} s", PROBE_WITHIN.as_secs());
                return server.unreachable(why);
            }
        }
    }
}

/// Lists and watches the objects of one kind. A broken watch restarts after a growing pause, if the
/// caller continues to poll the stream.
pub(crate) fn events<K>(
    server: &ApiServer,
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<K>, Broken>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let server = server.clone();
    let events = watcher(api, config).default_backoff();
    let mut received = 0;
    events.filter_map(move |event| {
        ready(match event {
            Ok(event) if is_beyond(&mut received, &event) => Some(Err(Broken {
                why: RequestError::TooMany {
                    side: server.side,
                    message: format!("more than {OBJECTS_MAX} objects of one kind"),
                },
                unlisted: true,
            })),
            Ok(event) => Some(Ok(
                event.modify(|object| object.managed_fields_mut().clear())
            )),
            // The resource version is expired: the watcher lists again by itself.
            Err(Error::WatchError(status)) if status.code == 410 => None,
            Err(error) => Some(Err(Broken::new(&server, error))),
        })
    })
}

/// Calls `follow` again after 10 seconds for as long as only the watch is refused. The last list
/// counts meanwhile: the user may list the kind.
pub(super) async fn relisting<F: Future<Output = Broken>>(follow: impl Fn() -> F) -> Broken {
    loop {
        let broken = follow().await;
        if broken.unlisted || !broken.why.is_missing_right() {
            return broken;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Counts the objects since the begin of the last list. Returns true if there are too many.
fn is_beyond<K>(received: &mut usize, event: &Event<K>) -> bool {
    match event {
        Event::Init => *received = 0,
        Event::InitApply(_) | Event::Apply(_) => *received += 1,
        Event::InitDone | Event::Delete(_) => {}
    }
    *received > OBJECTS_MAX
}

/// Returns the watch of the objects that a field selector matches, or of all objects.
pub(crate) fn selected(fields: Option<String>) -> watcher::Config {
    watcher::Config {
        field_selector: fields,
        ..watcher::Config::default()
    }
}

/// Watches the objects of one kind from now on, for at most `lasting`: by default kube-client asks
/// for 290 seconds. Lists one object to learn the resource version. The stream ends with the watch.
///
/// # Errors
/// [`RequestError`] if the watch cannot begin.
pub(crate) async fn from_now<K>(
    server: &ApiServer,
    api: Api<K>,
    lasting: Duration,
) -> Result<impl Stream<Item = Result<K, RequestError>> + Send + use<K>, RequestError>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let one = ListParams::default().limit(1);
    let list = server.request(api.list_metadata(&one)).await?;
    let version = list.metadata.resource_version.unwrap_or_default();
    let seconds = u32::try_from(lasting.as_secs()).unwrap_or(u32::MAX);
    let parameters = WatchParams::default().timeout(seconds);
    let events = server.request(api.watch(&parameters, &version)).await?;
    let server = server.clone();
    Ok(events.filter_map(move |event| {
        ready(match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))
            | Ok(WatchEvent::Deleted(object)) => Some(Ok(object)),
            Ok(WatchEvent::Bookmark(_)) => None,
            Ok(WatchEvent::Error(status)) => Some(Err(server.failure(&kube::Error::Api(status)))),
            Err(error) => Some(Err(server.failure(&error))),
        })
    }))
}

/// Returns the newest version of the Multi-Cluster Services API in which the API server serves the
/// kind. `None` if the API server serves no version.
///
/// # Errors
/// [`RequestError`] if the API server does not respond.
pub(crate) async fn served<K: ClustersetKind>(
    server: &ApiServer,
) -> Result<Option<Version>, RequestError> {
    for version in Version::ALL {
        let plural = K::plural(&version);
        if server.serves(&version.api_version(), &plural).await? {
            return Ok(Some(version));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointSlice;

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::answering;

    #[tokio::test]
    async fn watch_from_now_lasts_as_long_as_requested() {
        let (sender, requests) = std::sync::mpsc::channel();
        let server = answering(Side::Member, move |request| {
            sender.send(request.uri().to_string()).expect("a receiver");
            let list = r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#;
            (200, list)
        });
        let lasting = Duration::from_secs(600);
        let watch = from_now(&server, server.all::<EndpointSlice>(), lasting).await;
        watch.map(drop).expect("a watch");
        let requests: Vec<_> = requests.try_iter().collect();
        let watch = requests.last().expect("a request");
        assert!(watch.contains("watch=true&timeoutSeconds=600"), "{watch}");
    }

    fn lasted(pace: &mut Pace) {
        let long_ago = Instant::now().checked_sub(LASTED * 2);
        pace.begun = long_ago.expect("a machine that runs for a while");
    }

    #[test]
    fn pauses_grow_to_the_longest_and_begin_again_after_a_success() {
        let mut pace = Pace::new();
        let first: Vec<_> = (0..5).map(|_| pace.grow().as_millis()).collect();
        assert_eq!(first, [250, 500, 1000, 2000, 2000]);
        lasted(&mut pace);
        pace.end(Ended::Silent("it has lasted"));
        assert_eq!(pace.grow().as_millis(), 250);
    }

    #[test]
    fn objects_of_one_list_and_its_watch_are_bounded() {
        let mut received = 0;
        let mut is_beyond = |event| is_beyond(&mut received, &event);
        for _ in 0..OBJECTS_MAX - 1 {
            assert!(!is_beyond(Event::InitApply(())));
        }
        assert!(!is_beyond(Event::InitDone));
        assert!(!is_beyond(Event::Apply(())));
        assert!(is_beyond(Event::Apply(())));
        assert!(is_beyond(Event::Delete(())));
        assert!(!is_beyond(Event::Init));
    }

    #[test]
    fn lasting_connection_is_renewed_once_before_its_end_counts() {
        let mut pace = Pace::new();
        assert_eq!(pace.end(Ended::Broken("young")), Some("young"));
        lasted(&mut pace);
        assert_eq!(pace.end(Ended::Broken("renewed")), None);
        lasted(&mut pace);
        assert_eq!(pace.end(Ended::Broken("again")), Some("again"));
        lasted(&mut pace);
        assert_eq!(pace.end(Ended::Silent("silent")), Some("silent"));
    }
}
