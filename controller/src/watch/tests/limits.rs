//! An API server that sends more than is listened to.

use std::time::Duration;

use super::*;

fn limited(objects: usize, object_bytes: usize, bytes: usize) -> Settings {
    Settings {
        first_retry: Duration::from_millis(1),
        excess_retry: Duration::from_millis(1),
        limits: Limits {
            objects,
            object_bytes,
            bytes,
        },
        ..Settings::default()
    }
}

const MIB: usize = 1024 * 1024;

fn large(name: &str) -> String {
    service(&format!("{name}-{}", "x".repeat(MIB)), 5)
}

#[tokio::test]
async fn oversized_list_is_rejected_until_it_shrinks() {
    let small: Vec<_> = (0..3).map(|n| service(&format!("s{n}"), 5)).collect();
    let many: Vec<_> = (0..4).map(|n| service(&format!("s{n}"), 5)).collect();
    for (settings, list_of, said) in [
        (
            limited(3, MIB, MIB),
            &many,
            "more Services than 3 (--max-member-objects)",
        ),
        (
            limited(3, MIB, MIB),
            &vec!["1".to_owned(); 1000],
            "more Services than 3 (--max-member-objects)",
        ),
        (
            limited(9, 2 * MIB, MIB),
            &vec![large("a")],
            "take more than 1 MiB (--max-member-mib)",
        ),
        (
            limited(9, MIB, 9 * MIB),
            &vec![large("a")],
            "a Service of more than 1 MiB (--max-member-object-mib)",
        ),
    ] {
        let mut server = Server::watched_with(settings).await;
        let asked = server.asked_for_list().await;
        asked.answer(200, &list(list_of, "7", "")).await;
        let reported = server.reported().await;
        assert!(reported.contains(said), "{reported}");
        let asked = server.asked_for_list().await;
        asked.answer(200, &list(&small, "8", "")).await;
        assert_eq!(server.reported().await, r#"Listed(["s0", "s1", "s2"])"#);
    }
}

#[tokio::test]
async fn pages_count_together() {
    let mut server = Server::watched_with(limited(3, MIB, MIB)).await;
    for (first, token) in [(0, "more"), (2, "")] {
        let asked = server.asked_for_list().await;
        let page: Vec<_> = (first..first + 2)
            .map(|n| service(&format!("s{n}"), 5))
            .collect();
        asked.answer(200, &list(&page, "7", token)).await;
    }
    assert!(server.reported().await.contains("more Services than 3"));
}

#[tokio::test]
async fn list_with_pages_without_end_fails() {
    let mut server = Server::watched_with(limited(9, MIB, MIB)).await;
    let reported = loop {
        tokio::select! {
            asked = server.requests.recv() => {
                let asked = asked.expect("a request");
                asked.answer(200, &list(&[], "7", "more")).await;
            }
            signal = server.signals.recv() => break format!("{signal:?}"),
        }
    };
    assert!(reported.contains("pages without end"), "{reported}");
}

#[tokio::test]
async fn page_longer_than_its_objects_may_be_is_not_read() {
    let mut server = Server::watched_with(limited(9, MIB, 99 * MIB)).await;
    for _ in 0..2 {
        let asked = server.asked_for_list().await;
        let page = list(&[large(&"x".repeat(3 * MIB))], "7", "");
        asked.answer_in_part(200, &page).await;
    }
    let reported = server.reported().await;
    let said = "a Service of more than 1 MiB (--max-member-object-mib)";
    assert!(reported.contains(said), "{reported}");
}

#[tokio::test]
async fn a_watch_of_too_much_fails_and_reports_nothing_of_it() {
    for (name, said) in [
        ("two", "more Services than 1"),
        (&*"x".repeat(2 * MIB), "a Service of more than 1 MiB"),
    ] {
        let mut server = Server::watched_with(limited(1, MIB, 9 * MIB)).await;
        let mut watch = server.settled().await;
        watch.event("MODIFIED", &service("foo", 8)).await;
        assert_eq!(server.reported().await, r#"Applied("foo")"#);
        watch.event("ADDED", &service(name, 9)).await;
        let reported = server.reported().await;
        assert!(
            reported.contains(said),
            "{}",
            &reported[..reported.len().min(200)]
        );
        let asked = server.asked_for_list().await;
        asked
            .answer(200, &list(&[service("foo", 10)], "10", ""))
            .await;
        assert_eq!(server.reported().await, r#"Listed(["foo"])"#);
    }
}
