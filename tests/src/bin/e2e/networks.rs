//! A member of another network: its pods have no route to pods of other clusters, nor these to its
//! own. Real kube-proxies lead by node ports instead.

use std::convert::Infallible;
use std::time::Duration;

use causeway_tests::seen::Seen;
use causeway_tests::{Cluster, SOON, eventually};

use crate::Clusters;
use crate::processes::process;
use crate::workloads::{SHOP, Way, ask, deploy};

/// Member of the other network.
pub(crate) const APART: &str = "member2";

/// The way from the hub to that member.
pub(crate) const FROM_HUB: Way = Way {
    from: "hub",
    url: "http://baz.shop.svc.clusterset.local",
    answer: "baz of member2",
};

const WAYS: [Way; 4] = [
    Way {
        from: APART,
        url: "http://foo.shop",
        answer: "foo of hub",
    },
    Way {
        from: APART,
        url: "http://bar.shop.svc.clusterset.local",
        answer: "bar of member1",
    },
    FROM_HUB,
    Way {
        from: "member1",
        url: "http://baz.shop.svc.clusterset.local",
        answer: "baz of member2",
    },
];

/// Pods of `foo` serve for ten seconds after they leave the Service: as long as proxies may take.
const GRACE: &str = r#"{"spec": {"template": {"spec": {
    "terminationGracePeriodSeconds": 30,
    "containers": [{
        "name": "pod",
        "lifecycle": {"preStop": {"sleep": {"seconds": 10}}},
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    }]
}}}}"#;

/// A request follows an answer after so long.
const PAUSE: Duration = Duration::from_millis(20);

/// Joins the member with a network and a way, and has pods of both networks reach each other.
pub(crate) async fn reach_each_other(clusters: &Clusters) {
    let apart = clusters.fleet.member(APART);
    start_workloads(apart).await;
    no_route_to_pods(clusters, apart).await;
    for (cluster, file, network) in [
        ("hub", "config", ""),
        ("member1", "member1", ""),
        (APART, APART, "--network edge "),
    ] {
        let join = format!(
            "kubectl mcs join {cluster} --member-kubeconfig ~/.kube/{file} {network}--reach node-ports"
        );
        clusters.person.types(&join).await;
    }
    let consumers = r#"{"spec": {"consumerClusters": [{"name": "member1"}, {"name": "member2"}]}}"#;
    let patch = format!("kubectl patch mcs foo -n {SHOP} --type=merge -p '{consumers}'");
    clusters.person.types(&patch).await;
    for way in &WAYS {
        way.is_answered(clusters).await;
    }
    let explained = clusters
        .person
        .types("kubectl mcs explain foo -n shop")
        .await;
    let way = explained.lines().find(|line| line.contains("by node port"));
    let way = way.unwrap_or_else(|| panic!("it names no node port:\n{explained}"));
    clusters.did(&format!("kubectl mcs explain: {way}"));
    roll_out_fails_no_request(clusters, apart).await;
}

/// `baz` is exported.
async fn start_workloads(apart: &Cluster) {
    apart.kubectl(["create", "namespace", SHOP]).await.ok();
    deploy(apart, "client", &["pause"]).await;
    deploy(apart, "baz", &["serve", "baz of member2", ":8080"]).await;
    let expose = ["expose", "deployment", "baz", "-n", SHOP];
    let ports = ["--port=80", "--target-port=8080"];
    apart.kubectl(expose.into_iter().chain(ports)).await.ok();
    let exported = "apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: baz, namespace: shop}
";
    apart.apply(exported).await.ok();
}

async fn no_route_to_pods(clusters: &Clusters, apart: &Cluster) {
    for (of, app, from) in [
        (clusters.hub(), "foo", apart),
        (apart, "baz", clusters.member()),
    ] {
        let address = of_pod(of, app, "status.podIP").await;
        let asked = ask(from, &format!("http://{address}:8080")).await;
        assert!(asked.stderr.contains("dial tcp"), "{asked:?}");
        clusters.did(&format!(
            "a pod of {} does not reach {address}, a pod of {}",
            from.name(),
            of.name()
        ));
    }
}

/// Replaces all pods of `foo`, while a pod of the other network asks without a pause.
async fn roll_out_fails_no_request(clusters: &Clusters, apart: &Cluster) {
    let patch = format!("kubectl patch deployment foo -n {SHOP} -p '{GRACE}'");
    clusters.person.types(&patch).await;
    is_rolled_out(clusters).await;
    let client = process(&of_pod(apart, "client", "metadata.uid").await, "pod");
    // In the network and with the files of the pod: its own program, and its DNS.
    let request = format!("nsenter --target {client} --net --mount /pod get http://foo.shop");
    let mut seen = Seen::default();
    let requests = async {
        loop {
            let asked = seen.time(clusters.person.tries(&request)).await;
            if asked.stdout.trim() != "foo of hub" {
                seen.errors.push(format!("{asked:?}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let roll_out = async {
        let restart = format!("kubectl rollout restart -n {SHOP} deployment/foo");
        clusters.person.types(&restart).await;
        is_rolled_out(clusters).await;
    };
    let ended: Option<Infallible> = tokio::select! {
        never = requests => Some(never),
        () = roll_out => None,
    };
    assert!(ended.is_none() && seen.took.len() > 50, "{seen}");
    assert!(seen.errors.is_empty(), "{seen}: {:#?}", seen.errors);
    clusters.did(&format!(
        "roll-out of foo, asked for by a pod of {APART}: {seen}"
    ));
}

/// Waits until the pods of `foo` are all new, and the old ones are gone.
async fn is_rolled_out(clusters: &Clusters) {
    let status = format!("kubectl rollout status -n {SHOP} deployment/foo --timeout=180s");
    clusters.person.types(&status).await;
    eventually("the old pods of foo are gone", SOON, async || {
        let pods = clusters.get(&format!("pods -n {SHOP} -l app=foo")).await;
        let count = pods["items"].as_array().map_or(0, Vec::len);
        (count == 2).then_some(()).ok_or(count)
    })
    .await;
}

/// Returns a field of the first pod of that app.
async fn of_pod(cluster: &Cluster, app: &str, field: &str) -> String {
    let (label, path) = (
        format!("app={app}"),
        format!("jsonpath={{.items[0].{field}}}"),
    );
    let get = ["get", "pods", "-n", SHOP, "-l", &label, "-o", &path];
    cluster.kubectl(get).await.ok()
}
