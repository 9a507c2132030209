//! A hub with three members, causeway at work, and Karmada's definitions from the start; shared by all tests but those of the imitation
//! itself. Each test has a Karmada of its own, which sees nothing but the test's namespace.

use std::time::Duration;

use causeway_tests::causeway::{Environment, Installation};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::karmada::Observer;
use causeway_tests::kubectl::Output;
use causeway_tests::{Cluster, Fleet, Karmada, Space, eventually, multi_cluster_service, service};
use k8s_openapi::api::core::v1::Service;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Long enough for what is looked at every 15 s.
pub(crate) const NOTICED: Duration = Duration::from_secs(60);

/// A label of everything that causeway keeps in members.
pub(crate) const HUB: &str = "mcs.causeway.dev/hub";

async fn env() -> &'static Environment {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    ENVIRONMENT
        .get_or_init(async || {
            let fleet = Fleet::builder().members(3).start().await;
            Karmada::install(&fleet).await;
            let env = Environment::of(fleet).await;
            let known = [
                "wait",
                "--for=condition=Ready",
                "--all",
                "clusters",
                "--timeout=60s",
            ];
            env.fleet.hub().kubectl(known).await.ok();
            env
        })
        .await
}

/// One test's namespace and its Karmada, and words for what tests here do again and again.
pub(crate) struct Stage {
    pub(crate) karmada: Karmada,
    pub(crate) space: Space<'static>,
    installation: &'static Installation,
    /// Held until Karmada has ended.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Stage {
    /// For a test that may set the feature gate on: one at a time, for `adopt` looks at the Works of all services to tell whether it is. It is
    /// off to begin with.
    pub(crate) async fn set(prefix: &str) -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        Self {
            _turn: Some(turn),
            ..Self::without_gate(prefix).await
        }
    }

    /// For a test that leaves the feature gate off.
    pub(crate) async fn without_gate(prefix: &str) -> Self {
        let env = env().await;
        let space = env.fleet.space(prefix).await;
        Self {
            karmada: Karmada::within(&space),
            space,
            installation: &env.installation,
            _turn: None,
        }
    }

    pub(crate) fn hub(&self) -> &'static Cluster {
        self.space.fleet().hub()
    }

    pub(crate) fn member(&self, number: u8) -> &'static Cluster {
        self.space.fleet().member(&format!("member{number}"))
    }

    /// Service foo on the hub, port 80.
    pub(crate) async fn service(&self) {
        service("foo")
            .port("http", 80)
            .create(self.hub(), &self.space)
            .await;
    }

    /// foo, provided by member1 and consumed by member2.
    pub(crate) async fn carry(&self) {
        let mcs = multi_cluster_service("foo")
            .providers(["member1"])
            .consumers(["member2"]);
        mcs.create(&self.space).await;
    }

    /// Pods of foo in member1.
    pub(crate) async fn pods(&self, count: usize) -> Vec<RunningPod> {
        self.space
            .backends("foo")
            .count(count)
            .create(self.member(1))
            .await
    }

    /// Waits until the member has exactly these ready endpoints, each once.
    pub(crate) async fn reaches(&self, member: u8, pods: &[RunningPod]) {
        let mut expected: Vec<_> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
        expected.sort();
        let member = self.member(member);
        eventually(
            &format!("{} has {expected:?}", member.name()),
            NOTICED,
            async || {
                let ready = self.space.ready_addresses(member, "foo").await;
                (ready == expected)
                    .then_some(())
                    .ok_or(format!("{ready:?}"))
            },
        )
        .await;
    }

    /// Waits until Ready of foo begins with `status|reason|`, and gives its message.
    pub(crate) async fn says(&self, expected: &str) -> String {
        let path = "-o=jsonpath={range .status.conditions[?(@.type==\"Ready\")]}{.status}|{.reason}|{.message}{end}";
        let get = ["get", "mcs", "foo", "-n", self.space.name(), path];
        eventually(&format!("Ready says {expected}"), NOTICED, async || {
            let seen = self.hub().kubectl(get).await.stdout;
            seen.strip_prefix(expected).map(str::to_owned).ok_or(seen)
        })
        .await
    }

    /// The Service of a member.
    pub(crate) async fn service_of(&self, member: u8) -> Service {
        let services = self.space.api::<Service>(self.member(member));
        services.get("foo").await.expect("Service foo")
    }

    /// The objects of a member that bear causeway's label.
    pub(crate) async fn own_objects(&self, member: u8) -> Vec<String> {
        let own = format!(
            "-l={HUB},endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io"
        );
        let get = [
            "get",
            "services,endpointslices",
            &own,
            "-o",
            "name",
            "-n",
            self.space.name(),
        ];
        let output = self.member(member).kubectl(get).await.ok();
        output.lines().map(str::to_owned).collect()
    }

    /// The objects of the namespace in a member, of every kind that it serves, on which something of causeway's is found. Events
    /// are a record of the past.
    pub(crate) async fn marked(&self, member: u8) -> Vec<String> {
        let member = self.member(member);
        let kinds = ["api-resources", "--namespaced", "--verbs=list", "-o=name"];
        let kinds = member.kubectl(kinds).await.ok();
        let kinds = kinds.lines().filter(|kind| !kind.starts_with("events"));
        let kinds = kinds.collect::<Vec<_>>().join(",");
        let get = ["get", &kinds, "-o=json", "-n", self.space.name()];
        let listed = member.kubectl(get).await.ok();
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        let objects = listed["items"].as_array().expect("a list");
        assert!(!objects.is_empty(), "nothing in {}", member.name());
        let marked = objects.iter().filter(|object| {
            let managed_by = &object["metadata"]["labels"]["app.kubernetes.io/managed-by"];
            managed_by == "causeway" || object.to_string().contains("mcs.causeway.dev")
        });
        let reported = marked.map(|object| {
            let (kind, meta) = (&object["kind"], &object["metadata"]);
            let (labels, annotations) = (&meta["labels"], &meta["annotations"]);
            format!("{kind} {}: {labels} {annotations}", meta["name"])
        });
        reported.collect()
    }

    /// Waits until no object of the namespace in any member has anything of causeway's.
    pub(crate) async fn nothing_is_marked(&self) {
        for number in [1, 2, 3] {
            let what = format!("nothing in member{number} bears a mark of causeway");
            eventually(&what, NOTICED, async || {
                let marked = self.marked(number).await;
                marked.is_empty().then_some(()).ok_or(marked.join("\n"))
            })
            .await;
        }
    }

    /// Waits until no slice of the member bears causeway's label.
    pub(crate) async fn gives_way(&self, member: u8) {
        eventually("causeway's copies give way", NOTICED, async || {
            let own = self.own_objects(member).await;
            let slices = own.iter().any(|one| one.starts_with("endpointslice"));
            (!slices).then_some(()).ok_or(format!("{own:?}"))
        })
        .await;
    }

    /// Waits until Karmada's slices alone serve the member.
    pub(crate) async fn is_karmadas(&self, member: u8, pods: &[RunningPod]) {
        self.gives_way(member).await;
        self.reaches(member, pods).await;
    }

    /// `kubectl mcs COMMAND ... -n NAMESPACE`.
    pub(crate) async fn mcs(&self, command: &str) -> Output {
        let words = command.split_whitespace().chain(["-n", self.space.name()]);
        self.installation.kubectl_mcs(words).await
    }

    /// The messages of foo's Events, one a line.
    pub(crate) async fn events(&self) -> String {
        let path = "-o=jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
        let get = ["get", "events", path, "-n", self.space.name()];
        self.hub().kubectl(get).await.stdout
    }

    pub(crate) fn observer(&self, members: &[u8]) -> Observer {
        let clusters: Vec<_> = members.iter().map(|number| self.member(*number)).collect();
        Observer::begin(self.space.name(), &clusters)
    }
}

/// Whether an object bears a label.
pub(crate) fn bears(object: &impl kube::Resource, label: &str) -> bool {
    object
        .meta()
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(label))
}
