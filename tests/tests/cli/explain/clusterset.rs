//! Places of the endpoints of ServiceExports under the clusterset's name, and reasons for missing
//! ones.

use causeway_tests::{Space, service, service_export};

use causeway_tests::Environment;

use super::{backed, on_hub, says};
use crate::{ends, json};

pub(super) async fn all(env: &Environment) {
    tokio::join!(
        an_export_that_is_everywhere(env),
        exports_that_disagree(env),
        an_export_without_a_service(env),
        a_derived_name_that_is_taken(env),
        a_cluster_without_the_namespace(env),
        pods_that_are_not_exported(env),
    );
    // What concerns a whole member, one after the other.
    let space = exported(env, "whole").await;
    says(env, &space, 0, "Copied").await;
    addresses_that_are_refused(env, &space).await;
    a_namespace_that_may_not_export(env, &space).await;
    a_cluster_without_the_definitions(env, &space).await;
}

/// `foo` of a, exported.
async fn export(env: &Environment, space: &Space<'_>, member: &str) {
    let member = env.member(member);
    service("foo").port("http", 80).create(member, space).await;
    service_export("foo").create(member, space).await;
}

async fn exported<'a>(env: &'a Environment, prefix: &str) -> Space<'a> {
    let space = backed(env, prefix, &["a"]).await;
    export(env, &space, "a").await;
    space
}

async fn an_export_that_is_everywhere(env: &Environment) {
    let space = exported(env, "everywhere").await;
    let said = format!(
        "every ready endpoint is in every consumer | foo.{}.svc.clusterset.local | 2 ready | Copied | imported-a-foo-",
        space.name()
    );
    says(env, &space, 0, &said).await;
    let explain = ["explain", "foo", "-n", space.name()];
    let output = env
        .installation
        .kubectl_mcs(explain.into_iter().chain(["-o", "json"]))
        .await;
    ends(&output, 0, "");
    let exposure = &json(&output)["exposures"][0];
    assert_eq!(exposure["exposure"], "ClusterSet");
    let endpoints = exposure["providers"][0]["endpoints"]
        .as_array()
        .expect("endpoints")
        .clone();
    let here = space.ready_addresses(env.member("a"), "foo").await;
    assert_eq!(endpoints.len(), here.len());
    for endpoint in &endpoints {
        for state in endpoint["consumers"].as_array().expect("consumers") {
            let consumer = state["cluster"].as_str().expect("a name");
            let slices = space.slices(env.member(consumer), "derived-foo").await;
            let named = slices
                .iter()
                .find(|slice| slice.metadata.name.as_deref() == state["slice"].as_str());
            let named =
                named.unwrap_or_else(|| panic!("{state} names a slice that {consumer} has"));
            let mut addresses = named.endpoints.iter().map(|one| one.addresses[0].as_str());
            assert!(
                addresses.any(|address| endpoint["addresses"][0] == address),
                "{endpoint}"
            );
        }
    }
    let output = env
        .installation
        .kubectl_mcs(explain.into_iter().chain(["-o", "yaml"]))
        .await;
    ends(
        &output,
        0,
        "ready: true | exposure: ClusterSet | reason: Copied",
    );
}

async fn exports_that_disagree(env: &Environment) {
    let space = exported(env, "disagree").await;
    says(env, &space, 0, "Copied").await;
    space.pods("foo", "c", 1).await;
    let other = service("foo").port("http", 80).port("admin", 81);
    other.create(env.member("c"), &space).await;
    service_export("foo").create(env.member("c"), &space).await;
    says(
        env,
        &space,
        0,
        "ExportsDisagree: the exports disagree, and the oldest decides: PortConflict",
    )
    .await;
}

async fn an_export_without_a_service(env: &Environment) {
    let space = env.space("bare").await;
    service_export("foo").create(env.member("a"), &space).await;
    let said = "NoProviderService: a has no Service | NoEndpoints";
    says(env, &space, 1, said).await;
}

async fn a_derived_name_that_is_taken(env: &Environment) {
    let space = backed(env, "taken", &["a"]).await;
    let theirs = service("derived-foo").port("http", 80);
    theirs.create(env.member("b"), &space).await;
    export(env, &space, "a").await;
    let said = format!(
        "ServiceConflict: Service {0}/derived-foo of b has the name under which {0}/foo is imported, and is another | \
         in b: kubectl -n {0} delete service derived-foo",
        space.name()
    );
    says(env, &space, 1, &said).await;
}

async fn a_cluster_without_the_namespace(env: &Environment) {
    let clusters = [env.member("a"), env.member("b")];
    let space = Space::create(&env.fleet, "absent", &clusters).await;
    space.backends("foo").create(clusters[0]).await;
    export(env, &space, "a").await;
    let said = format!(
        "Copied | NotImported: c without namespace {0} | in c: kubectl create namespace {0}",
        space.name()
    );
    says(env, &space, 0, &said).await;
}

async fn pods_that_are_not_exported(env: &Environment) {
    let space = exported(env, "unexported").await;
    space.pods("foo", "c", 1).await;
    service("foo")
        .port("http", 80)
        .create(env.member("c"), &space)
        .await;
    let said = "Copied | NotNamed: c has endpoints of its own | does not export them | in c: make a ServiceExport";
    says(env, &space, 0, said).await;
}

async fn addresses_that_are_refused(env: &Environment, space: &Space<'_>) {
    let cidrs = "mcs.causeway.dev/endpoint-cidrs";
    on_hub(
        env,
        ["annotate", "cluster", "a", &format!("{cidrs}=192.0.2.0/24")],
    )
    .await;
    let said = format!(
        "AddressOutsideRanges: | kubectl annotate cluster a --overwrite {cidrs}=192.0.2.0/24,"
    );
    says(env, space, 1, &said).await;
    on_hub(env, ["annotate", "cluster", "a", &format!("{cidrs}-")]).await;
    says(env, space, 0, "Copied").await;
}

async fn a_namespace_that_may_not_export(env: &Environment, space: &Space<'_>) {
    let allowed = "mcs.causeway.dev/export-namespaces";
    on_hub(env, ["annotate", "cluster", "a", &format!("{allowed}=web")]).await;
    let said = format!(
        "ExportRefused: | does not let a export from namespace | {allowed}=web,{}",
        space.name()
    );
    says(env, space, 1, &said).await;
    on_hub(env, ["annotate", "cluster", "a", &format!("{allowed}-")]).await;
    says(env, space, 0, "Copied").await;
}

async fn a_cluster_without_the_definitions(env: &Environment, space: &Space<'_>) {
    let other = env.member("c");
    other.forget_clusterset().await;
    let said =
        "DefinitionMissing: c takes no part in the clusterset: NotServed | kubectl mcs join c";
    says(env, space, 1, said).await;
    other.serve_clusterset().await;
    says(env, space, 0, "every ready endpoint is in every consumer").await;
}
