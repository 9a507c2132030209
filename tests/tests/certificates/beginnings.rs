use std::time::{Duration, SystemTime};

use causeway_certs::{
    Authority, CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY, NEXT_CERTIFICATE, NEXT_KEY,
};
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{Running, SOON, eventually};
use k8s_openapi::ByteString;

use crate::hub::{CA_SECRET, Hub, issuer, repairs, stage};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn three(stage: &Hub) -> Vec<Running> {
    (0..3).map(|_| stage.launch().start_unready()).collect()
}

async fn agree(stage: &Hub, replicas: Vec<Running>) {
    stage.register(&replicas[0]).await;
    for replica in &replicas {
        replica.ready().await;
    }
    let stored = stage.settled(2).await;
    let signing = &stored.signing(SystemTime::now()).unwrap().certificate;
    assert_eq!(
        stored.trust(SystemTime::now()),
        std::slice::from_ref(signing)
    );
    assert_eq!(&issuer(&stored), signing);
    for bundle in stage.bundles().await {
        for replica in &replicas {
            stage.call(replica, &bundle).await.unwrap();
        }
    }
    stage.installation.asked(&replicas[0]).await;
    for reason in ["no_secret", "missing", "ca_bundle"] {
        assert_eq!(
            repairs(&replicas, reason).await,
            0.0,
            "{reason}: nothing was wrong"
        );
    }
}

#[tokio::test]
async fn replicas_started_before_the_secret_fill_it_later() {
    let (stage, _turn) = stage().await;
    stage.delete_secrets().await;
    let replicas = three(stage);
    for replica in &replicas {
        eventually("the refusal names the remedy", SOON, || async {
            let log = std::fs::read_to_string(replica.process().log()).expect("the log");
            let remedy =
                format!("create Secret {NAMESPACE}/{CA_SECRET}; apply causeway's manifests");
            (log.contains(&remedy) && log.contains("forbidden"))
                .then_some(())
                .ok_or(log)
        })
        .await;
    }
    stage.create_secrets().await;
    agree(stage, replicas).await;
}

#[tokio::test]
async fn replicas_on_an_empty_secret_agree_on_one_authority() {
    let (stage, _turn) = stage().await;
    let replicas = three(stage);
    let logs: Vec<_> = replicas
        .iter()
        .map(|one| one.process().log().to_owned())
        .collect();
    agree(stage, replicas).await;
    for log in logs {
        let log = std::fs::read_to_string(log).expect("the log");
        let warned = log.lines().find(|line| line.contains(" WARN "));
        assert_eq!(warned, None, "that another was faster is no warning");
    }
}

#[tokio::test]
async fn applying_the_manifests_again_keeps_the_certificates() {
    let (stage, _turn) = stage().await;
    let webhook = stage.launch().start().await;
    stage.register(&webhook).await;
    let before = stage.settled(2).await;
    let mark = stage.hub().mark().await;
    stage.create_secrets().await;
    assert_eq!(stage.stored().await.contents(), before.contents());
    assert_eq!(stage.hub().writes_since(mark, "causeway-webhook").await, []);
}

#[tokio::test]
async fn webhook_before_its_configurations_is_ready_and_fills_them() {
    let (stage, _turn) = stage().await;
    let webhook = stage.launch().start().await;
    assert!(stage.bundles().await.is_empty());
    let before = stage.settled(0).await;
    stage.register(&webhook).await;
    stage.installation.asked(&webhook).await;
    let stored = stage.settled(2).await;
    assert_eq!(stored.contents(), before.contents());
    assert_eq!(repairs(&[webhook], "ca_bundle").await, 0.0);
}

#[tokio::test]
async fn half_written_secret_of_a_crashed_process_is_completed() {
    let (stage, _turn) = stage().await;
    let webhook = stage.short_lived(36000, 40).start().await;
    stage.register(&webhook).await;
    stage.settled(2).await;
    let whole = stage.data().await;
    drop(webhook);
    for (left, same_authority) in [
        (&[CA_CERTIFICATE, CA_KEY][..], true),
        (&[CA_CERTIFICATE, CA_KEY, CERTIFICATE], true),
        (&[CA_CERTIFICATE, CERTIFICATE, KEY], false),
        (&[CA_CERTIFICATE], false),
        (&[CERTIFICATE, KEY], false),
    ] {
        let mut data = whole.clone();
        data.retain(|key, _| left.contains(&key.as_str()));
        stage.put(data).await;
        let webhook = stage.short_lived(36000, 40).start().await;
        let stored = stage.settled(2).await;
        let first = Hub::decode(&whole);
        let same = stored.trust(SystemTime::now())[0] == issuer(&first);
        assert_eq!(same, same_authority, "{left:?}");
        assert!(
            stored.trust(SystemTime::now()).contains(&issuer(&first)),
            "{left:?}: who serves a leaf of the first authority is known no longer"
        );
        drop(webhook);
        stage.put(whole.clone()).await;
    }
}

#[tokio::test]
async fn a_successor_that_was_stored_without_its_key_is_dropped() {
    let (stage, _turn) = stage().await;
    let webhook = stage.launch().start().await;
    let mut data = stage.data().await;
    let next = Authority::new("next", DAY, SystemTime::now()).unwrap();
    data.insert(
        NEXT_CERTIFICATE.to_owned(),
        ByteString(next.pem().as_bytes().to_vec()),
    );
    stage.put(data.clone()).await;
    eventually("the half of a successor is gone", SOON, || async {
        let data = stage.data().await;
        !data.contains_key(NEXT_CERTIFICATE) && !data.contains_key(NEXT_KEY)
    })
    .await;
    assert_eq!(repairs(&[webhook], "missing").await, 1.0);
}

#[tokio::test]
async fn certificates_of_the_future_and_of_the_past_are_replaced() {
    let (stage, _turn) = stage().await;
    let now = SystemTime::now();
    for (from, reason) in [
        (now + 400 * DAY, "not_yet_valid"),
        (now - 800 * DAY, "expired"),
    ] {
        let authority = Authority::new("of another time", 390 * DAY, from).unwrap();
        let leaf = causeway_certs::Leaf {
            common_name: "causeway-webhook".to_owned(),
            addresses: vec![std::net::Ipv4Addr::LOCALHOST.into()],
            validity: 90 * DAY,
            ..causeway_certs::Leaf::default()
        };
        let leaf = authority.issue(&leaf, from).unwrap();
        let data = [
            (CA_CERTIFICATE, authority.pem().to_owned()),
            (CA_KEY, authority.key_pem()),
            (CERTIFICATE, leaf.certificate),
            (KEY, leaf.key),
        ];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
        stage.clear().await;
        stage.put(data.into()).await;
        let webhook = stage.launch().start().await;
        stage.register(&webhook).await;
        let stored = stage.settled(2).await;
        assert_eq!(stored.trust(SystemTime::now()).len(), 1, "{reason}");
        stage
            .call(&webhook, &stage.bundles().await[0])
            .await
            .unwrap();
        assert!(repairs(&[webhook], reason).await > 0.0, "{reason}");
    }
}
