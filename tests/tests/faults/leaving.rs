//! Reports in a member that is removed.

use causeway_tests::causeway::Lent;
use causeway_tests::{service, service_export};

#[tokio::test]
async fn exports_of_an_unjoined_member_report_it_without_conflict() {
    let env = Lent::take().await;
    let space = env.space("leaving").await;
    for (member, port) in [("member1", 80), ("member2", 81)] {
        let member = env.member(member);
        service("foo")
            .port("http", port)
            .create(member, &space)
            .await;
        service_export("foo").create(member, &space).await;
    }
    for member in ["member1", "member2"] {
        space
            .export_says(member, "foo", "Conflict", "True|PortConflict|")
            .await;
        space
            .export_says(member, "foo", "Ready", "True|Exported|")
            .await;
    }
    env.mcs(["unjoin", "member1"]).await.ok();
    // It was said before the Cluster went.
    let member = env.member("member1");
    let export = format!("namespaces/{}/serviceexports/foo", space.name());
    for (type_, expected) in [
        ("Ready", "False|NotJoined|"),
        ("Conflict", "False|NoConflicts|"),
        ("Valid", "True|Valid|"),
    ] {
        let said = member.condition(&export, type_).await.expect(type_);
        assert!(said.starts_with(expected), "{type_}: {said}");
    }
    space
        .export_says("member2", "foo", "Conflict", "False|NoConflicts|")
        .await;

    env.installation.join(member).await;
    space
        .export_says("member1", "foo", "Ready", "True|Exported|")
        .await;
    space
        .export_says("member1", "foo", "Conflict", "True|PortConflict|")
        .await;
    for member in ["member1", "member2"] {
        let delete = ["delete", "serviceexport", "foo"];
        space.kubectl(env.member(member), delete).await;
    }
}
