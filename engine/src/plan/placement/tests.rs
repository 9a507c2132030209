use std::time::Duration;

use serde_json::json;

use super::*;
use crate::fixtures::objects::{Kind, cluster, drained, foo, mcs, slice, source};
use crate::fixtures::{Environment, env, name};

/// Returns an environment of three members with pods of `foo` each, at `10.<n>.0.5`.
fn three() -> Environment {
    let mut env = env();
    for (member, address) in [
        ("member1", "10.1.0.5"),
        ("member2", "10.2.0.5"),
        ("member3", "10.3.0.5"),
    ] {
        env.member(member).on(member, source(address));
    }
    env.on_hub(foo());
    env
}

fn place_them(env: &mut Environment, providers: &[&str], consumers: &[&str]) {
    env.on_hub(mcs("foo").providers(providers).consumers(consumers))
        .settle();
    env.assert_at_rest();
}

/// Describes each member: p for a Service with pods, c for one without, and the addresses from
/// other clusters.
fn picture(env: &Environment) -> Vec<String> {
    ["member1", "member2", "member3"]
        .map(|cluster| {
            let role = match env.service(cluster, "foo") {
                None => "-",
                Some(service) if service["spec"]["selector"] == json!({"app": "foo"}) => "p",
                Some(_) => "c",
            };
            let mut addresses = env.addresses(cluster, "foo");
            addresses.sort();
            format!("{role} {}", addresses.join(" "))
                .trim_end()
                .to_owned()
        })
        .to_vec()
}

#[test]
fn every_change_of_roles_ends_as_if_it_had_always_been_so() {
    let roles: [(&[&str], &[&str], [&str; 3]); 8] = [
        (&["member1"], &["member2"], ["p", "c 10.1.0.5", "-"]),
        (&["member2"], &["member1"], ["c 10.2.0.5", "p", "-"]),
        (
            &["member1"],
            &["member2", "member3"],
            ["p", "c 10.1.0.5", "c 10.1.0.5"],
        ),
        (
            &["member1", "member2"],
            &["member2", "member3"],
            ["p", "p 10.1.0.5", "c 10.1.0.5 10.2.0.5"],
        ),
        (&["member1"], &["member1"], ["p", "-", "-"]),
        (&[], &["member3"], ["p", "p", "p 10.1.0.5 10.2.0.5"]),
        (&["member3"], &[], ["c 10.3.0.5", "c 10.3.0.5", "p"]),
        (
            &[],
            &[],
            [
                "p 10.2.0.5 10.3.0.5",
                "p 10.1.0.5 10.3.0.5",
                "p 10.1.0.5 10.2.0.5",
            ],
        ),
    ];
    for (from_providers, from_consumers, from) in roles {
        for (to_providers, to_consumers, to) in roles {
            let mut env = three();
            place_them(&mut env, from_providers, from_consumers);
            assert_eq!(picture(&env), from);
            place_them(&mut env, to_providers, to_consumers);
            assert_eq!(picture(&env), to, "after {from:?}");
            assert!(env.is_ready("foo"));
        }
    }
}

#[test]
fn a_change_of_roles_touches_only_whom_it_concerns() {
    let mut env = three();
    place_them(&mut env, &["member1"], &["member2"]);
    env.forget_writes()
        .on_hub(
            mcs("foo")
                .providers(&["member1"])
                .consumers(&["member2", "member3"]),
        )
        .settle();
    assert_eq!(
        env.member_log(),
        ["member3 create Service", "member3 create EndpointSlice"]
    );
    env.forget_writes()
        .on_hub(
            mcs("foo")
                .providers(&["member1", "member3"])
                .consumers(&["member2"]),
        )
        .settle();
    let mut members = env.member_log();
    members.sort();
    assert_eq!(
        members,
        [
            "member2 create EndpointSlice",
            "member3 delete EndpointSlice",
            "member3 patch Service"
        ]
    );
}

#[test]
fn who_joins_takes_part_at_once_where_no_list_says_otherwise() {
    let mut env = three();
    place_them(&mut env, &["member1"], &[]);
    let message = |clusters| {
        format!("True Ready: shop/foo can be reached from {clusters} clusters, backed by 1 cluster")
    };
    env.silent_member("member4").settle();
    assert_eq!(
        env.says("foo", "Ready"),
        message(3),
        "nothing is said of member4 before it is so"
    );
    env.identify("member4", "uid-of-member4", (1, 34))
        .list("member4")
        .settle();
    assert_eq!(env.addresses("member4", "foo"), ["10.1.0.5"]);
    assert_eq!(env.says("foo", "Ready"), message(4));
}

#[test]
fn a_cluster_that_nobody_joined_counts_as_not_done_and_takes_nothing_from_the_others() {
    let mut env = three();
    place_them(&mut env, &["member1", "member9"], &["member2", "member8"]);
    assert_eq!(picture(&env), ["p", "c 10.1.0.5", "-"]);
    let message =
        "False ServiceAppliedFailed: 2 of 4 clusters: member8 is not joined; member9 is not joined";
    assert_eq!(env.says("foo", "Ready"), message);
    env.member("member8").member("member9").on(
        "member9",
        slice("foo-x", "foo")
            .port("http", 8080)
            .endpoint("10.9.0.5"),
    );
    env.settle();
    assert_eq!(env.addresses("member8", "foo"), ["10.1.0.5", "10.9.0.5"]);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn version_that_goes_back_withdraws_nothing() {
    let mut env = three();
    place_them(&mut env, &["member1"], &["member3"]);
    env.forget_writes();
    env.upgrade("member1", "uid-of-member1", (0, 0)).settle();
    assert_eq!(env.addresses("member3", "foo"), ["10.1.0.5"]);
    assert_eq!(env.log(), Vec::<String>::new());
}

#[test]
fn pull_mode_without_credentials_and_old_members_are_named_and_left_out() {
    let mut env = three();
    env.pull_without_credentials("member2");
    env.silent_member("member4")
        .identify("member4", "uid-of-4", (1, 20))
        .list("member4");
    place_them(&mut env, &["member1"], &[]);
    assert_eq!(picture(&env), ["p", "-", "c 10.1.0.5"]);
    assert!(env.service("member4", "foo").is_none());
    let message = "True Ready: shop/foo can be reached from 2 clusters, backed by 1 cluster; left out: member2 (Pull mode without \
                   credentials), member4 (Kubernetes v1.20.0 is older than 1.21)";
    assert_eq!(env.says("foo", "Ready"), message);
    let left_out = env.plan("foo").placement.left_out;
    assert_eq!(
        left_out.into_keys().collect::<Vec<_>>(),
        [name("member2"), name("member4")]
    );
    env.identify("member4", "uid-of-4", (1, 21)).settle();
    assert!(env.service("member4", "foo").is_some());
}

#[test]
fn pull_mode_with_credentials_takes_part() {
    let mut env = three();
    let secret = json!({"namespace": "karmada-cluster", "name": "member2"});
    let pull = json!({"spec": {"syncMode": "Pull", "secretRef": secret}});
    env.on_hub(cluster("member2").with(pull));
    place_them(&mut env, &["member1"], &[]);
    assert_eq!(picture(&env), ["p", "c 10.1.0.5", "c 10.1.0.5"]);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn credentials_that_are_lost_in_pull_mode_withdraw_nothing() {
    let mut env = three();
    place_them(&mut env, &["member1"], &[]);
    env.forget_writes();
    env.pull_without_credentials("member1").settle();
    assert_eq!(env.addresses("member3", "foo"), ["10.1.0.5"]);
    let message = env.says("foo", "Ready");
    assert!(
        message.contains("member1 (Pull mode without credentials)"),
        "{message}"
    );
}

#[test]
fn drained_cluster_without_credentials_loses_its_copies() {
    let mut env = three();
    place_them(&mut env, &["member1"], &[]);
    env.pull_without_credentials("member1").settle();
    assert_eq!(env.addresses("member3", "foo"), ["10.1.0.5"]);
    let pull = json!({"spec": {"syncMode": "Pull"}});
    env.on_hub(drained("member1", true).with(pull)).settle();
    let left = env.addresses("member3", "foo");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn former_provider_without_credentials_loses_its_copies() {
    let mut env = three();
    place_them(&mut env, &["member1", "member2"], &[]);
    env.pull_without_credentials("member1").settle();
    assert_eq!(picture(&env)[2], "c 10.1.0.5 10.2.0.5");
    // It is a consumer still.
    env.on_hub(mcs("foo").providers(&["member2"])).settle();
    assert_eq!(picture(&env)[2], "c 10.2.0.5");
}

#[test]
fn what_a_drained_member_provides_is_used_no_more_and_it_still_consumes() {
    let mut env = three();
    place_them(&mut env, &[], &[]);
    env.on_hub(drained("member1", true)).settle();
    assert_eq!(
        picture(&env),
        ["p 10.2.0.5 10.3.0.5", "p 10.3.0.5", "p 10.2.0.5"]
    );
    let message = "True Ready: shop/foo can be reached from 3 clusters, backed by 2 clusters; left out: member1 (withdrawn)";
    assert_eq!(env.says("foo", "Ready"), message);
    env.on_hub(drained("member1", false)).settle();
    assert_eq!(
        picture(&env),
        [
            "p 10.2.0.5 10.3.0.5",
            "p 10.1.0.5 10.3.0.5",
            "p 10.1.0.5 10.2.0.5"
        ]
    );
}

#[test]
fn a_service_whose_only_provider_is_drained_is_not_ready_and_nothing_else_is_said() {
    let mut env = three();
    place_them(&mut env, &["member1"], &["member2", "member3"]);
    let others = |env: &Environment| {
        [
            "ServiceApplied",
            "EndpointSliceDispatched",
            "EndpointSliceApplied",
        ]
        .map(|type_| env.condition("foo", type_))
    };
    let before = others(&env);
    env.forget_writes();
    env.on_hub(drained("member1", true)).settle();
    assert_eq!(env.addresses("member2", "foo"), Vec::<String>::new());
    let message = "False NoProviders: no cluster backs shop/foo: member1 (withdrawn)";
    assert_eq!(env.says("foo", "Ready"), message);
    let reported: Vec<_> = env.recorded.iter().map(|one| &*one.reason).collect();
    assert_eq!(reported, ["NoProviders"]);
    assert_eq!(others(&env), before);
    env.assert_at_rest();
    env.on_hub(drained("member1", false)).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
    assert_eq!(others(&env), before);
}

#[test]
fn a_service_that_only_clusters_provide_that_take_no_part_is_not_ready() {
    let mut env = three();
    env.pull_without_credentials("member2");
    place_them(&mut env, &["member2"], &["member1"]);
    let message =
        "False NoProviders: no cluster backs shop/foo: member2 (Pull mode without credentials)";
    assert_eq!(env.says("foo", "Ready"), message);
}

#[test]
fn a_service_whose_only_provider_is_given_up_says_so() {
    const HOUR: Duration = Duration::from_secs(3600);
    let mut env = three();
    env.settings.provider_ttl = Some(HOUR);
    place_them(&mut env, &["member1"], &["member2"]);
    env.lose("member1").pass(HOUR / 2);
    let unreachable = env.says("foo", "Ready");
    assert!(
        unreachable.ends_with("(connection refused)"),
        "{unreachable}"
    );
    env.pass(HOUR);
    let given_up = format!(
        "{unreachable}; no cluster backs shop/foo: member1 (out of reach for longer than --provider-ttl)"
    );
    assert_eq!(env.says("foo", "Ready"), given_up);
}

#[test]
fn both_lists_may_name_one_member() {
    let mut env = three();
    place_them(&mut env, &["member1"], &["member1"]);
    let roles = Roles {
        provider: true,
        consumer: true,
    };
    assert_eq!(
        env.plan("foo").placement.targets,
        [(name("member1"), roles)].into()
    );
}

#[test]
fn the_whole_service_goes_with_its_multi_cluster_service() {
    let mut env = three();
    place_them(&mut env, &[], &[]);
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(picture(&env), ["-", "-", "-"]);
    assert!(env.mcs("foo").is_none());
}
