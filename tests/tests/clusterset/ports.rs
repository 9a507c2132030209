//! Exports whose ports differ: the import has the union, and traffic for a port goes to those that
//! have it.

use causeway::api::labels;
use causeway::api::multicluster::ServiceImport;
use causeway_tests::fixtures::ServiceFixture;
use causeway_tests::{SOON, eventually, service};
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};

use super::Turn;

/// member2 exports `older`, then member1 `younger`.
async fn export(turn: &Turn, older: ServiceFixture, younger: ServiceFixture) {
    for (member, exported) in [("member2", older), ("member1", younger)] {
        exported.create(turn.member(member), turn).await;
        turn.export_later(member).await;
        turn.pod(member).await;
    }
}

/// Name, number and protocol, as in `http 80/TCP`.
fn port_text(name: Option<&str>, number: i32, protocol: Option<&str>) -> String {
    let name = name.unwrap_or_default();
    let protocol = protocol.unwrap_or("TCP");
    format!("{name} {number}/{protocol}")
}

fn ports_of_import(import: &ServiceImport) -> Vec<String> {
    let ports = import.spec.ports.iter();
    ports
        .map(|port| port_text(port.name.as_deref(), port.port, port.protocol.as_deref()))
        .collect()
}

fn ports_of_service(spec: &ServiceSpec) -> Vec<String> {
    let ports = spec.ports.iter().flatten();
    ports
        .map(|port| port_text(port.name.as_deref(), port.port, port.protocol.as_deref()))
        .collect()
}

/// Waits until every cluster imports exactly these ports, and its derived Service has them.
async fn imported_with(turn: &Turn, expected: &[&str]) {
    for member in turn.members() {
        let name = member.name();
        let what = format!("the ports {expected:?}");
        turn.imported_as(name, &what, |import| ports_of_import(import) == expected)
            .await;
        turn.derived_as(name, &what, |spec| ports_of_service(spec) == expected)
            .await;
    }
}

/// Waits until the slices of that source have exactly these ports in a cluster, by name and number.
async fn carried(turn: &Turn, member: &str, source: &str, expected: &[(&str, i32)]) {
    let what = format!("{member} has {expected:?} of {source}");
    eventually(&what, SOON, async || {
        let slices = turn.imported_slices(member).await.into_iter();
        let slices = slices.filter(|slice| {
            let marks = slice.metadata.labels.as_ref();
            marks.is_some_and(|marks| {
                marks.get(labels::SOURCE_CLUSTER).map(String::as_str) == Some(source)
            })
        });
        let all = slices.flat_map(|slice| slice.ports.unwrap_or_default());
        let mut all: Vec<_> = all
            .map(|port| (port.name.unwrap_or_default(), port.port.unwrap_or_default()))
            .collect();
        all.sort();
        let all: Vec<_> = all
            .iter()
            .map(|(name, port)| (name.as_str(), *port))
            .collect();
        if all == expected {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
}

async fn conflict_of_ports(turn: &Turn) {
    for member in ["member1", "member2"] {
        turn.says(member, "Conflict", "True", "PortConflict").await;
    }
}

#[tokio::test]
async fn ports_are_the_union_and_that_is_a_conflict() {
    let turn = Turn::on_three().await;
    let older = service("foo").port("http", 80);
    let younger = service("foo").port("http", 80).port("metrics", 9090);
    export(&turn, older, younger).await;
    imported_with(&turn, &["http 80/TCP", "metrics 9090/TCP"]).await;
    conflict_of_ports(&turn).await;
}

#[tokio::test]
async fn traffic_for_a_port_goes_to_the_clusters_that_expose_it() {
    let turn = Turn::on_three().await;
    let older = service("foo").port_to("http", 80, 8080);
    let younger = service("foo").port_to("metrics", 9090, 9000);
    export(&turn, older, younger).await;
    imported_with(&turn, &["http 80/TCP", "metrics 9090/TCP"]).await;
    for member in turn.members() {
        carried(&turn, member.name(), "member2", &[("http", 8080)]).await;
        carried(&turn, member.name(), "member1", &[("metrics", 9000)]).await;
    }
    conflict_of_ports(&turn).await;
}

#[tokio::test]
async fn of_two_ports_of_one_name_the_oldest_is_used() {
    let turn = Turn::on_three().await;
    let older = service("foo").port("http", 80);
    let younger = service("foo").port("http", 8000).port("metrics", 9090);
    export(&turn, older, younger).await;
    imported_with(&turn, &["http 80/TCP", "metrics 9090/TCP"]).await;
    conflict_of_ports(&turn).await;
    for member in turn.members() {
        carried(&turn, member.name(), "member2", &[("http", 80)]).await;
        carried(&turn, member.name(), "member1", &[("metrics", 9090)]).await;
    }
}

#[tokio::test]
async fn of_two_names_of_one_port_the_oldest_is_used() {
    let turn = Turn::on_three().await;
    let older = service("foo").port_to("http", 80, 8080);
    let younger = service("foo").port_to("web", 80, 8000);
    export(&turn, older, younger).await;
    imported_with(&turn, &["http 80/TCP"]).await;
    conflict_of_ports(&turn).await;
    for member in turn.members() {
        carried(&turn, member.name(), "member2", &[("http", 8080)]).await;
        carried(&turn, member.name(), "member1", &[("http", 8000)]).await;
    }
}

#[tokio::test]
async fn ports_of_an_export_that_ends_go_with_it() {
    let turn = Turn::on_three().await;
    let older = service("foo").port("http", 80);
    let younger = service("foo").port("http", 80).port("metrics", 9090);
    export(&turn, older, younger).await;
    imported_with(&turn, &["http 80/TCP", "metrics 9090/TCP"]).await;
    turn.unexport("member1").await;
    imported_with(&turn, &["http 80/TCP"]).await;
    turn.says("member2", "Conflict", "False", "NoConflicts")
        .await;
}

fn port(name: &str, number: i32, protocol: &str, application: Option<&str>) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        protocol: Some(protocol.to_owned()),
        app_protocol: application.map(str::to_owned),
        ..ServicePort::default()
    }
}

#[tokio::test]
async fn ports_keep_protocol_and_application_protocol_when_imported() {
    let turn = Turn::on_three().await;
    let all = vec![
        port("dns", 53, "UDP", None),
        port("dns-tcp", 53, "TCP", None),
        port("grpc", 9000, "TCP", Some("kubernetes.io/h2c")),
        port("signal", 2905, "SCTP", None),
    ];
    let exported = service("foo").with(|spec| spec.ports = Some(all));
    exported.create(turn.member("member1"), &turn).await;
    turn.export("member1").await;
    let expected = [
        "dns 53/UDP",
        "dns-tcp 53/TCP",
        "grpc 9000/TCP",
        "signal 2905/SCTP",
    ];
    imported_with(&turn, &expected).await;
    let import = turn.imported_from("member2", &["member1"]).await;
    let application = import.spec.ports[2].app_protocol.as_deref();
    assert_eq!(application, Some("kubernetes.io/h2c"));
}

#[tokio::test]
async fn another_application_protocol_is_a_conflict() {
    let turn = Turn::on_three().await;
    let with = |application| {
        let http = vec![port("http", 80, "TCP", application)];
        service("foo").with(|spec| spec.ports = Some(http))
    };
    export(&turn, with(Some("http")), with(Some("kubernetes.io/h2c"))).await;
    conflict_of_ports(&turn).await;
    let import = turn.imported_from("member3", &["member1", "member2"]).await;
    let application = import.spec.ports[0].app_protocol.as_deref();
    assert_eq!(application, Some("http"), "the oldest's");
}

#[tokio::test]
async fn ports_without_names_are_imported_so_that_no_two_are_without() {
    let turn = Turn::on_three().await;
    let unnamed = |number| {
        let port = ServicePort {
            port: number,
            ..ServicePort::default()
        };
        service("foo").with(|spec| spec.ports = Some(vec![port]))
    };
    export(&turn, unnamed(80), unnamed(81)).await;
    imported_with(&turn, &[" 80/TCP"]).await;
    conflict_of_ports(&turn).await;
    // Beside a port that has a name, this one needs one too, as in any Service.
    let add = r#"[{"op": "add", "path": "/spec/ports/0/name", "value": "grpc"}]"#;
    let patched = ["patch", "svc", "foo", "--type=json", "-p", add];
    turn.kubectl("member1", patched).await;
    imported_with(&turn, &["tcp-80 80/TCP", "grpc 81/TCP"]).await;
    for member in turn.members() {
        carried(&turn, member.name(), "member2", &[("tcp-80", 80)]).await;
        carried(&turn, member.name(), "member1", &[("grpc", 81)]).await;
    }
}
