//! Members that are gone for good.

use causeway_tests::{Fault, Space, eventually};

use super::{Bed, LONG, back, bed, end, expose, is_clean, mcs_says, reaches, written};

/// A member that gives `alone` to taker, `shared` beside giver, and consumes the latter too.
struct Member<'a> {
    bed: &'static Bed,
    name: &'static str,
    space: Space<'a>,
    own: String,
    givers: String,
}

impl Member<'_> {
    async fn that_is_used(bed: &'static Bed, name: &'static str) -> Self {
        let space = bed.fleet.space(name).await;
        expose(&space, "alone", [name], ["taker"]).await;
        expose(&space, "shared", ["giver", name], ["taker", name]).await;
        let own = back(&space, "shared", name).await;
        let alone = back(&space, "alone", name).await;
        let givers = back(&space, "shared", "giver").await;
        reaches(&space, "taker", "alone", &[&alone]).await;
        reaches(&space, "taker", "shared", &[&own, &givers]).await;
        reaches(&space, name, "shared", &[&own, &givers]).await;
        bed.lose(name).await;
        Self {
            bed,
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
            let said = self.bed.hub().kubectl(get.clone()).await.stdout;
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
        self.bed.set(self.name, Fault::None);
        self.bed.join(self.name).await;
        reaches(&self.space, "taker", "shared", &[&self.own, &self.givers]).await;
        end(&self.space, ["shared"]).await;
        is_clean(&self.space, self.name).await;
    }
}

#[tokio::test]
async fn a_cluster_deleted_while_its_member_cannot_be_reached_goes_and_what_is_left_is_named() {
    let bed = bed().await;
    let _peace = bed.peace.read().await;
    let member = Member::that_is_used(bed, "lost").await;
    let delete = ["delete", "cluster", "lost", "--timeout=100s"];
    bed.hub().kubectl(delete).await.ok();
    member.is_gone().await;
    member.is_back().await;
}

#[tokio::test]
async fn a_member_that_cannot_be_reached_is_unjoined_and_what_is_left_is_named() {
    let bed = bed().await;
    let _peace = bed.peace.read().await;
    let member = Member::that_is_used(bed, "late").await;
    let unjoin = ["unjoin", "late", "--timeout", "100s"];
    let said = bed.installation.kubectl_mcs(unjoin).await.ok();
    assert!(
        said.contains("note: late could not be cleaned: Unreachable"),
        "{said}"
    );
    assert!(said.contains("-l mcs.causeway.dev/hub="), "{said}");
    member.is_gone().await;
    member.is_back().await;
}
