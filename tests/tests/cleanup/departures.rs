//! Members that are gone for good.

use causeway_tests::causeway::MEMBERS_NAMESPACE;
use causeway_tests::{Cluster, Fault, LONG, Space, eventually};

use super::{Shared, env, join, lose};

/// A member that gives `alone` to taker, `shared` beside giver, and consumes the latter too.
struct Member<'a> {
    env: &'static Shared,
    name: &'static str,
    space: Space<'a>,
    own: String,
    givers: String,
}

impl Member<'_> {
    async fn that_is_used(env: &'static Shared, name: &'static str) -> Self {
        let space = env.space(name).await;
        space.expose("alone", [name], ["taker"]).await;
        space
            .expose("shared", ["giver", name], ["taker", name])
            .await;
        let own = space.pod("shared", name).await.ip().to_owned();
        let alone = space.pod("alone", name).await.ip().to_owned();
        let givers = space.pod("shared", "giver").await.ip().to_owned();
        space.reaches("taker", "alone", &[&alone]).await;
        space.reaches("taker", "shared", &[&own, &givers]).await;
        space.reaches(name, "shared", &[&own, &givers]).await;
        lose(env, name).await;
        Self {
            env,
            name,
            space,
            own,
            givers,
        }
    }

    /// The others lose what it gave, keep what giver gives, and an event names what is left in the
    /// member.
    async fn is_gone(&self) {
        self.space.reaches_none("taker", "alone").await;
        self.space.reaches("taker", "shared", &[&self.givers]).await;
        let about = format!("involvedObject.name={},reason=LeftoversRemain", self.name);
        let get = ["get", "events", "-n", "default", "--field-selector", &about];
        let get = get
            .into_iter()
            .chain(["-o", "jsonpath={.items[*].message}"]);
        let left = format!("for {0}/alone, {0}/shared is left in it", self.space.name());
        eventually("an event names the leftovers", LONG, async || {
            let said = self.env.hub().kubectl(get.clone()).await.stdout;
            said.contains(&left).then_some(()).ok_or(said)
        })
        .await;
        let message = self
            .space
            .says("alone", "Ready", "False|ServiceAppliedFailed|")
            .await;
        assert!(
            message.contains(&format!("{} is not joined", self.name)),
            "{message}"
        );
        assert_ne!(
            self.space.own_objects(self.name).await,
            Vec::<String>::new()
        );
    }

    /// Joined again, it is used for what is asked of it still, and clean of the rest.
    async fn is_back(&self) {
        let space = &self.space;
        space.delete("alone").await;
        self.env.set(self.name, Fault::None);
        join(self.env, self.name).await;
        space
            .reaches("taker", "shared", &[&self.own, &self.givers])
            .await;
        space.delete("shared").await;
        space.is_clean(self.name).await;
    }
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn deleted_cluster_of_an_unreachable_member_names_leftovers() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let member = Member::that_is_used(env, "lost").await;
    let delete = ["delete", "cluster", "lost", "--timeout=100s"];
    env.hub().kubectl(delete).await.ok();
    member.is_gone().await;
    member.is_back().await;
}

#[tokio::test]
async fn unjoin_of_an_unreachable_member_names_leftovers() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let member = Member::that_is_used(env, "late").await;
    let unjoin = ["unjoin", "late", "--timeout", "100s", "--lease="];
    let said = env.mcs(unjoin).await.ok();
    assert!(
        said.contains("note: late could not be cleaned up: Unreachable"),
        "{said}"
    );
    assert!(said.contains("-l mcs.causeway.dev/hub="), "{said}");
    member.is_gone().await;
    member.is_back().await;
}

/// Has a member refuse to delete the Services and EndpointSlices of a namespace.
async fn refuse_deletions(member: &Cluster, namespace: &str) {
    let webhook = format!(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: denies}}
webhooks:
- name: denies.example.org
  clientConfig: {{url: 'https://127.0.0.1:1'}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  rules:
  - apiGroups: ['', discovery.k8s.io]
    apiVersions: [v1]
    resources: [services, endpointslices]
    operations: [DELETE]
"
    );
    member.apply(&webhook).await.ok();
    let delete = ["delete", "service", "foo", "--dry-run=server"];
    let delete = delete.into_iter().chain(["-n", namespace]);
    eventually("the member refuses deletions", LONG, async || {
        !member.kubectl(delete.clone()).await.exit.success()
    })
    .await;
}

#[tokio::test]
async fn unjoin_reads_the_member_and_not_a_former_status() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let (space, member) = (env.space("denied").await, env.member("denied"));
    space.expose("foo", ["giver"], ["denied"]).await;
    let address = space.pod("foo", "giver").await.ip().to_owned();
    space.reaches("denied", "foo", &[&address]).await;

    refuse_deletions(member, space.name()).await;
    let unjoin = ["unjoin", "denied", "--timeout", "100s", "--lease="];
    let said = env.mcs(unjoin).await.ok();
    assert!(
        said.contains("note: objects of causeway remain in denied; "),
        "{said}"
    );
    assert_ne!(space.own_objects("denied").await, Vec::<String>::new());

    let allow = ["delete", "validatingwebhookconfiguration", "denies"];
    member.kubectl(allow).await.ok();
    join(env, "denied").await;
    space.reaches("denied", "foo", &[&address]).await;
    let delete = ["delete", "secret", "denied", "-n", MEMBERS_NAMESPACE];
    env.hub().kubectl(delete).await.ok();
    env.touch("denied").await;
    env.cluster_says("denied", "False|InvalidConfiguration|")
        .await;
    let kubeconfig = member.kubeconfig().display().to_string();
    let more = ["--member-kubeconfig", &kubeconfig];
    let said = env.mcs(unjoin.into_iter().chain(more)).await.ok();
    assert!(!said.contains("could not be cleaned up"), "{said}");
    assert!(!said.contains("objects of causeway"), "{said}");
    space.is_clean("denied").await;
}
