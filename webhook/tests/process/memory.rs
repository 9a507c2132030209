//! Requests without number, and large ones: what cannot be taken on is refused at once.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use crate::client::{Client, fine, post, read_answer};
use crate::running::{LONG, Webhook, files, nobody};

#[tokio::test]
async fn request_beyond_the_limit_is_refused_unread() {
    let files = files(nobody());
    let mut webhook = Webhook::start(files.path(), &["--max-in-flight=2"]);
    let client = Client::new(&webhook, files.path());
    let request = post("/mutate", &fine().to_string());
    let head = request.windows(4).position(|part| part == b"\r\n\r\n");
    let head = &request[..head.expect("a head") + 4];

    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut stream = client.connect().await;
        stream.write_all(head).await.expect("it reads");
        slow.push(stream);
    }
    webhook.until("both are in flight", |webhook| {
        webhook.metric("causeway_webhook_requests_in_flight") == 2
    });
    let refused = client.say(head).await;
    assert_eq!(refused.code, 429, "{refused:?}");
    assert!(
        refused.head.to_lowercase().contains("\r\nretry-after: 1"),
        "{refused:?}"
    );
    assert_eq!(
        refused.json()["message"],
        "too many requests at one time; try again"
    );
    assert_eq!(
        webhook.metric("causeway_webhook_requests_rejected_total{reason=\"busy\"}"),
        1
    );

    let begun = Instant::now();
    while !client.say(&request).await.is_allowed() {
        assert!(begun.elapsed() < LONG, "still refused");
        sleep(Duration::from_millis(50)).await;
    }
    let cut = read_answer(&mut slow[0]).await.expect("an answer");
    assert_eq!(
        (cut.code, cut.json()["message"].as_str()),
        (408, Some("the body did not arrive in time"))
    );
}

#[tokio::test]
async fn large_bodies_share_a_budget_and_small_ones_never_wait() {
    let files = files(nobody());
    let webhook = Webhook::start(files.path(), &["--max-body-mib=14"]);
    let client = Client::new(&webhook, files.path());
    client.send_usual().await;
    let before = webhook.memory();
    let body = fine().to_string() + &" ".repeat(7 * 1024 * 1024 - 1000);
    let request = post("/mutate", &body);
    let mut stalling = Vec::new();
    for _ in 0..40 {
        let mut stream = client.connect().await;
        let part = request[..request.len() - 100].to_vec();
        stalling.push(tokio::spawn(async move {
            // Only as much is read as is held.
            stream.write_all(&part).await.ok();
            read_answer(&mut stream).await
        }));
    }
    let begun = Instant::now();
    let mut most = 0;
    let honest = loop {
        client.send_usual().await;
        let answer = client.say(&request).await;
        most = most.max(webhook.memory() - before);
        if answer.code != 429 {
            break answer;
        }
        assert!(
            answer.head.to_lowercase().contains("\r\nretry-after: 1"),
            "{answer:?}"
        );
        assert!(begun.elapsed() < LONG, "still refused");
        sleep(Duration::from_secs(1)).await;
    };
    assert!(honest.is_allowed(), "{honest:?}");
    println!("40 stalling bodies of 7 MiB: {most} KiB");
    assert!(most < 64 * 1024, "it grew by {most} KiB");
    for stalling in stalling {
        let answer = stalling.await.expect("no panic").expect("an answer");
        assert!([408, 429].contains(&answer.code), "{answer:?}");
    }
}
