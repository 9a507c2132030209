//! Headless services.

use causeway_tests::{SOON, eventually, pod, service};

use super::Turn;

async fn headless(turn: &Turn, member: &str) {
    let exported = service("foo").port_to("http", 80, 8080).headless();
    exported.create(turn.member(member), turn).await;
    turn.export_later(member).await;
}

#[tokio::test]
async fn a_headless_service_is_imported_without_an_address() {
    let turn = Turn::on_three().await;
    headless(&turn, "member1").await;
    let pod = turn.pod("member1").await;
    for member in turn.members() {
        let import = turn.imported_from(member.name(), &["member1"]).await;
        assert_eq!(import.spec.type_, "Headless");
        assert_eq!(import.spec.ips, Vec::<String>::new());
        assert_eq!(import.spec.ip_families, ["IPv4"]);
        turn.reaches(member.name(), &[pod.ip()]).await;
        turn.derived_as(member.name(), "no address", |spec| {
            spec.cluster_ip.as_deref() == Some("None")
        })
        .await;
    }
}

#[tokio::test]
async fn hostnames_cross() {
    let turn = Turn::on_three().await;
    for member in ["member1", "member2"] {
        headless(&turn, member).await;
        let db = pod("db-0", "foo").hostname("db-0", "foo");
        db.create(turn.member(member), &turn).await;
    }
    for member in turn.members() {
        let what = format!("both hostnames in {}", member.name());
        eventually(&what, SOON, async || {
            let slices = turn.imported_slices(member.name()).await;
            let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
            let hosts: Vec<_> = endpoints
                .map(|endpoint| endpoint.hostname.clone())
                .collect();
            if hosts == [Some("db-0".to_owned()), Some("db-0".to_owned())] {
                Ok(())
            } else {
                Err(format!("{hosts:?}"))
            }
        })
        .await;
    }
}
