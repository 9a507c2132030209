//! Hub and three members to which steps are applied, and the ordinary loop of the controller.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::labels;
use causeway::api::multicluster::Version;
use serde_json::{Value, json};

use super::kind::{Fleet, MEMBERS};
use super::step::{At, Outage, Step};
use crate::fixtures::annotations::located;
use crate::fixtures::objects::{
    Kind, NAMESPACE, Object, export, foo, forged, import, is_ours, mcs, name_of, service, slice,
};
use crate::fixtures::{Environment, GRACE, env, key};
use crate::model::served::{ImportFields, ServedImports};
use crate::model::{Item, ReportedId};
use crate::reasons::Reason;

/// Environment, with the state of members that the controller may not observe.
pub(super) struct Simulation {
    pub(super) env: Environment,
    pub(super) disconnected: BTreeSet<&'static str>,
    pub(super) fleet: Fleet,
    drained: BTreeSet<&'static str>,
}

impl Simulation {
    /// Joins three members. A native fleet exposes `foo`; a clusterset has `foo` and a pod in each
    /// member, and the first member exports it.
    pub(super) fn new(fleet: Fleet) -> Self {
        let mut env = env();
        match fleet {
            Fleet::Native { exposed } => {
                env.watches_exposed = exposed;
                for member in MEMBERS {
                    env.member(member).on_hub(located(member)).nodes(member);
                }
                env.on_hub(foo()).on_hub(mcs("foo"));
            }
            Fleet::Clusterset { publish } => {
                env.settings.publish_exports = publish;
                env.on_hub(foo());
                for (number, member) in (1..).zip(MEMBERS) {
                    join(&mut env, member);
                    env.introduce(member).list(member).nodes(member);
                    env.on(member, foo()).on(member, source(number, 0, 5));
                }
                env.on(MEMBERS[0], export("foo")).settle();
            }
        }
        Self {
            env,
            disconnected: BTreeSet::new(),
            fleet,
            drained: BTreeSet::new(),
        }
    }

    /// Returns another fleet in which the same objects of users were created, and nothing else
    /// happened.
    pub(super) fn without_a_past(&self) -> Self {
        let mut env = env();
        env.settings.publish_exports = self.env.settings.publish_exports;
        env.on_hub(foo());
        for member in MEMBERS {
            join(&mut env, member);
        }
        for kind in [Kind::Mcs, Kind::Cluster] {
            for object in self.env.hub.all(kind) {
                env.on_hub(as_made(kind, object));
            }
        }
        let kinds = [
            Kind::Node,
            Kind::Service,
            Kind::Slice,
            Kind::Export,
            Kind::Import,
        ];
        let mut made = Vec::new();
        for member in MEMBERS {
            for kind in kinds {
                let all = self.env.members[member].all(kind);
                let users = all.filter(|object| !is_ours(object));
                made.extend(users.map(|object| (age(object), member, as_made(kind, object))));
            }
        }
        made.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        let mut before = Default::default();
        for (created, member, object) in made {
            if created != before {
                env.pass(Duration::from_secs(1));
                before = created;
            }
            env.on(member, object);
        }
        for member in MEMBERS {
            env.introduce(member).list(member);
        }
        Self {
            env,
            disconnected: BTreeSet::new(),
            fleet: self.fleet,
            drained: BTreeSet::new(),
        }
    }

    /// Applies a step, without a run of the controller.
    pub(super) fn take(&mut self, (index, step): &At) {
        let member = MEMBERS[*index];
        match step {
            Step::HubService { .. }
            | Step::NoHubService
            | Step::Expose { .. }
            | Step::NoExposure => {
                self.take_on_hub(step);
            }
            Step::Lose | Step::Silence | Step::Back | Step::Drain(_) | Step::Id(_) => {
                self.take_of_cluster(member, step);
            }
            Step::Network(step) => self.env.take_network_step(member, *step),
            Step::Restart => {
                self.env.restart();
            }
            Step::Crash { arrived } => {
                self.env.crash(*arrived);
            }
            Step::Wait { seconds } => {
                self.env.pass(Duration::from_secs(u64::from(*seconds)));
            }
            _ => self.take_in_member(*index, step),
        }
        self.follow(member);
    }

    fn take_on_hub(&mut self, step: &Step) {
        let env = &mut self.env;
        match step {
            Step::HubService {
                headless,
                ports,
                preference,
            } => {
                let preference = preference.then_some("PreferSameNode");
                let spec = json!({"trafficDistribution": preference});
                self.remove_from_hub(Kind::Service);
                self.env.on_hub(exposed_service(*headless, *ports, &spec));
            }
            Step::NoHubService => self.remove_from_hub(Kind::Service),
            Step::Expose {
                providers,
                consumers,
                port,
                annotations,
            } => {
                let made = mcs("foo").annotated(annotations);
                let made = made
                    .providers(&chosen(*providers))
                    .consumers(&chosen(*consumers));
                let mcs = env.mcs("foo");
                if mcs.is_none_or(|mcs| mcs["metadata"]["deletionTimestamp"].is_null()) {
                    env.on_hub(if *port { made.port("http", 80) } else { made });
                }
            }
            _ => self.remove_from_hub(Kind::Mcs),
        }
    }

    fn take_of_cluster(&mut self, member: &'static str, step: &Step) {
        let env = &mut self.env;
        match step {
            Step::Lose => {
                env.lose(member);
                self.disconnected.insert(member);
            }
            Step::Silence => {
                env.silence(member);
                self.disconnected.insert(member);
            }
            Step::Drain(drained) => {
                let annotations = json!({labels::WITHDRAW: drained.to_string()});
                env.on_hub(located(member).annotated(&annotations));
                match drained {
                    true => self.drained.insert(member),
                    false => self.drained.remove(member),
                };
            }
            Step::Id(id) => {
                let value = format!("id-{id}-of-{member}");
                let id = match id {
                    0 => ReportedId::Absent,
                    _ => ReportedId::read(&value),
                };
                env.report_id(member, id);
            }
            _ => self.back(member),
        }
    }

    fn take_in_member(&mut self, index: usize, step: &Step) {
        let (member, number) = (MEMBERS[index], index + 1);
        let lacks = |kind, name: &str| {
            self.env.members[member]
                .get(kind, NAMESPACE, name)
                .is_none()
        };
        let made = match step {
            Step::Export { team, annotations } => {
                let labels = json!({"spec": {"exportedLabels": {"team": team.to_string()}}});
                let made = export("foo").annotated(annotations);
                if *team == 0 { made } else { made.with(labels) }
            }
            Step::Service {
                headless,
                ports,
                sticky,
                near,
                dual,
            } => {
                let mut spec = affinity(*sticky);
                if *near {
                    spec["trafficDistribution"] = json!("PreferSameZone");
                    spec["internalTrafficPolicy"] = json!("Local");
                }
                if *dual {
                    spec["ipFamilyPolicy"] = json!("PreferDualStack");
                }
                self.remove(member, Kind::Service, "foo");
                exposed_service(*headless, *ports, &spec)
            }
            Step::Slice { slice, address } => source(number, *slice, *address),
            Step::SliceByHand {
                slice: part,
                address,
                ready,
            } => {
                let node = (address % 2 == 1).then_some("n1");
                let endpoint = json!({
                    "addresses": [format!("10.{number}.{part}.{address}")],
                    "nodeName": node, "conditions": {"ready": ready},
                });
                let bare = json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: null}}});
                with_ports(slice("foo-by-hand", "foo"))
                    .endpoint_with(endpoint)
                    .with(bare)
            }
            Step::Pods { ready, total } => pods(number, *ready, *total),
            Step::Import { ports } if lacks(Kind::Import, "foo") => match ports {
                true => import("foo").port("http", 80),
                false => import("foo"),
            },
            Step::Occupy(name) if lacks(Kind::Service, name) => service(name).port("web", 80),
            Step::Forge => forged(),
            _ => return self.change_in_member(member, step),
        };
        self.env.on(member, made);
    }

    /// Applies a step that removes or changes objects which exist.
    fn change_in_member(&mut self, member: &'static str, step: &Step) {
        match step {
            Step::NoExport => self.remove(member, Kind::Export, "foo"),
            Step::NoService => self.remove(member, Kind::Service, "foo"),
            Step::NoSlices => {
                for name in ["foo-0", "foo-1", "foo-2", "foo-by-hand"] {
                    self.remove(member, Kind::Slice, name);
                }
            }
            Step::Vacate => {
                let there = self.env.service(member, "derived-foo");
                if there.is_some_and(|service| !is_ours(service)) {
                    self.remove(member, Kind::Service, "derived-foo");
                }
            }
            Step::Apply => {
                let fields = json!({"f:spec": {"f:selector": {}}});
                let entry = json!({
                    "manager": "flux", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields,
                });
                let metadata = json!({"managedFields": [entry]});
                let part = json!({"metadata": metadata, "spec": {"selector": {"app": "theirs"}}});
                self.merge(member, (Kind::Service, "foo"), |_| true, part);
            }
            Step::Spoil => {
                let mut spec = affinity(true);
                spec["ports"] = json!([]);
                let import = json!({"spec": spec, "status": {"clusters": []}});
                self.merge(member, (Kind::Import, "foo"), is_ours, import);
                let service = json!({ "spec": spec });
                self.merge(member, (Kind::Service, "derived-foo"), is_ours, service);
            }
            Step::Clear(kind) => {
                let all = self.env.members[member].all(*kind);
                let own: Vec<_> = all.filter(|object| is_ours(object)).map(name_of).collect();
                for name in own {
                    self.remove(member, *kind, &name);
                }
            }
            _ => {}
        }
    }

    /// Begins or ends an outage before the change of that number.
    pub(super) fn take_outage(&mut self, outage: Outage, number: usize) {
        let member = MEMBERS[outage.member];
        if number == outage.begins {
            self.env.lose(member);
            if outage.restarts {
                self.env.restart();
            }
            self.env.pass(Duration::from_secs(90));
        }
        if number == outage.begins + outage.changes + 1 {
            self.back(member);
        }
    }

    fn merge(
        &mut self,
        member: &str,
        (kind, name): (Kind, &str),
        if_: fn(&Value) -> bool,
        part: Value,
    ) {
        let there = self.env.members[member].get(kind, NAMESPACE, name);
        if let Some(value) = there.filter(|object| if_(object)).cloned() {
            self.env.on(member, Object { kind, value }.with(part));
        }
    }

    fn remove(&mut self, member: &str, kind: Kind, name: &str) {
        if self.env.members[member]
            .get(kind, NAMESPACE, name)
            .is_some()
        {
            self.env.off(member, kind, name);
        }
    }

    fn remove_from_hub(&mut self, kind: Kind) {
        if self.env.hub.get(kind, NAMESPACE, "foo").is_some() {
            self.env.off_hub(kind, "foo");
        }
    }

    /// Deletes, as a user, the export that causeway published.
    pub(super) fn unpublish(&mut self, member: &str) {
        let export = self.env.members[member].get(Kind::Export, NAMESPACE, "foo");
        if export.is_some_and(is_ours) {
            self.remove(member, Kind::Export, "foo");
        }
    }

    pub(super) fn back(&mut self, member: &'static str) {
        self.disconnected.remove(member);
        self.env.reconnect(member).introduce(member).list(member);
    }

    /// Waits until all work has ended, and asserts that nothing is left to write.
    pub(super) fn end(&mut self) {
        for member in MEMBERS {
            // Copies stay while the way or a node with ready endpoints is unknown: that is a past,
            // too.
            self.env.drop_unreadable_way(member);
            if self.is_clusterset() {
                self.env.nodes(member);
            }
        }
        self.rest();
        self.env.assert_at_rest();
    }

    /// Waits until all work has ended. The members' own controllers catch up, and the hub answers
    /// requests.
    pub(super) fn rest(&mut self) {
        let env = &mut self.env;
        env.pass(GRACE + GRACE);
        if self.is_clusterset() {
            for member in MEMBERS {
                self.follow(member);
            }
            self.env.pass(GRACE + GRACE);
        }
        let env = &mut self.env;
        if std::mem::take(&mut env.looked_up).contains(&key("foo")) && env.mcs("foo").is_none() {
            env.index.apply_confirmed_absence(key("foo"));
            env.index.mark(Item::Service(key("foo")));
            env.pass(GRACE + GRACE);
        }
    }

    /// Acts as the controllers of a member of a clusterset: slices get the ports of their Service.
    fn follow(&mut self, member: &str) {
        let server = &self.env.members[member];
        let service = self.env.service(member, "foo");
        let Some(service) = service.filter(|_| self.is_clusterset()) else {
            return;
        };
        let listens = |port: &Value| json!({"name": port["name"], "port": port["targetPort"], "protocol": port["protocol"]});
        let ports = service["spec"]["ports"].as_array();
        let ports: Value = ports.into_iter().flatten().map(listens).collect();
        let sources = server.all(Kind::Slice).filter(|slice| !is_ours(slice));
        for value in sources.cloned().collect::<Vec<_>>() {
            let kind = Kind::Slice;
            let slice = Object { kind, value };
            self.env.on(member, slice.with(json!({"ports": ports})));
        }
    }

    pub(super) fn is_clusterset(&self) -> bool {
        matches!(self.fleet, Fleet::Clusterset { .. })
    }

    /// Whether some member exports the service, and the controller can observe that.
    pub(super) fn is_exported(&self) -> bool {
        MEMBERS.iter().any(|member| {
            let get = |kind| self.env.members[*member].get(kind, NAMESPACE, "foo");
            let by_user = get(Kind::Export).is_some_and(|export| !is_ours(export));
            // Exports of a member whose initial lists suggest deletions are unknown, and no import
            // may have recorded them yet.
            let is_suspect = self.env.observed(member).suspected_deletions() > 0;
            let is_known = !is_suspect
                && !self.disconnected.contains(member)
                && !self.drained.contains(member);
            is_known && by_user && get(Kind::Service).is_some()
        })
    }
}

/// Joins members that differ: two have both address families; one is old, with one family and the
/// first definitions.
fn join(env: &mut Environment, member: &str) {
    env.silent_member(member).on_hub(located(member));
    let is_old = member == "member2";
    if is_old {
        env.releases.insert(member.to_owned(), (1, 30));
    }
    let server = env.server(member);
    server.served.export_clusters = true;
    match is_old {
        true => {
            server.served.imports = Some(ServedImports {
                version: Version::V1alpha1,
                fields: ImportFields::default(),
            });
        }
        false => server.families = vec!["IPv4", "IPv6"],
    }
}

fn with_ports(slice: Object) -> Object {
    slice.port("http", 8080).port("grpc", 8081)
}

/// Returns a slice of Kubernetes with one ready endpoint.
fn source(member: usize, number: u8, address: u8) -> Object {
    let endpoint = json!({
        "addresses": [format!("10.{member}.{number}.{address}")],
        "nodeName": format!("n{}", 1 + address % 2),
        "conditions": {"ready": true},
    });
    with_ports(slice(&format!("foo-{number}"), "foo")).endpoint_with(endpoint)
}

/// Returns a slice of Kubernetes with endpoints of which the first are ready.
fn pods(member: usize, ready: u8, total: u8) -> Object {
    (0..total).fold(with_ports(slice("foo-0", "foo")), |slice, number| {
        let is_ready = number < ready;
        slice.endpoint_with(json!({
            "addresses": [format!("10.{member}.0.{}", number + 1)],
            "conditions": {"ready": is_ready, "serving": is_ready, "terminating": false},
        }))
    })
}

fn exposed_service(headless: bool, ports: u8, spec: &Value) -> Object {
    let named = [("http", 80), ("grpc", 81), ("dns", 53)];
    let ports = named.iter().take(usize::from(ports));
    let made = ports.fold(service("foo"), |made, (name, port)| made.port(name, *port));
    let made = if headless { made.headless() } else { made };
    made.with(json!({ "spec": spec }))
}

/// Returns the affinity of a Service, as an API server that fills in the defaults stores it.
fn affinity(sticky: bool) -> Value {
    match sticky {
        true => {
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}})
        }
        false => json!({"sessionAffinity": "None"}),
    }
}

fn chosen(bits: u8) -> Vec<&'static str> {
    let is_chosen = |index: &usize| bits & (1 << index) != 0;
    let chosen = (0..MEMBERS.len()).filter(is_chosen);
    chosen.map(|index| MEMBERS[index]).collect()
}

/// Returns the sort key of objects: an export is ordered by the time that causeway wrote on it,
/// then, like all others, by its creation.
fn age(object: &Value) -> [String; 2] {
    let created = object["metadata"]["creationTimestamp"].to_string();
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let written = conditions.find(|one| one["reason"] == Reason::FirstSeen.as_str());
    let since = written.map(|one| one["lastTransitionTime"].to_string());
    [since.unwrap_or_else(|| created.clone()), created]
}

/// Returns an object as a user created it, without the fields that a server and causeway added.
fn as_made(kind: Kind, object: &Value) -> Object {
    let mut value = object.clone();
    if kind != Kind::Node {
        value["status"] = Value::Null;
    }
    for field in [
        "uid",
        "resourceVersion",
        "generation",
        "finalizers",
        "managedFields",
    ] {
        value["metadata"][field] = Value::Null;
    }
    Object { kind, value }
}
