//! A client on a cluster's node that sends requests all the time, each on a connection of its own,
//! and repeats none.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use causeway_tests::reaper::{Process, Program};
use causeway_tests::seen::Seen;
use causeway_tests::{Cluster, Fleet, SOON, eventually};

/// Sends requests until the file is there, and prints when each began and ended, and what came of
/// it. The ports that it sends them from are its own, as far as they go.
const REQUESTS: &str = r#"
export LC_ALL=C
port=$2
while [ ! -e "$1" ]; do
  from=; [ $port -ge $3 ] || from="--local-port $((port++))"
  begun=$EPOCHREALTIME
  if answer=$(curl -sS --fail --max-time 3 $from "$0" 2>&1); then came=answer; else came=failure; fi
  echo "$begun $EPOCHREALTIME $came $answer"
done
"#;

/// A client that has begun. Dropping it ends it.
pub(super) struct Client {
    process: Process,
    enough: PathBuf,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) begun: SystemTime,
    pub(super) ended: SystemTime,
    /// Answer, or the reason why there is none.
    pub(super) answer: Result<String, String>,
}

impl Client {
    /// Begins to send requests from the node of a cluster.
    pub(super) fn start(fleet: &Fleet, cluster: &Cluster, url: &str) -> Self {
        Self::start_from(fleet, cluster, url, 0..0)
    }

    /// The same, each from another of these ports as long as there are any. The node's kernel
    /// remembers for two minutes where a connection went that nobody answered, and sends another
    /// from the same port after it.
    pub(super) fn start_from(
        fleet: &Fleet,
        cluster: &Cluster,
        url: &str,
        ports: Range<u16>,
    ) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("client-")
            .tempdir_in(cluster.directory())
            .expect("a directory for a client")
            .keep();
        let enough = directory.join("enough");
        let namespace = cluster.network_namespace().expect("a fleet with packets");
        let script = Program::new("bash", directory.join("requests"))
            .args(["-c", REQUESTS, url])
            .arg(enough.display().to_string())
            .args([ports.start.to_string(), ports.end.to_string()])
            .in_network(namespace);
        Self {
            process: fleet.reaper().run(script),
            enough,
        }
    }

    /// The requests that have ended.
    pub(super) fn so_far(&self) -> Vec<Request> {
        let text = std::fs::read_to_string(self.process.log()).unwrap_or_default();
        // The last line may not be whole.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().filter_map(Request::read).collect()
    }

    /// Has it end its last request, and returns all.
    pub(super) async fn stop(self) -> Vec<Request> {
        std::fs::write(&self.enough, "").expect("a file");
        self.process.exited(SOON).await;
        self.so_far()
    }

    /// Waits until a request that began since is answered by one of these.
    pub(super) async fn answered_by(&self, pods: &[String], since: SystemTime) -> Request {
        let what = format!("one of {pods:?} answers");
        eventually(&what, SOON, || async {
            let requests = self.so_far();
            let is_one = |request: &Request| {
                let answer = request.answer.as_ref();
                request.begun >= since && answer.is_ok_and(|answer| pods.contains(answer))
            };
            let last = requests.last().cloned();
            let found = requests.into_iter().find(is_one);
            found.ok_or_else(|| format!("{last:?}"))
        })
        .await
    }
}

impl Request {
    /// `1763860000.123456 1763860000.234567 answer pod foo in member1`
    fn read(line: &str) -> Option<Self> {
        let mut words = line.splitn(4, ' ');
        let mut time = || {
            let seconds = words.next()?.parse().ok()?;
            let since = Duration::try_from_secs_f64(seconds).ok()?;
            Some(SystemTime::UNIX_EPOCH + since)
        };
        let (begun, ended) = (time()?, time()?);
        let is_answer = words.next()? == "answer";
        let text = words.next().unwrap_or_default().to_owned();
        let answer = if is_answer { Ok(text) } else { Err(text) };
        Some(Self {
            begun,
            ended,
            answer,
        })
    }

    pub(super) fn failed(&self) -> bool {
        self.answer.is_err()
    }

    pub(super) fn took(&self) -> Duration {
        seconds_between(self.begun, self.ended)
    }
}

/// Some requests, in a line for a person.
pub(super) fn seen(requests: &[Request]) -> Seen {
    Seen {
        took: requests.iter().map(Request::took).collect(),
        errors: requests
            .iter()
            .filter_map(|request| request.answer.clone().err())
            .collect(),
    }
}

/// Returns the number of requests that these pods answered.
pub(super) fn answers_of(requests: &[Request], pods: &[String]) -> usize {
    let answers = requests.iter().filter_map(|one| one.answer.as_ref().ok());
    answers.filter(|answer| pods.contains(answer)).count()
}

/// The time from one moment to a later one.
pub(super) fn seconds_between(one: SystemTime, other: SystemTime) -> Duration {
    other.duration_since(one).unwrap_or_default()
}

/// Sends that many requests from a cluster's node, one after the other, each over a separate
/// connection, and returns the answers.
///
/// # Errors
/// Why the first was not answered that was not.
pub(super) async fn sample(
    cluster: &Cluster,
    url: &str,
    count: usize,
) -> Result<BTreeMap<String, usize>, String> {
    let urls = format!("{url}/?[1-{count}]");
    let each = [
        "-sS",
        "--fail",
        "--max-time",
        "3",
        "-H",
        "Connection: close",
    ];
    let output = cluster
        .exec("curl", each.into_iter().chain([urls.as_str()]))
        .await;
    let mut answers = BTreeMap::new();
    for answer in output.stdout.lines() {
        *answers.entry(answer.trim().to_owned()).or_default() += 1;
    }
    let answered: usize = answers.values().sum();
    if answered == count {
        return Ok(answers);
    }
    let failure = output.stderr.lines().next().unwrap_or_default();
    Err(format!("{} of {count} failed: {failure}", count - answered))
}

#[test]
fn what_a_client_prints_is_read() {
    let line = "1763860000.5 1763860001.25 answer pod foo-1 in member1";
    let request = Request::read(line).expect("a request");
    assert_eq!(request.took(), Duration::from_millis(750));
    assert_eq!(request.answer, Ok("pod foo-1 in member1".to_owned()));
    let line = "1763860000.5 1763860003.5 failure curl: (28) Connection timed out";
    let request = Request::read(line).expect("a request");
    assert_eq!(
        request.answer,
        Err("curl: (28) Connection timed out".to_owned())
    );
    assert!(Request::read("1763860000.5 17638").is_none());
}
