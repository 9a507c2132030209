//! Whatever happens, in whatever order.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::foo;
use crate::explain::tests::agreement::assert_agrees;
use crate::fixtures::objects::{Kind, Object, cluster, mcs, service, slice};
use crate::fixtures::{Environment, GRACE, env};
use causeway::api::labels;

/// Anything that may happen to a service in three members.
#[derive(Clone, Debug)]
enum Step {
    HubService {
        headless: bool,
        ports: u8,
        preference: bool,
    },
    NoHubService,
    Exposure {
        providers: u8,
        consumers: u8,
        port: bool,
    },
    NoExposure,
    Slice {
        member: u8,
        slice: u8,
        address: u8,
    },
    NoSlices {
        member: u8,
    },
    Foreign {
        member: u8,
    },
    /// Somebody applies over the Service that is there.
    Applied {
        member: u8,
    },
    NoService {
        member: u8,
    },
    Drain {
        member: u8,
        drained: bool,
    },
    Lose {
        member: u8,
    },
    Back {
        member: u8,
    },
    Silence {
        member: u8,
    },
    Restart,
    Crash {
        /// Which of the next writes arrive, by their bits.
        arrived: u8,
    },
    Wait {
        seconds: u16,
    },
}

/// What people ask for, and what their pods do.
fn request() -> impl Strategy<Value = Step> {
    let member = 1..=3u8;
    prop_oneof![
        3 => (any::<bool>(), 1..4u8, any::<bool>())
            .prop_map(|(headless, ports, preference)| Step::HubService { headless, ports, preference }),
        4 => (0..8u8, 0..8u8, any::<bool>())
            .prop_map(|(providers, consumers, port)| Step::Exposure { providers, consumers, port }),
        4 => (member.clone(), 0..3u8, 0..5u8).prop_map(|(member, slice, address)| Step::Slice { member, slice, address }),
        1 => member.clone().prop_map(|member| Step::Foreign { member }),
        1 => member.clone().prop_map(|member| Step::Applied { member }),
        1 => (member, any::<bool>()).prop_map(|(member, drained)| Step::Drain { member, drained }),
    ]
}

/// What hides the members from the controller and changes nothing.
fn loss() -> impl Strategy<Value = Step> {
    let member = 1..=3u8;
    prop_oneof![
        3 => member.clone().prop_map(|member| Step::Lose { member }),
        2 => member.clone().prop_map(|member| Step::Back { member }),
        1 => member.prop_map(|member| Step::Silence { member }),
        2 => Just(Step::Restart),
    ]
}

/// What people and accidents take away.
fn removal() -> impl Strategy<Value = Step> {
    let member = 1..=3u8;
    prop_oneof![
        Just(Step::NoHubService),
        Just(Step::NoExposure),
        member.clone().prop_map(|member| Step::NoSlices { member }),
        member.prop_map(|member| Step::NoService { member }),
        (0..400u16).prop_map(|seconds| Step::Wait { seconds }),
        any::<u8>().prop_map(|arrived| Step::Crash { arrived }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => request(), 1 => loss(), 1 => removal()]
}

/// Three members, and `foo` everywhere.
fn joined() -> Environment {
    let mut env = env();
    for member in 1..=3 {
        env.member(&of(member));
    }
    env.on_hub(foo()).on_hub(mcs("foo"));
    env
}

fn of(member: u8) -> String {
    format!("member{member}")
}

fn chosen(bits: u8) -> Vec<&'static str> {
    let members = ["member1", "member2", "member3"];
    let bit = |index: &usize| bits & (1 << index) != 0;
    (0..3).filter(bit).map(|index| members[index]).collect()
}

fn take(env: &mut Environment, step: &Step) {
    let has = |env: &Environment, kind, member: u8, name: &str| {
        env.members[&of(member)].get(kind, "shop", name).is_some()
    };
    match step {
        Step::HubService {
            headless,
            ports,
            preference,
        } => {
            let named = [("http", 80), ("grpc", 81), ("dns", 53)];
            let mut made = named
                .iter()
                .take(usize::from(*ports))
                .fold(service("foo"), |made, (name, port)| made.port(name, *port));
            if *headless {
                made = made.headless();
            }
            if *preference {
                made = made.with(json!({"spec": {"trafficDistribution": "PreferSameNode"}}));
            }
            if env.hub.get(Kind::Service, "shop", "foo").is_some() {
                env.off_hub(Kind::Service, "foo");
            }
            env.on_hub(made);
        }
        Step::NoHubService => {
            if env.hub.get(Kind::Service, "shop", "foo").is_some() {
                env.off_hub(Kind::Service, "foo");
            }
        }
        Step::Exposure {
            providers,
            consumers,
            port,
        } => {
            let made = mcs("foo")
                .providers(&chosen(*providers))
                .consumers(&chosen(*consumers));
            let going = env
                .mcs("foo")
                .is_some_and(|mcs| !mcs["metadata"]["deletionTimestamp"].is_null());
            if !going {
                env.on_hub(if *port { made.port("http", 80) } else { made });
            }
        }
        Step::NoExposure => {
            if env.mcs("foo").is_some() {
                env.off_hub(Kind::Mcs, "foo");
            }
        }
        Step::Slice {
            member,
            slice: number,
            address,
        } => {
            let made = slice(&format!("foo-{number}"), "foo")
                .port("http", 8080)
                .port("grpc", 8081);
            env.on(
                &of(*member),
                made.endpoint(&format!("10.{member}.{number}.{address}")),
            );
        }
        Step::NoSlices { member } => {
            for name in ["foo-0", "foo-1", "foo-2"] {
                if has(env, Kind::Slice, *member, name) {
                    env.off(&of(*member), Kind::Slice, name);
                }
            }
        }
        Step::Foreign { member } => {
            if !has(env, Kind::Service, *member, "foo") {
                env.on(&of(*member), service("foo").port("web", 80));
            }
        }
        Step::Applied { member } => {
            let there = env.members[&of(*member)].get(Kind::Service, "shop", "foo");
            if let Some(value) = there.cloned() {
                let fields = json!({"f:spec": {"f:selector": {}}});
                let entry = json!({"manager": "flux", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields});
                let service = Object {
                    kind: Kind::Service,
                    value,
                };
                let applied = json!({"metadata": {"managedFields": [entry]}, "spec": {"selector": {"app": "theirs"}}});
                env.on(&of(*member), service.with(applied));
            }
        }
        Step::NoService { member } => {
            if has(env, Kind::Service, *member, "foo") {
                env.off(&of(*member), Kind::Service, "foo");
            }
        }
        Step::Drain { member, drained } => {
            let annotations = json!({labels::WITHDRAW: drained.to_string()});
            env.on_hub(
                cluster(&of(*member)).with(json!({"metadata": {"annotations": annotations}})),
            );
        }
        Step::Lose { member } => {
            env.lose(&of(*member));
        }
        Step::Back { member } => {
            let uid = format!("uid-of-{}", of(*member));
            env.reconnect(&of(*member))
                .identify(&of(*member), &uid, (1, 34));
            env.list(&of(*member));
        }
        Step::Silence { member } => {
            env.silence(&of(*member));
        }
        Step::Restart => {
            env.restart();
        }
        Step::Crash { arrived } => {
            env.crash(*arrived);
        }
        Step::Wait { seconds } => {
            env.pass(Duration::from_secs(u64::from(*seconds)));
        }
    }
}

/// What the members hold, without identities and versions.
fn picture(env: &Environment) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, server) in &env.members {
        for kind in [Kind::Service, Kind::Slice] {
            for object in server.all(kind) {
                let mut object = object.clone();
                for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
                    object["metadata"][field] = Value::Null;
                }
                object["metadata"]["annotations"][labels::SOURCE] = Value::Null;
                object["spec"]["clusterIP"] = json!(object["spec"]["clusterIP"] == "None");
                all.push(json!([name, object]));
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_clusters_come_to_rest_and_a_restart_changes_nothing(steps in prop::collection::vec(step(), 1..25)) {
        let mut env = joined();
        for (index, step) in steps.iter().enumerate() {
            take(&mut env, step);
            if !matches!(steps.get(index + 1), Some(Step::Crash { .. })) {
                env.work();
            }
        }
        for member in 1..=3 {
            take(&mut env, &Step::Back { member });
        }
        env.pass(GRACE + GRACE);
        env.assert_at_rest();
        let before = picture(&env);
        env.restart().pass(GRACE + GRACE);
        prop_assert_eq!(picture(&env), before);
        env.assert_at_rest();
    }

    #[test]
    fn to_lose_sight_of_clusters_costs_no_member_anything(
        requests in prop::collection::vec(request(), 1..12), losses in prop::collection::vec(loss(), 1..12),
    ) {
        let mut env = joined();
        for request in &requests {
            take(&mut env, request);
            env.work();
        }
        env.pass(GRACE + GRACE).forget_writes();
        for loss in &losses {
            take(&mut env, loss);
            env.pass(Duration::from_secs(40));
        }
        let members: Vec<_> = env.log().into_iter().filter(|line| !line.starts_with("hub")).collect();
        prop_assert_eq!(members, Vec::<String>::new());
    }

    #[test]
    fn explain_and_the_controller_never_disagree(
        steps in prop::collection::vec(step(), 1..20), lost in prop::collection::vec(any::<bool>(), 3),
    ) {
        let mut env = joined();
        env.keeps_clusters = true;
        for step in &steps {
            take(&mut env, step);
            env.work();
        }
        for (member, lost) in (1..=3).zip(lost) {
            take(&mut env, &Step::Back { member });
            if lost {
                env.pass(GRACE);
                take(&mut env, &Step::Lose { member });
            }
        }
        env.pass(GRACE + GRACE);
        assert_agrees(&env);
    }
}
