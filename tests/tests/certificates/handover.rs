//! Upgrade from a version that stores the key of the authority in the serving Secret.

use std::time::SystemTime;

use causeway_certs::{CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY};
use causeway_tests::{SOON, eventually};

use crate::hub::{CA_SECRET, Data, Hub, SECRET, issuer, repairs, rotations, stage};

fn keys(data: &Data) -> Vec<&str> {
    data.keys().map(String::as_str).collect()
}

/// Waits until the two Secrets hold what they should.
async fn apart(stage: &Hub) {
    eventually("the key is in its own Secret alone", SOON, || async {
        let (serving, authority) = (stage.data_of(SECRET).await, stage.data_of(CA_SECRET).await);
        let done = keys(&serving) == [CA_CERTIFICATE, CERTIFICATE, KEY]
            && keys(&authority) == [CA_CERTIFICATE, CA_KEY]
            && serving[CA_CERTIFICATE] == authority[CA_CERTIFICATE];
        done.then_some(())
            .ok_or_else(|| format!("{:?}, {:?}", keys(&serving), keys(&authority)))
    })
    .await;
}

#[tokio::test]
async fn serving_secret_holds_no_key_of_the_authority() {
    let (stage, _turn) = stage().await;
    let webhook = stage.launch().start().await;
    stage.register(&webhook).await;
    stage.settled(2).await;
    apart(stage).await;
}

#[tokio::test]
async fn upgrade_moves_the_authority_without_a_gap_of_trust() {
    let (stage, _turn) = stage().await;
    // The key is removed after twelve seconds.
    let launch = || stage.short_lived(360_000, 120);
    let first = launch().start().await;
    stage.register(&first).await;
    stage.settled(2).await;
    let before = stage.data().await;
    let authority = issuer(&stage.stored().await);
    drop(first);
    // As the version before leaves it, and as a replica does that stopped after its first write.
    for copied in [Data::new(), stage.data_of(CA_SECRET).await] {
        stage.put_in(CA_SECRET, copied).await;
        stage.put_in(SECRET, before.clone()).await;
        let webhooks = [launch().start_unready(), launch().start_unready()];
        for webhook in &webhooks {
            webhook.ready().await;
        }
        eventually("the authority is copied", SOON, || async {
            let copy = stage.data_of(CA_SECRET).await;
            (copy.get(CA_KEY) == before.get(CA_KEY))
                .then_some(())
                .ok_or_else(|| format!("{:?}", keys(&copy)))
        })
        .await;
        assert_eq!(
            keys(&stage.data_of(SECRET).await).len(),
            4,
            "removed at once"
        );
        apart(stage).await;
        assert_eq!(stage.data().await, before);
        let stored = stage.settled(2).await;
        assert_eq!(
            stored.trust(SystemTime::now()),
            std::slice::from_ref(&authority)
        );
        for bundle in stage.bundles().await {
            for webhook in &webhooks {
                stage.call(webhook, &bundle).await.unwrap();
            }
        }
        for webhook in &webhooks {
            assert_eq!(rotations(webhook).await, 0.0);
        }
        for reason in ["missing", "no_secret", "ca_bundle", "key_mismatch"] {
            assert_eq!(repairs(&webhooks, reason).await, 0.0, "{reason}");
        }
    }
}
