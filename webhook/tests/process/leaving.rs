//! The end of a webhook, as clients that keep their connections see it.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use crate::client::{Client, closed, fine, post, read_answer, send};
use crate::running::{Webhook, files, nobody};

#[tokio::test]
async fn terminating_webhook_answers_and_closes_connections() {
    let files = files(nobody());
    let mut webhook = Webhook::start(files.path(), &[]);
    let client = Client::new(&webhook, files.path());
    let mut kept = client.connect().await;
    let mut resting = client.connect().await;
    for stream in [&mut kept, &mut resting] {
        let answer = send(stream).await;
        assert!(!closes(&answer.head), "{answer:?}");
    }
    let unused = client.connect().await;
    let mut in_flight = client.connect().await;
    let request = post("/mutate", &fine().to_string());
    let (most, rest) = request.split_at(request.len() - 5);
    in_flight.write_all(most).await.expect("it reads");

    webhook.signal("-TERM");
    webhook.until("it is unready for good", |webhook| {
        webhook.get("/readyz").ends_with("shutting down\n")
    });
    let begun = Instant::now();
    // A connection that stood takes one more request.
    assert!(closes(&send(&mut kept).await.head));
    closed(kept).await;
    // New connections come until everybody knows.
    sleep(Duration::from_secs(2)).await;
    let mut late = client.connect().await;
    assert!(closes(&send(&mut late).await.head));
    in_flight.write_all(rest).await.expect("it reads");
    let answer = read_answer(&mut in_flight).await.expect("an answer");
    assert!(answer.is_allowed() && closes(&answer.head), "{answer:?}");
    // That was a request, so it stays for seven more seconds, also for who was at rest.
    sleep(Duration::from_secs(4)).await;
    assert!(closes(&send(&mut resting).await.head));

    closed(unused).await;
    let (status, log) = webhook.ends();
    assert_eq!(status.code(), Some(0), "{log}");
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(12), "gone after {took:?}");
}

fn closes(head: &str) -> bool {
    head.to_lowercase().contains("connection: close")
}
