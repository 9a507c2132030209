mod clusterset;
mod native;

use causeway_tests::kubectl::Output;
use causeway_tests::reaper::Exit;
use causeway_tests::{Environment, Fleet, LONG, Space, eventually, multi_cluster_service, service};

use crate::{ends, json};

/// A hub and members called a, b and c, of which a and c provide and b consumes.
async fn start() -> Environment {
    let fleet = Fleet::builder().named_members(["a", "b", "c"]);
    Environment::start(fleet.start().await).await
}

async fn explain(env: &Environment, space: &Space<'_>) -> Output {
    env.mcs(explain_args(space)).await
}

/// Waits until the explanation says all of this and ends so.
async fn says(env: &Environment, space: &Space<'_>, code: i32, said: &str) {
    until(env, explain_args(space), code, said).await;
}

/// Waits until a command says all of this and ends so.
async fn until<const N: usize>(env: &Environment, args: [&str; N], code: i32, said: &str) {
    let what = format!("{} says {said}", args.join(" "));
    eventually(&what, LONG, || async {
        let output = env.mcs(args).await;
        let text = format!("{}{}", output.stdout, output.stderr);
        match said
            .split('|')
            .map(str::trim)
            .find(|part| !text.contains(part))
        {
            None if output.exit == Exit::Code(code) => Ok(()),
            None => Err(format!("{:?}:\n{text}", output.exit)),
            Some(part) => Err(format!("no {part:?} in:\n{text}")),
        }
    })
    .await;
}

/// kubectl on the hub; it must succeed.
async fn on_hub<const N: usize>(env: &Environment, args: [&str; N]) {
    env.hub().kubectl(args).await.ok();
}

/// A service of two ready backends in each provider.
async fn backed<'a>(env: &'a Environment, prefix: &str, providers: &[&str]) -> Space<'a> {
    let space = env.space(prefix).await;
    for name in providers {
        space.pods("foo", name, 2).await;
    }
    space
}

fn explain_args<'a>(space: &'a Space<'_>) -> [&'a str; 4] {
    ["explain", "foo", "-n", space.name()]
}

#[tokio::test]
async fn explain_names_the_obstacle_of_each_missing_endpoint() {
    let env = start().await;
    tokio::join!(
        a_healthy_service(&env),
        a_service_of_somebody_else(&env),
        a_port_that_differs(&env),
        a_service_that_nobody_asked_for(&env),
        native::all(&env),
    );
    a_drained_provider(&env).await;
    clusterset::all(&env).await;
    // It takes an API server away, so it is the last but one.
    an_unreachable_provider(&env).await;
    a_controller_that_has_ended(&env).await;
}

async fn a_healthy_service(env: &Environment) {
    let space = backed(env, "healthy", &["a"]).await;
    space.expose("foo", ["a"], ["b"]).await;
    says(
        env,
        &space,
        0,
        "every ready endpoint is in every consumer | 2 ready | Copied | a-foo-",
    )
    .await;
    let output = env
        .mcs(["explain", "foo", "-n", space.name(), "-o", "json"])
        .await;
    ends(&output, 0, "");
    let endpoints = &json(&output)["exposures"][0]["providers"][0]["endpoints"];
    let here = space.ready_addresses(env.member("a"), "foo").await;
    for address in &here {
        let endpoints = endpoints.as_array().expect("endpoints");
        let found = endpoints
            .iter()
            .find(|one| one["addresses"][0] == address.as_str());
        let found = found.unwrap_or_else(|| panic!("{address} is not in {endpoints:?}"));
        let slices = space.slices(env.member("b"), "foo").await;
        let copied = slices
            .iter()
            .any(|slice| slice.metadata.name.as_deref() == found["consumers"][0]["slice"].as_str());
        assert!(copied, "{found} names a slice that b has");
    }
    let every = env
        .mcs(["explain", "foo", "-n", space.name(), "--endpoints"])
        .await;
    for address in &here {
        ends(&every, 0, address);
    }
}

async fn a_service_of_somebody_else(env: &Environment) {
    let space = backed(env, "foreign", &["a"]).await;
    service("foo")
        .port("other", 81)
        .create(env.member("b"), &space)
        .await;
    space.expose("foo", ["a"], ["b"]).await;
    let said = format!(
        "2 ready | ForeignService: Service {0}/foo of b is somebody else's and lacks http 80/TCP; it has other 81/TCP | \
         in b: kubectl -n {0} edit service foo",
        space.name()
    );
    says(env, &space, 1, &said).await;
}

async fn a_port_that_differs(env: &Environment) {
    let space = backed(env, "ports", &["a"]).await;
    service("foo")
        .port("http", 8080)
        .create(env.member("a"), &space)
        .await;
    space.expose("foo", ["a"], ["b"]).await;
    says(
        env,
        &space,
        1,
        "PortNotInProvider: | of a has no port 80/TCP; it has http 8080/TCP | in a: kubectl",
    )
    .await;
}

async fn a_service_that_nobody_asked_for(env: &Environment) {
    let space = env.space("nothing").await;
    ends(
        &explain(env, &space).await,
        1,
        "NotExposed: the hub has no MultiClusterService | apply -f mcs.yaml",
    );
}

async fn a_drained_provider(env: &Environment) {
    let space = backed(env, "drained", &["a"]).await;
    space.expose("foo", ["a"], ["b"]).await;
    says(env, &space, 0, "Copied").await;

    let alone = format!(
        "warning: no other cluster in use provides | {}/foo",
        space.name()
    );
    ends(
        &env.mcs(["drain", "a", "--dry-run"]).await,
        0,
        &format!("drained (dry run) | {alone}"),
    );
    let entered = multi_cluster_service("outside").type_("LoadBalancer");
    let entered = entered.providers(["b"]).consumers(["a"]);
    entered.create(&space).await;
    let lost = "1 MultiClusterService loses the address of a: | warning: no other entry cluster of";
    ends(&env.mcs(["drain", "a", "--dry-run"]).await, 0, lost);
    let delete = ["delete", "mcs", "outside", "--wait=false"];
    space.kubectl(env.hub(), delete).await;
    ends(&explain(env, &space).await, 0, "Copied");
    let said = format!("cluster.cluster.karmada.io/a drained | a is withdrawn | {alone}");
    ends(&env.mcs(["drain", "a", "--wait"]).await, 0, &said);
    let left = space.ready_addresses(env.member("b"), "foo").await;
    assert!(left.is_empty(), "{left:?}");
    ends(&env.mcs(["drain", "a"]).await, 0, "a is drained already");
    says(
        env,
        &space,
        1,
        "Drained: a is drained | kubectl mcs drain a --undo",
    )
    .await;
    until(env, ["status"], 0, "Synced,Drained").await;

    ends(
        &env.mcs(["drain", "a", "--undo"]).await,
        0,
        "a in use again",
    );
    ends(
        &env.mcs(["drain", "a", "--undo"]).await,
        0,
        "a is not drained",
    );
    says(env, &space, 0, "Copied").await;
    ends(
        &env.mcs(["drain", "nobody"]).await,
        1,
        "nobody is not joined; kubectl mcs status",
    );
}

async fn an_unreachable_provider(env: &Environment) {
    let space = backed(env, "away", &["a", "c"]).await;
    space.expose("foo", ["a", "c"], ["b"]).await;
    says(env, &space, 0, "a-foo- | c-foo-").await;
    env.member("c").stop().await;
    says(env, &space, 1, "Kept: b keeps what c gave last | MemberUnreachable: c is unreachable for the controller since | kubectl mcs drain c").await;
    // A dead provider is dropped by a person.
    ends(
        &env.mcs(["drain", "c", "--wait"]).await,
        0,
        "c drained | c is withdrawn",
    );
    let left = space.slices(env.member("b"), "foo").await;
    let of_c = left.iter().filter(|slice| {
        slice
            .metadata
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with("c-"))
    });
    assert_eq!(of_c.count(), 0, "what c provided is withdrawn");
    says(env, &space, 1, "Drained: c is drained | Copied").await;
}

async fn a_controller_that_has_ended(env: &Environment) {
    let space = Space::create(&env.fleet, "ended", &[env.hub()]).await;
    env.controller.process().terminate();
    says(env,
        &space,
        1,
        "ControllerNotRunning: causeway-controller is not running: nobody holds Lease causeway-system/causeway-controller | \
         kubectl -n causeway-system get pods | MemberNotRead: the hub has no MultiClusterService",
    )
    .await;
}
