//! Reports in a member that is removed.

use causeway_tests::{SOON, Space};

use super::{Environment, NOTICED, condition, condition_now};

#[tokio::test]
async fn exports_of_an_unjoined_member_report_it_without_conflict() {
    let env = Environment::start(2, &[]).await;
    let space = env.fleet.space("leaving").await;
    for (member, port) in [("member1", 80), ("member2", 81)] {
        let namespace = space.name();
        let objects = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: foo, namespace: {namespace}}}\n\
             spec: {{ports: [{{name: http, port: {port}}}]}}\n---\n\
             apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\n\
             metadata: {{name: foo, namespace: {namespace}}}\n"
        );
        env.member(member).apply(&objects).await.ok();
    }
    for member in ["member1", "member2"] {
        export_says(&env, &space, member, "Conflict", "True|PortConflict|").await;
        export_says(&env, &space, member, "Ready", "True|Exported|").await;
    }
    env.installation
        .kubectl_mcs(["unjoin", "member1"])
        .await
        .ok();
    // It was said before the Cluster went.
    let object = ["get", "serviceexport", "foo", "-n", space.name()];
    let member = env.member("member1");
    for (type_, expected) in [
        ("Ready", "False|NotJoined|"),
        ("Conflict", "False|NoConflicts|"),
        ("Valid", "True|Valid|"),
    ] {
        let said = condition_now(member, &object, type_).await;
        assert!(said.starts_with(expected), "{type_}: {said}");
    }
    export_says(&env, &space, "member2", "Conflict", "False|NoConflicts|").await;

    env.installation.join(member).await;
    export_says(&env, &space, "member1", "Ready", "True|Exported|").await;
    export_says(&env, &space, "member1", "Conflict", "True|PortConflict|").await;
}

async fn export_says(
    env: &Environment,
    space: &Space<'_>,
    member: &str,
    type_: &str,
    expected: &str,
) {
    let object = ["get", "serviceexport", "foo", "-n", space.name()];
    let within = SOON.max(NOTICED);
    condition(env.member(member), &object, type_, expected, within).await;
}
