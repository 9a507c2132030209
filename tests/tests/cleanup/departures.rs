//! Members that are gone for good.

use causeway_tests::{Fault, Space, eventually};

use super::{Environment, LONG, back, end, env, expose, is_clean, mcs_says, reaches, written};

/// A member that gives `alone` to taker, `shared` beside giver, and consumes the latter too.
struct Member<'a> {
    env: &'static Environment,
    name: &'static str,
    space: Space<'a>,
    own: String,
    givers: String,
}

impl Member<'_> {
    async fn that_is_used(env: &'static Environment, name: &'static str) -> Self {
        let space = env.fleet.space(name).await;
        expose(&space, "alone", [name], ["taker"]).await;
        expose(&space, "shared", ["giver", name], ["taker", name]).await;
        let own = back(&space, "shared", name).await;
        let alone = back(&space, "alone", name).await;
        let givers = back(&space, "shared", "giver").await;
        reaches(&space, "taker", "alone", &[&alone]).await;
        reaches(&space, "taker", "shared", &[&own, &givers]).await;
        reaches(&space, name, "shared", &[&own, &givers]).await;
        env.lose(name).await;
        Self {
            env,
            name,
            space,
            own,
            givers,
        }
    }

    /// The others lose what it gave, keep what giver gives, and an event names what is left in the member.
    async fn is_gone(&self) {
        reaches(&self.space, "taker", "alone", &[]).await;
        reaches(&self.space, "taker", "shared", &[&self.givers]).await;
        let about = format!("involvedObject.name={},reason=LeftoversRemain", self.name);
        let get = ["get", "events", "-n", "default", "--field-selector", &about];
        let get = get
            .into_iter()
            .chain(["-o", "jsonpath={.items[*].message}"]);
        let left = format!("for {0}/alone, {0}/shared is left in it", self.space.name());
        eventually("an event names the leftovers", LONG, async || {
            let said = self.env.hub().kubectl(get.clone()).await.stdout;
            if said.contains(&left) {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
        let message = mcs_says(&self.space, "alone", "False|ServiceAppliedFailed|").await;
        assert!(
            message.contains(&format!("{} is not joined", self.name)),
            "{message}"
        );
        assert_ne!(written(&self.space, self.name).await, Vec::<String>::new());
    }

    /// Joined again, it is used for what is asked of it still, and clean of the rest.
    async fn is_back(&self) {
        end(&self.space, ["alone"]).await;
        self.env.set(self.name, Fault::None);
        self.env.join(self.name).await;
        reaches(&self.space, "taker", "shared", &[&self.own, &self.givers]).await;
        end(&self.space, ["shared"]).await;
        is_clean(&self.space, self.name).await;
    }
}

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
    let said = env.installation.kubectl_mcs(unjoin).await.ok();
    assert!(
        said.contains("note: late could not be cleaned up: Unreachable"),
        "{said}"
    );
    assert!(said.contains("-l mcs.causeway.dev/hub="), "{said}");
    member.is_gone().await;
    member.is_back().await;
}
