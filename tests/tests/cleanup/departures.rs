//! Members that are gone for good.

use causeway_tests::{Fault, LONG, Space, eventually};

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
