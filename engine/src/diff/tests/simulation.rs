//! Random steps, in random order.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::foo;
use crate::explain::tests::agreement::assert_agrees;
use crate::fixtures::annotations::{annotations, located};
use crate::fixtures::networks::{NetworkStep, network_step, without_numbers};
use crate::fixtures::objects::{Kind, Object, mcs, service, slice};
use crate::fixtures::{Environment, GRACE, env};
use causeway::api::labels;

/// Step that may happen to a service in three members.
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
        annotations: Value,
    },
    NoExposure,
    Slice {
        member: u8,
        slice: u8,
        address: u8,
    },
    /// Slice that a person writes, with any content of a slice of Kubernetes. Its endpoint is on a
    /// node if the address is odd.
    SliceByHand {
        member: u8,
        slice: u8,
        address: u8,
        ready: bool,
    },
    NoSlices {
        member: u8,
    },
    Foreign {
        member: u8,
    },
    /// An apply by somebody over the existing Service.
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
    Network {
        member: u8,
        step: NetworkStep,
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
        /// Bits that select which of the next writes arrive.
        arrived: u8,
    },
    Wait {
        seconds: u16,
    },
}

/// Returns a change of requests by people, or of their pods.
fn request() -> impl Strategy<Value = Step> {
    let member = 1..=3u8;
    prop_oneof![
        3 => (any::<bool>(), 1..4u8, any::<bool>())
            .prop_map(|(headless, ports, preference)| Step::HubService { headless, ports, preference }),
        4 => (0..8u8, 0..8u8, any::<bool>(), annotations())
            .prop_map(|(providers, consumers, port, annotations)| {
                Step::Exposure { providers, consumers, port, annotations }
            }),
        4 => (member.clone(), 0..3u8, 0..5u8).prop_map(|(member, slice, address)| Step::Slice { member, slice, address }),
        2 => (member.clone(), 0..3u8, 0..5u8, any::<bool>())
            .prop_map(|(member, slice, address, ready)| Step::SliceByHand { member, slice, address, ready }),
        1 => member.clone().prop_map(|member| Step::Foreign { member }),
        1 => member.clone().prop_map(|member| Step::Applied { member }),
        1 => (member.clone(), any::<bool>()).prop_map(|(member, drained)| Step::Drain { member, drained }),
        2 => (member, network_step()).prop_map(|(member, step)| Step::Network { member, step }),
    ]
}

/// Returns a step that hides members from the controller or shows them again, and changes no
/// object.
fn loss() -> impl Strategy<Value = Step> {
    let member = 1..=3u8;
    prop_oneof![
        3 => member.clone().prop_map(|member| Step::Lose { member }),
        2 => member.clone().prop_map(|member| Step::Back { member }),
        1 => member.prop_map(|member| Step::Silence { member }),
        2 => Just(Step::Restart),
    ]
}

/// Returns a removal by people, a crash that loses writes, or a wait.
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

/// Returns a change whose result does not depend on earlier writes of the controller.
fn change() -> impl Strategy<Value = Step> {
    let is_independent = |step: &Step| {
        !matches!(
            step,
            Step::Foreign { .. }
                | Step::Applied { .. }
                | Step::NoExposure
                | Step::Crash { .. }
                | Step::Wait { .. }
        )
    };
    let any = prop_oneof![3 => request(), 1 => removal()];
    any.prop_filter("depends on what is there", is_independent)
}

/// Retains the endpoints of unreachable members, whatever the MultiClusterService requests.
fn patient(mut step: Step) -> Step {
    if let Step::Exposure { annotations, .. } = &mut step {
        annotations[labels::UNREACHABLE] = Value::Null;
    }
    step
}

/// Outage of one member, which begins after some of the changes and ends after more of them.
#[derive(Clone, Copy, Debug)]
struct Outage {
    member: u8,
    begins: usize,
    changes: usize,
    /// Whether the controller restarts while the member is lost.
    restarts: bool,
}

fn outage() -> impl Strategy<Value = Outage> {
    let all = (1..=3u8, 0..12usize, 0..4usize, any::<bool>());
    all.prop_map(|(member, begins, changes, restarts)| Outage {
        member,
        begins,
        changes,
        restarts,
    })
}

impl Outage {
    /// Begins or ends the outage before the change of that number.
    fn take(self, env: &mut Environment, number: usize) {
        if number == self.begins {
            env.lose(&of(self.member));
            if self.restarts {
                env.restart();
            }
            env.pass(Duration::from_secs(90));
        }
        if number == self.begins + self.changes + 1 {
            take(
                env,
                &Step::Back {
                    member: self.member,
                },
            );
        }
    }
}

/// Returns an environment with three members, and `foo` everywhere.
fn joined() -> Environment {
    joined_watching(false)
}

/// Returns the same, in which exposed EndpointSlices alone are watched, or all.
fn joined_watching(exposed: bool) -> Environment {
    let mut env = env();
    env.watches_exposed = exposed;
    for member in 1..=3 {
        env.member(&of(member)).on_hub(located(&of(member)));
        env.nodes(&of(member));
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
            annotations,
        } => {
            let made = mcs("foo")
                .annotated(annotations)
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
            let endpoint = json!({
                "addresses": [format!("10.{member}.{number}.{address}")],
                "nodeName": format!("n{}", 1 + address % 2),
                "conditions": {"ready": true},
            });
            env.on(&of(*member), made.endpoint_with(endpoint));
        }
        Step::SliceByHand {
            member,
            slice: number,
            address,
            ready,
        } => {
            let addresses = [format!("10.{member}.{number}.{address}")];
            let node = (address % 2 == 1).then_some("n1");
            let endpoint =
                json!({"addresses": addresses, "nodeName": node, "conditions": {"ready": ready}});
            let bare = json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: null}}});
            let made = slice("foo-by-hand", "foo").port("http", 8080);
            let made = made.port("grpc", 8081).endpoint_with(endpoint).with(bare);
            env.on(&of(*member), made);
        }
        Step::NoSlices { member } => {
            for name in ["foo-0", "foo-1", "foo-2", "foo-by-hand"] {
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
            env.on_hub(located(&of(*member)).annotated(&annotations));
        }
        Step::Network { member, step } => env.take_network_step(&of(*member), *step),
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

/// Returns the objects of the members, without identities, versions, times and virtual addresses.
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
                without_numbers(&mut object);
                all.push(json!([name, object]));
            }
        }
    }
    all
}

/// Returns the identities of the objects that causeway wrote, and the endpoints that clients use by
/// them.
fn held(env: &Environment) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (member, server) in &env.members {
        let ours = |object: &&Value| !object["metadata"]["labels"][labels::HUB].is_null();
        let services = server.all(Kind::Service).filter(ours);
        all.extend(services.map(|service| {
            let spec = &service["spec"];
            format!(
                "{member} {} {} {}",
                service["metadata"]["uid"], spec["clusterIP"], spec["ports"]
            )
        }));
        for slice in server.all(Kind::Slice).filter(ours) {
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            let ready = endpoints.filter(|one| one["conditions"]["ready"] != false);
            all.extend(
                ready.map(|one| format!("{member} {} {}", one["addresses"], slice["ports"])),
            );
        }
    }
    all
}

#[test]
fn explanation_of_an_entry_knows_the_slice_that_makes_another_redundant() {
    let mut env = joined();
    env.keeps_clusters = true;
    let by_hand = Step::SliceByHand {
        member: 2,
        slice: 0,
        address: 0,
        ready: false,
    };
    let edge = NetworkStep::Cluster {
        edge: true,
        reach: Some("node-ports"),
    };
    let of_kubernetes = Step::Slice {
        member: 2,
        slice: 0,
        address: 0,
    };
    let edge = Step::Network {
        member: 2,
        step: edge,
    };
    for step in [by_hand, edge, of_kubernetes] {
        take(&mut env, &step);
        env.work();
    }
    for member in 1..=3 {
        take(&mut env, &Step::Back { member });
    }
    env.pass(GRACE + GRACE);
    assert_agrees(&env);
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
        exposed in any::<bool>(),
    ) {
        let mut env = joined_watching(exposed);
        for request in requests.into_iter().map(patient) {
            take(&mut env, &request);
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
    fn watches_of_exposed_slices_end_as_those_of_all_slices(steps in prop::collection::vec(step(), 1..25)) {
        let play = |exposed: bool| {
            let mut env = joined_watching(exposed);
            for (index, step) in steps.iter().enumerate() {
                take(&mut env, step);
                if !matches!(steps.get(index + 1), Some(Step::Crash { .. })) {
                    env.work();
                }
            }
            for member in 1..=3 {
                take(&mut env, &Step::Back { member });
            }
            env.pass(GRACE + GRACE).assert_at_rest();
            let mut picture = picture(&env);
            for object in &mut picture {
                // These count the writes of a server.
                object[1]["metadata"]["annotations"][labels::OWNER] = Value::Null;
                object[1]["spec"]["clusterIPs"] = Value::Null;
            }
            picture
        };
        prop_assert_eq!(play(true), play(false));
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

    #[test]
    fn a_restart_while_a_member_is_lost_takes_nothing(
        steps in prop::collection::vec(prop_oneof![4 => request(), 1 => removal()], 1..12),
        lost in 1..=3u8, seconds in 0..400u64, keeps_clusters in any::<bool>(),
    ) {
        let play = |restarts: bool| {
            let mut env = joined();
            env.keeps_clusters = keeps_clusters;
            for step in &steps {
                take(&mut env, step);
                env.settle();
            }
            env.pass(GRACE + GRACE).lose(&of(lost));
            if seconds > 0 {
                env.pass(Duration::from_secs(seconds));
            }
            if restarts {
                env.restart();
            }
            env.pass(GRACE + GRACE);
            held(&env)
        };
        let (kept, left) = (play(false), play(true));
        let taken: Vec<_> = kept.difference(&left).collect();
        prop_assert_eq!(taken, Vec::<&String>::new());
    }

    #[test]
    fn after_an_outage_everything_ends_as_if_there_had_been_none(
        changes in prop::collection::vec(change(), 1..12), outage in outage(),
    ) {
        let play = |outage: Option<Outage>| {
            let mut env = joined();
            for (number, change) in changes.iter().enumerate() {
                if let Some(outage) = outage {
                    outage.take(&mut env, number);
                }
                take(&mut env, change);
                env.settle();
            }
            if let Some(outage) = outage {
                take(&mut env, &Step::Back { member: outage.member });
            }
            env.pass(GRACE + GRACE).assert_at_rest();
            let mut picture = picture(&env);
            for object in &mut picture {
                object[1]["spec"]["clusterIPs"] = Value::Null;
            }
            picture
        };
        prop_assert_eq!(play(Some(outage)), play(None));
    }
}
