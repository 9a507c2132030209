//! Address families: member1 has IPv4 alone, the others IPv6 too.

use std::net::IpAddr;

use causeway::api::multicluster::ServiceImport;
use causeway_tests::{SOON, eventually, pod, service};

use super::{Turn, condition_of, dig_is_there};

fn with_families(families: &'static [&'static str]) -> causeway_tests::fixtures::ServiceFixture {
    service("foo").port("http", 80).with(move |spec| {
        let policy = match families.len() {
            1 => "SingleStack",
            _ => "RequireDualStack",
        };
        spec.ip_family_policy = Some(policy.to_owned());
        spec.ip_families = Some(families.iter().map(|family| (*family).to_owned()).collect());
    })
}

/// The families of the addresses, in their order.
fn families(import: &ServiceImport) -> Vec<&'static str> {
    let addresses = import.spec.ips.iter();
    let families = addresses.map(|ip| match ip.parse().expect("an address") {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    });
    families.collect()
}

#[tokio::test]
async fn a_dual_stack_service_has_both_families_where_the_cluster_has_them() {
    let turn = Turn::on_three().await;
    let member2 = turn.member("member2");
    let exported = with_families(&["IPv4", "IPv6"]);
    exported.create(member2, &turn).await;
    let four = member2.fresh_pod_ip();
    let both = pod("foo-both", "foo").ip(&four).ip("fd00:2::17");
    both.create(member2, &turn).await;
    turn.export("member2").await;
    for member in &turn.members()[1..] {
        let import = turn
            .imported_as(member.name(), "two addresses", |import| {
                import.spec.ips.len() == 2
            })
            .await;
        assert_eq!(import.spec.ip_families, ["IPv4", "IPv6"]);
        assert_eq!(families(&import), ["IPv4", "IPv6"], "{import:?}");
        turn.reaches(member.name(), &[four.as_str(), "fd00:2::17"])
            .await;
        let types: Vec<_> = turn.imported_slices(member.name()).await;
        let types: Vec<_> = types.iter().map(|slice| &*slice.address_type).collect();
        assert!(
            types.contains(&"IPv4") && types.contains(&"IPv6"),
            "{types:?}"
        );
    }
    let import = turn.imported_from("member1", &["member2"]).await;
    assert_eq!(families(&import), ["IPv4"]);
    let ready = condition_of(&import, "Ready").expect("a condition");
    assert_eq!(ready.status, "True");
}

#[tokio::test]
async fn a_family_that_a_cluster_lacks_is_said() {
    let turn = Turn::on_three().await;
    let exported = with_families(&["IPv6"]);
    exported.create(turn.member("member2"), &turn).await;
    turn.export("member2").await;
    let import = turn
        .imported_as("member1", "a condition", |import| {
            let ready = condition_of(import, "Ready");
            ready.is_some_and(|ready| ready.reason == "IPFamilyNotSupported")
        })
        .await;
    let ready = condition_of(&import, "Ready").expect("a condition");
    assert_eq!(ready.status, "False");
    assert!(ready.message.contains("IPv6"), "{}", ready.message);
    assert_eq!(families(&import), Vec::<&str>::new());
    let import = turn.imported_from("member2", &["member2"]).await;
    assert_eq!(families(&import), ["IPv6"]);
}

#[tokio::test]
async fn families_that_differ_are_a_conflict_and_the_oldest_s_are_used() {
    let turn = Turn::on_three().await;
    let older = with_families(&["IPv4", "IPv6"]);
    older.create(turn.member("member2"), &turn).await;
    turn.export("member2").await;
    let younger = with_families(&["IPv4"]);
    younger.create(turn.member("member1"), &turn).await;
    turn.export_later("member1").await;
    for member in ["member1", "member2"] {
        let message = turn
            .says(member, "Conflict", "True", "IPFamilyConflict")
            .await;
        assert!(message.contains("member2"), "{message}");
    }
    let import = turn.imported_from("member2", &["member1", "member2"]).await;
    assert_eq!(families(&import), ["IPv4", "IPv6"]);
}

#[tokio::test]
async fn names_of_a_dual_stack_service_have_both_kinds_of_addresses() {
    if !dig_is_there() {
        return;
    }
    let turn = Turn::on_three().await;
    let member2 = turn.member("member2");
    with_families(&["IPv4", "IPv6"])
        .create(member2, &turn)
        .await;
    turn.export("member2").await;
    let import = turn
        .imported_as("member3", "two addresses", |import| {
            import.spec.ips.len() == 2
        })
        .await;
    assert_eq!(families(&import), import.spec.ip_families);
    let name = format!("foo.{}.svc.clusterset.local", turn.name());
    for address in &import.spec.ips {
        let type_ = if address.contains(':') { "AAAA" } else { "A" };
        eventually(&format!("{type_} of {name}"), SOON, async || {
            let answer = turn.member("member3").dig(&name, type_).await;
            if answer.records == [address.as_str()] {
                Ok(())
            } else {
                Err(format!("{answer:?}"))
            }
        })
        .await;
    }
}
