//! Exports and imports in `kubectl mcs status`, on a separate fleet.

use causeway_tests::kubectl::Output;
use causeway_tests::{
    Cluster, Fleet, Installation, Running, SOON, Space, eventually, multi_cluster_service, service,
    service_export, service_import,
};
use serde_json::Value;

use crate::{ends, join, json, reader};

/// A hub with causeway's controller, and three members that are joined.
struct Set {
    fleet: Fleet,
    installation: Installation,
    _controller: Running,
}

impl Set {
    async fn start() -> Self {
        let fleet = Fleet::builder().members(3).start().await;
        let installation = Installation::new(&fleet).await;
        let controller = installation.controller().arg("--publish-exports");
        let controller = controller.start().await;
        for member in fleet.members() {
            ends(
                &join(&installation, member.name(), member, &[]).await,
                0,
                "is synced",
            );
        }
        Self {
            fleet,
            installation,
            _controller: controller,
        }
    }

    async fn status(&self, space: &Space<'_>, more: &[&str]) -> Output {
        let args = ["status", "-n", space.name()];
        let args = args.into_iter().chain(more.iter().copied());
        self.installation.kubectl_mcs(args).await
    }

    async fn exporter(&self, space: &Space<'_>, member: &str, port: u16) {
        let member = self.fleet.member(member);
        service("foo")
            .port("http", port)
            .create(member, space)
            .await;
        space.backends("foo").count(2).create(member).await;
        service_export("foo").create(member, space).await;
    }
}

async fn addresses(space: &Space<'_>, member: &Cluster, service: &str) -> String {
    let path = "-o=jsonpath={.spec.clusterIPs[*]}";
    let args = ["get", "service", service, "-n", space.name(), path];
    member.kubectl(args).await.ok()
}

fn part<'a>(exported: &'a Value, name: &str) -> &'a Value {
    let clusters = exported["clusters"].as_array().expect("clusters");
    let part = clusters.iter().find(|one| one["name"] == name);
    part.unwrap_or_else(|| panic!("no {name} in {exported:#}"))
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn exports_imports_conflicts_and_derived_addresses_are_shown() {
    let set = Set::start().await;
    let space = set.fleet.space("exported").await;
    ends(
        &set.status(&space, &["foo", "--wait", "--timeout=5s"]).await,
        1,
        "\"foo\" not found | neither a MultiClusterService on the hub nor a ServiceExport",
    );
    an_export_without_a_service_is_not_well(&set, &space).await;
    an_export_is_waited_for_and_reported(&set, &space).await;
    a_conflict_is_shown_and_is_well(&set, &space).await;
    an_import_that_nobody_exports_is_not_well(&set, &space).await;
    both_ways_to_one_name_are_shown(&set, &space).await;
    who_may_not_read_credentials_is_reported_once(&set, &space).await;
    a_member_that_does_not_answer_is_a_line(&set, &space).await;
}

async fn an_export_without_a_service_is_not_well(set: &Set, space: &Space<'_>) {
    let member = set.fleet.member("member1");
    service_export("foo").create(member, space).await;
    let seen = eventually("the controller says what is missing", SOON, || async {
        let output = set.status(space, &["foo"]).await;
        output.stdout.contains("NoService").then_some(output)
    })
    .await;
    ends(
        &seen,
        1,
        "
            False (NoService)
            EXPORT IN
            member1 has no Service
        ",
    );
    ends(
        &set.status(space, &[]).await,
        1,
        "foo | NoService | member1",
    );
    let late = set.status(space, &["foo", "--wait", "--timeout=3s"]).await;
    ends(&late, 1, "not ready within 3 s: export of | NoService");
    let delete = ["delete", "serviceexport", "foo", "-n", space.name()];
    member.kubectl(delete).await.ok();
}

async fn an_export_is_waited_for_and_reported(set: &Set, space: &Space<'_>) {
    set.exporter(space, "member1", 80).await;
    let waited = set
        .status(space, &["foo", "--wait", "--timeout=180s", "-o=json"])
        .await;
    ends(&waited, 0, "");
    let report = json(&waited);
    assert_eq!(report["unread"], Value::Array(Vec::new()), "{report:#}");
    let exported = &report["exports"][0];
    assert_eq!(exported["ready"], true, "{report:#}");
    assert_eq!(exported["type"], "ClusterSetIP");
    assert_eq!(exported["ports"][0], "http 80/TCP");
    assert_eq!(exported["exporters"], serde_json::json!(["member1"]));
    assert_eq!(
        exported["importers"],
        serde_json::json!(["member1", "member2", "member3"])
    );
    for member in set.fleet.members() {
        let part = part(exported, member.name());
        let derived = addresses(space, member, "derived-foo").await;
        assert_eq!(part["derived"]["name"], "derived-foo");
        assert_eq!(part["derived"]["addresses"][0], derived.as_str());
        assert_eq!(part["import"]["ips"][0], derived.as_str());
        assert_eq!(part["import"]["clusters"][0], "member1", "{part:#}");
    }
    eventually(
        "both pods are counted where they are imported",
        SOON,
        || async {
            let report = json(&set.status(space, &["foo", "-o=json"]).await);
            let sources = part(&report["exports"][0], "member2")["sources"].clone();
            let expected =
                serde_json::json!([{ "cluster": "member1", "slices": 1, "endpoints": 2 }]);
            if sources == expected {
                Ok(())
            } else {
                Err(sources.to_string())
            }
        },
    )
    .await;
    let member2 = addresses(space, set.fleet.member("member2"), "derived-foo").await;
    let details = set.status(space, &["foo"]).await;
    ends(
        &details,
        0,
        &format!(
            "foo.{}.svc.clusterset.local | True (Exported) | derived-foo | member1 1/2 | {member2}",
            space.name()
        ),
    );
    let overview = set.status(space, &[]).await;
    ends(
        &overview,
        0,
        "EXPORTED BY | member1,member2,member3 | Served",
    );
}

async fn a_conflict_is_shown_and_is_well(set: &Set, space: &Space<'_>) {
    set.exporter(space, "member2", 8080).await;
    let conflict = eventually("the conflict is reported", SOON, || async {
        let output = set.status(space, &["foo", "-o=json"]).await;
        let conflict = json(&output)["exports"][0]["conflict"].clone();
        (conflict["reason"] == "PortConflict").then_some(conflict)
    })
    .await;
    let message = conflict["message"].as_str().expect("a message").to_owned();
    ends(
        &set.status(space, &["foo", "--wait"]).await,
        0,
        &format!("True (PortConflict) | {message}"),
    );
    let overview = set.status(space, &[]).await;
    ends(
        &overview,
        0,
        &format!("member1,member2 | PortConflict | {message}"),
    );
}

async fn an_import_that_nobody_exports_is_not_well(set: &Set, space: &Space<'_>) {
    let member = set.fleet.member("member3");
    let bar = service_import("bar").port("http", 80);
    bar.create(member, space).await;
    let shown = set.status(space, &["bar"]).await;
    ends(
        &shown,
        1,
        "
            False (NoExport)
            make a ServiceExport
            foreign; causeway does not change it
        ",
    );
    let delete = ["delete", "serviceimport", "bar", "-n", space.name()];
    member.kubectl(delete).await.ok();
}

async fn both_ways_to_one_name_are_shown(set: &Set, space: &Space<'_>) {
    let hub = set.fleet.hub();
    service("both").port("http", 80).create(hub, space).await;
    let mcs = multi_cluster_service("both");
    let mcs = mcs.providers(["member1"]).consumers(["member2"]);
    mcs.create(space).await;
    let shown = eventually("it is published", SOON, || async {
        let output = set.status(space, &["both", "--wait"]).await;
        let reported = ["EXPORT IN", "IMPORT IN"];
        let reported = reported.iter().all(|words| output.stdout.contains(words));
        reported.then_some(output.clone()).ok_or(output.stdout)
    })
    .await;
    ends(
        &shown,
        0,
        &format!(
            "
                Providers:   member1
                True (Ready)
                both.{}.svc.clusterset.local
                Exported by:   member1
                published for the MultiClusterService of its name
            ",
            space.name()
        ),
    );
}

/// Somebody who sees the hub's objects and no Secrets.
async fn who_may_not_read_credentials_is_reported_once(set: &Set, space: &Space<'_>) {
    let kubeconfig = reader(set.fleet.hub(), space.name()).await;
    let shown = set.status(space, &["--kubeconfig", &kubeconfig]).await;
    ends(
        &shown,
        3,
        "
            member1
            Exports and imports of member1, member2, member3 are not shown: you may not read the Secrets
        ",
    );
    assert_eq!(shown.stdout.matches("you may not read").count(), 1);
}

async fn a_member_that_does_not_answer_is_a_line(set: &Set, space: &Space<'_>) {
    let lost = set.fleet.member("member3");
    lost.stop().await;
    let shown = set.status(space, &["foo"]).await;
    ends(
        &shown,
        3,
        "True (Exported) | Exports and imports of member3 are not shown: ",
    );
    let waited = set.status(space, &["foo", "--wait", "--timeout=3s"]).await;
    ends(
        &waited,
        3,
        "unknown after 3 s whether all is ready: member member3 is not read",
    );
    let mcs = &set.installation;
    let drain = ["drain", "member1", "--wait", "--timeout=3s"];
    let drained = eventually("nothing but the unread member is left", SOON, async || {
        let drained = mcs.kubectl_mcs(drain).await;
        let is_left = drained.stderr.contains("EndpointSlices left");
        (!is_left).then_some(drained)
    });
    let drained = drained.await;
    ends(&drained, 3, "it is unknown whether | cannot read member3");
    let undone = mcs.kubectl_mcs(["drain", "member1", "--undo"]).await;
    ends(&undone, 0, "in use again");
    let report = json(&set.status(space, &["foo", "-o=json"]).await);
    assert_eq!(report["unread"][0]["name"], "member3", "{report:#}");
    let missing = set.status(space, &["nothing"]).await;
    ends(&missing, 3, "\"nothing\" not found | not read: member3 (");
    lost.start().await;
}
