//! A hub with three members, causeway at work, and Karmada's definitions from the start; shared by
//! all tests but those of the imitation itself. Each test has a Karmada of its own, which sees
//! nothing but the test's namespace.

use causeway_tests::fixtures::RunningPod;
use causeway_tests::karmada::Observer;
use causeway_tests::kubectl::Output;
use causeway_tests::{
    Cluster, Environment, Fleet, Karmada, LONG, Space, addresses, eventually, same,
};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use std::ops::Deref;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// A label of everything that causeway keeps in members.
pub(crate) const HUB: &str = "mcs.causeway.dev/hub";

async fn env() -> &'static Environment {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    let start = async || {
        let fleet = Fleet::builder().members(3).start().await;
        Karmada::install(&fleet).await;
        let env = Environment::builder().webhook();
        // Both controllers write the status of a new service until Karmada's Works show its owner.
        let env = env.flag("--write-conflict-pause=5s");
        let env = env.start(fleet).await;
        require_port_errors(env.fleet.hub()).await;
        for member in env.fleet.members() {
            env.is_synced(member.name()).await;
        }
        env
    };
    ENVIRONMENT.get_or_init(start).await
}

/// Has the definition of MultiClusterService require what Karmada's own requires of the ports of a
/// load balancer, and causeway's does not.
async fn require_port_errors(hub: &Cluster) {
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let ingress = format!("{status}/loadBalancer/properties/ingress/items/properties");
    let required = format!("{ingress}/ports/items/required/-");
    let patch = json!([{"op": "add", "path": required, "value": "error"}]).to_string();
    let definition = "multiclusterservices.networking.karmada.io";
    let args = ["patch", "crd", definition, "--type=json", "-p", &patch];
    hub.kubectl(args).await.ok();
}

/// One test's namespace and its Karmada.
pub(crate) struct Turn {
    pub(crate) karmada: Karmada,
    space: Space<'static>,
    env: &'static Environment,
    /// Held until Karmada has ended.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Deref for Turn {
    type Target = Space<'static>;

    fn deref(&self) -> &Space<'static> {
        &self.space
    }
}

impl Turn {
    /// For a test that may set the feature gate on: one at a time, for `adopt` looks at the Works
    /// of all services to find out whether it is. It is off to begin with.
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
        let space = env.space(prefix).await;
        Self {
            karmada: Karmada::within(&space),
            space,
            env,
            _turn: None,
        }
    }

    /// The Service of a member.
    pub(crate) async fn service_of(&self, member: &str) -> Service {
        let services = self.api::<Service>(self.member(member));
        services.get("foo").await.expect("Service foo")
    }

    /// The objects of the namespace in a member, of every kind that it serves, on which something
    /// of causeway's is found. Events are a record of the past.
    pub(crate) async fn marked(&self, member: &str) -> Vec<String> {
        let member = self.member(member);
        let kinds = ["api-resources", "--namespaced", "--verbs=list", "-o=name"];
        let kinds = member.kubectl(kinds).await.ok();
        let kinds = kinds.lines().filter(|kind| !kind.starts_with("events"));
        let kinds = kinds.collect::<Vec<_>>().join(",");
        let listed = self.kubectl(member, ["get", &kinds, "-o=json"]).await;
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
        for member in ["member1", "member2", "member3"] {
            let what = format!("nothing in {member} bears a mark of causeway");
            eventually(&what, LONG, async || {
                let marked = self.marked(member).await;
                marked.is_empty().then_some(()).ok_or(marked.join("\n"))
            })
            .await;
        }
    }

    /// Checks that causeway has no slices in a member.
    ///
    /// # Errors
    /// The objects that it has there.
    async fn gave_way(&self, member: &str) -> Result<(), String> {
        let own = self.own_objects(member).await;
        let slices = own.iter().any(|one| one.starts_with("endpointslice"));
        (!slices).then_some(()).ok_or(format!("{own:?}"))
    }

    /// Waits until causeway has no slices in a member.
    pub(crate) async fn gives_way(&self, member: &str) {
        let what = "causeway's copies give way";
        eventually(what, LONG, || self.gave_way(member)).await;
    }

    /// Waits until Karmada's slices alone serve the member.
    pub(crate) async fn is_karmadas(&self, member: &str, pods: &[RunningPod]) {
        let expected = addresses(pods);
        let what = format!("Karmada's slices alone serve {expected:?} in {member}");
        eventually(&what, LONG, async || {
            // First what serves, then whose it is: a copy could come between the two answers.
            let ready = self.ready_addresses(self.member(member), "foo").await;
            same(ready, &expected)?;
            self.gave_way(member).await
        })
        .await;
    }

    /// `kubectl mcs COMMAND ... -n NAMESPACE`.
    pub(crate) async fn mcs(&self, command: &str) -> Output {
        let words = command.split_whitespace().chain(["-n", self.name()]);
        self.env.mcs(words).await
    }

    /// The messages of foo's Events, one a line.
    pub(crate) async fn events(&self) -> String {
        let path = "-o=jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
        self.kubectl(self.hub(), ["get", "events", path]).await
    }

    pub(crate) fn observer(&self, members: &[&str]) -> Observer {
        let clusters: Vec<_> = members.iter().map(|member| self.member(member)).collect();
        Observer::begin(self.name(), &clusters)
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
