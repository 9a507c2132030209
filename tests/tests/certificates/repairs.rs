use std::time::SystemTime;

use causeway_certs::{CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY, Trusted};
use causeway_tests::causeway::Launch;
use causeway_tests::{Running, SOON, eventually};
use k8s_openapi::ByteString;
use serde_json::json;

use crate::hub::{CA_SECRET, Data, Hub, SECRET, issuer, repairs, rotations, stage};

async fn two(stage: &Hub) -> [Running; 2] {
    two_of(stage, || stage.launch()).await
}

/// Trust settles in five seconds, and no leaf is due before the test is over.
fn soon_settled(stage: &Hub) -> Launch {
    stage.short_lived(360_000, 50)
}

async fn two_of(stage: &Hub, launch: impl Fn() -> Launch) -> [Running; 2] {
    let webhooks = [launch().start().await, launch().start().await];
    stage.register(&webhooks[0]).await;
    stage.settled(2).await;
    webhooks
}

#[tokio::test]
async fn a_ca_bundle_that_somebody_overwrote_is_put_right() {
    let (stage, _turn) = stage().await;
    let webhooks = two(stage).await;
    let before = stage.stored().await;
    let foreign = base64(stage.hub().ca_pem());
    for (times, (kind, bundle)) in [
        ("mutatingwebhookconfiguration", json!("")),
        (
            "validatingwebhookconfiguration",
            json!(base64("no PEM at all")),
        ),
        ("validatingwebhookconfiguration", json!(foreign)),
    ]
    .into_iter()
    .enumerate()
    {
        stage.overwrite(kind, bundle).await;
        stage.settled(2).await;
        eventually("the repair is counted", SOON, || async {
            let counted = repairs(&webhooks, "ca_bundle").await;
            (counted > times as f64).then_some(()).ok_or(counted)
        })
        .await;
    }
    assert_eq!(stage.stored().await.contents(), before.contents());
    stage.installation.asked(&webhooks[0]).await;
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Description, reason of the repair, and the damage.
type Mischief = (&'static str, &'static str, Box<dyn Fn(&mut Data)>);

/// Lists possible damages of the Secret.
fn mischief() -> Vec<Mischief> {
    let spoilt = |key: &'static str| {
        move |data: &mut Data| {
            data.insert(key.to_owned(), ByteString(b"rubbish".to_vec()));
        }
    };
    vec![
        ("emptied", "missing", Box::new(|data| data.clear())),
        (
            "without the authority's key",
            "missing",
            Box::new(|data| drop(data.remove(CA_KEY))),
        ),
        (
            "a spoilt authority",
            "undecodable",
            Box::new(spoilt(CA_CERTIFICATE)),
        ),
        (
            "a spoilt key of the authority",
            "undecodable",
            Box::new(spoilt(CA_KEY)),
        ),
        (
            "a spoilt leaf",
            "undecodable",
            Box::new(spoilt(CERTIFICATE)),
        ),
        (
            "another's key",
            "key_mismatch",
            Box::new(|data| {
                let other = data[CA_KEY].clone();
                data.insert(KEY.to_owned(), other);
            }),
        ),
        (
            "all of it rubbish",
            "undecodable",
            Box::new(|data| {
                for value in data.values_mut() {
                    *value = ByteString(vec![0xff; 99]);
                }
            }),
        ),
    ]
}

#[tokio::test]
async fn damaged_secret_is_restored_without_a_rotation() {
    let (stage, _turn) = stage().await;
    let webhooks = two(stage).await;
    let before = stage.stored().await;
    let same = |what: &'static str| {
        let before = &before;
        eventually(what, SOON, move || async move {
            let now = stage.stored().await;
            (now.contents() == before.contents())
                .then_some(())
                .ok_or_else(|| {
                    format!(
                        "{:?}",
                        now.leaf(&causeway_certs::Names::default(), SystemTime::now())
                    )
                })
        })
    };
    let counted = async |reason: &'static str, more: f64| {
        eventually(reason, SOON, || async {
            let counted = repairs(&webhooks, reason).await;
            (counted > more).then_some(()).ok_or(counted)
        })
        .await;
    };
    stage.delete_secrets().await;
    stage.create_secrets().await;
    same("a Secret that was deleted and created again").await;
    counted("missing", 0.0).await;
    for (what, reason, mischief) in mischief() {
        let already = repairs(&webhooks, reason).await;
        let mut data = stage.data().await;
        mischief(&mut data);
        stage.put(data).await;
        same(what).await;
        counted(reason, already).await;
    }
    for webhook in &webhooks {
        assert_eq!(rotations(webhook).await, 0.0);
        let log = std::fs::read_to_string(webhook.process().log()).expect("the log");
        assert!(!log.contains("panicked"), "{log}");
    }
    let written_back = "reason=\"missing\"";
    let logs = webhooks
        .iter()
        .map(|webhook| webhook.process().log_tail(500));
    assert!(logs.collect::<String>().contains(written_back));
    stage.settled(2).await;
    stage.installation.asked(&webhooks[0]).await;
}

#[tokio::test]
async fn process_on_rubbish_keeps_served_authorities_trusted() {
    let (stage, _turn) = stage().await;
    let webhooks = two_of(stage, || soon_settled(stage)).await;
    let [old, gone] = webhooks;
    drop(gone);
    let known = issuer(&stage.stored().await);
    // The one that knows better hears nothing of it.
    old.process().pause();
    stage
        .put([(CERTIFICATE.to_owned(), ByteString(b"rubbish".to_vec()))].into())
        .await;
    let new = soon_settled(stage).start().await;
    let stored = stage.settled(2).await;
    assert_ne!(issuer(&stored), known);
    assert!(stored.trust(SystemTime::now()).contains(&known));
    old.process().resume();
    for bundle in stage.bundles().await {
        stage.call(&old, &bundle).await.unwrap();
        stage.call(&new, &bundle).await.unwrap();
    }
}

/// Rotates the authority. Returns the old and the new one, once every webhook serves a leaf of the
/// new one.
async fn rotated(stage: &Hub, webhooks: &[Running]) -> [Trusted; 2] {
    let first = issuer(&stage.stored().await);
    stage.rotate("ca").await;
    let second = eventually("a leaf of another authority", SOON, || async {
        let second = issuer(&stage.stored().await);
        (second != first).then_some(second)
    })
    .await;
    stage.settled(2).await;
    for webhook in webhooks {
        eventually("it is served", SOON, || async {
            rotations(webhook).await >= 1.0
        })
        .await;
    }
    [first, second]
}

#[tokio::test]
async fn restored_authority_without_a_leaf_keeps_published_trust() {
    let (stage, _turn) = stage().await;
    let webhooks = two_of(stage, || soon_settled(stage)).await;
    let older = stage.data_of(CA_SECRET).await;
    let [_, second] = rotated(stage, &webhooks).await;
    let [old, stopped] = webhooks;
    drop(stopped);
    // The paused process alone serves a leaf of the second authority.
    old.process().pause();
    let no_leaf = [CERTIFICATE, KEY].map(|key| (key.to_owned(), ByteString::default()));
    stage.put_in(CA_SECRET, older).await;
    stage.put_in(SECRET, no_leaf.into()).await;
    let new = soon_settled(stage).start().await;
    let stored = stage.settled(2).await;
    assert!(stored.trust(SystemTime::now()).contains(&second));
    old.process().resume();
    for bundle in stage.bundles().await {
        stage.call(&old, &bundle).await.unwrap();
        stage.call(&new, &bundle).await.unwrap();
    }
}

#[tokio::test]
async fn an_older_secret_that_is_put_back_takes_nobody_trust_away() {
    let (stage, _turn) = stage().await;
    let webhooks = two_of(stage, || soon_settled(stage)).await;
    let older = stage.data().await;
    let [first, second] = rotated(stage, &webhooks).await;
    stage.put(older).await;
    eventually("both authorities are stored", SOON, || async {
        let trust = stage.stored().await.trust(SystemTime::now());
        (trust.contains(&first) && trust.contains(&second))
            .then_some(())
            .ok_or(format!("{trust:?}"))
    })
    .await;
    stage.settled(2).await;
    for bundle in stage.bundles().await {
        for webhook in &webhooks {
            stage.call(webhook, &bundle).await.unwrap();
        }
    }
}

#[tokio::test]
async fn rest_costs_watches_and_no_request() {
    // It waits for a while, beside the turns of others.
    let stage = Hub::start().await;
    let webhooks = two(&stage).await;
    let log = |webhook: &Running| {
        std::fs::read_to_string(webhook.process().log())
            .unwrap()
            .len()
    };
    let lines: Vec<_> = webhooks.iter().map(log).collect();
    let hub = stage.hub();
    let kinds = [
        "secrets",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ];
    let mark = hub.mark().await;
    let before = hub.request_counts().await;
    // Longer than the webhook ever waits to look at the clock.
    tokio::time::sleep(std::time::Duration::from_secs(17)).await;
    let asked = hub.request_counts().await.since(&before);
    for kind in kinds {
        assert_eq!(asked.of(kind).total(), 0, "{asked:?}");
    }
    assert_eq!(hub.writes_since(mark, "causeway-webhook").await, []);
    assert_eq!(webhooks.iter().map(log).collect::<Vec<_>>(), lines);
}
