//! Identity of the hub. Objects that causeway writes bear the hub's UID, so a process serves one
//! hub only: it ends when another one answers.

use std::time::Duration;

use causeway::api::ownership;
use causeway_engine::model::Failure;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::failure::Classify as _;
use crate::lookup::cluster_uid;

/// Interval of the requests. It is half of the time after which a second list confirms what the
/// lists of another hub lack.
pub const EVERY: Duration = Duration::from_secs(10);
/// Maximum time of a request.
const DEADLINE: Duration = Duration::from_secs(10);
const CLUSTER_CRD: &str = "clusters.cluster.karmada.io";

/// Facts about the hub that are needed before the first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub {
    /// The UID of its kube-system namespace.
    pub uid: String,
    /// Whether the definition of its Clusters is causeway's, and their status is causeway's to
    /// write.
    pub keeps_clusters: bool,
}

/// Another hub answers at the same address.
#[derive(Debug, Error)]
#[error(
    "the hub is another cluster now: its kube-system namespace had UID {before} and has {now}; what causeway wrote bears the old \
     UID: docs/troubleshooting.md#another-hub"
)]
pub struct AnotherHub {
    before: String,
    now: String,
}

impl Hub {
    /// Asks the hub.
    ///
    /// # Errors
    /// [`Failure`] where it does not answer, refuses, or has no identity.
    pub async fn get(client: &Client) -> Result<Self, Failure> {
        let about = |what: &'static str| {
            move |failure: Failure| Failure::quoting(failure.kind, what, &failure.to_string())
        };
        let uid = cluster_uid(client, DEADLINE).await;
        let uid = uid.map_err(about("namespace kube-system"))?;
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        let cluster = definitions.get_opt(CLUSTER_CRD).await;
        let cluster = cluster
            .classified()
            .map_err(about("the definition of Cluster"))?;
        let by_causeway =
            |crd: CustomResourceDefinition| ownership::is_own_definition(&crd.metadata);
        Ok(Self {
            uid,
            keeps_clusters: cluster.is_some_and(by_causeway),
        })
    }
}

/// Asks the hub again and again, and reports whether its Clusters are causeway's to keep.
///
/// # Errors
/// [`AnotherHub`] as soon as another hub answers.
pub async fn follow(
    client: Client,
    uid: String,
    keeps_clusters: watch::Sender<bool>,
    every: Duration,
) -> Result<(), AnotherHub> {
    loop {
        sleep(every).await;
        // The watches report that it does not answer.
        let Ok(Ok(hub)) = timeout(DEADLINE, Hub::get(&client)).await else {
            continue;
        };
        if hub.uid != uid {
            return Err(AnotherHub {
                before: uid,
                now: hub.uid,
            });
        }
        keeps_clusters
            .send_if_modified(|keeps| std::mem::replace(keeps, hub.keeps_clusters) != *keeps);
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;

    use super::*;
    use crate::watch::tests::http::{self, Received};

    async fn answer(asked: Received, uid: &str, is_ours: bool) {
        let labels = match is_ours {
            true => format!(r#"{{"{}":"{}"}}"#, labels::MANAGED_BY, labels::MANAGER),
            false => "{}".to_owned(),
        };
        let body = match asked.path.ends_with("/kube-system") {
            true => format!(r#"{{"metadata":{{"name":"kube-system","uid":"{uid}"}}}}"#),
            false => format!(
                r#"{{"metadata":{{"name":"{CLUSTER_CRD}","labels":{labels}}},"spec":{{"group":"cluster.karmada.io",
                    "names":{{"kind":"Cluster","plural":"clusters"}},"scope":"Cluster","versions":[]}}}}"#
            ),
        };
        asked.answer(200, &body).await;
    }

    #[tokio::test]
    async fn hub_with_another_uid_ends_the_process() {
        let (client, mut requests, accepting) = http::listen().await;
        let (keeps, mut kept) = watch::channel(false);
        let following = follow(client, "one".to_owned(), keeps, Duration::from_millis(1));
        let following = tokio::spawn(following);
        let asked = requests.recv().await.expect("a request");
        asked.refuse(503, "Unavailable", "starting").await;
        for is_ours in [false, true, true] {
            for _ in 0..2 {
                let asked = requests.recv().await.expect("a request");
                answer(asked, "one", is_ours).await;
            }
        }
        kept.changed().await.expect("it is asked again");
        assert!(*kept.borrow());
        assert!(!following.is_finished(), "the same hub answers");
        for _ in 0..2 {
            let asked = requests.recv().await.expect("a request");
            answer(asked, "two", true).await;
        }
        let another = following.await.expect("no panic").expect_err("another hub");
        assert_eq!((&*another.before, &*another.now), ("one", "two"));
        accepting.abort();
    }
}
