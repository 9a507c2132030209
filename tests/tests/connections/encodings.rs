//! EndpointSlices as real API servers encode them: protobuf says what JSON says.

use std::iter::empty;

use causeway::api::labels;
use causeway::domain::ServiceKey;
use causeway::target::Target;
use causeway_controller::apply::apply;
use causeway_controller::failure::classify;
use causeway_controller::member;
use causeway_controller::watch::{Decoder, Watch};
use causeway_engine::model::slice::{Exposure, ObservedSlice, SliceDecoder, WireSlice};
use causeway_engine::model::{Ack, FailureKind, ObjectId, Operation, Signal, SliceId, Write};
use causeway_tests::write::merge;
use causeway_tests::{Cluster, Fleet, SOON, Space};
use causeway_wire::{ContentHash, Object, Unreadable};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch as channel};

use super::{Ended, cluster_and_secret, config_map, ended, next, patient, reported_failure};

/// Decoder of protobuf and JSON that records the encoding.
#[derive(Clone)]
struct Noting {
    decoder: SliceDecoder,
    came: mpsc::UnboundedSender<&'static str>,
}

/// The same, where JSON is asked for.
#[derive(Clone)]
struct NotingJson(Noting);

impl Decoder<WireSlice> for Noting {
    const PROTOBUF: bool = true;

    fn decode(&mut self, object: Object<'_>) -> Result<WireSlice, Unreadable> {
        let came = match object {
            Object::Json(_) => "JSON",
            Object::Protobuf(_) => "protobuf",
        };
        self.came.send(came).ok();
        self.decoder.decode(object)
    }
}

impl Decoder<WireSlice> for NotingJson {
    fn decode(&mut self, object: Object<'_>) -> Result<WireSlice, Unreadable> {
        self.0.decode(object)
    }
}

/// A watch, and in which encoding its objects came.
struct Watching {
    signals: mpsc::Receiver<Signal<ObservedSlice>>,
    came: mpsc::UnboundedReceiver<&'static str>,
    _ended: Ended,
}

impl Watching {
    fn begin<D>(slices: Api<WireSlice>, decoder: impl FnOnce(Noting) -> D) -> Self
    where
        D: Decoder<WireSlice>,
    {
        let (note, came) = mpsc::unbounded_channel();
        let noting = Noting {
            decoder: SliceDecoder::default(),
            came: note,
        };
        let (tell, signals) = mpsc::channel(64);
        let watch = Watch::read_by(decoder(noting), slices, patient(2));
        let running = tokio::spawn(watch.run(ObservedSlice::from, |signal| signal, tell));
        Self {
            signals,
            came,
            _ended: ended(&running),
        }
    }

    /// Returns the reports until the deletion of the slice of that name, as text.
    async fn until_deleted(&mut self, name: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let signal = next(&mut self.signals).await;
            all.push(format!("{signal:?}"));
            if matches!(&signal, Signal::Deleted(slice) if &*slice.name == name) {
                return all;
            }
        }
    }

    /// The encodings in which objects came.
    fn encodings(&mut self) -> Vec<&'static str> {
        let mut came: Vec<_> = std::iter::from_fn(|| self.came.try_recv().ok()).collect();
        came.sort_unstable();
        came.dedup();
        came
    }
}

/// Slices of every kind, with everything that an API server takes, owned by a ConfigMap of that
/// UID.
fn slices(owner: &str) -> Vec<EndpointSlice> {
    let slice = |name: &str, labels: Value, rest: Value| {
        let mut slice = json!({
            "metadata": {"name": name, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.0.5"]}],
        });
        json_patch::merge(&mut slice, &rest);
        serde_json::from_value(slice).expect("a slice")
    };
    let source = json!({labels::SERVICE_NAME: "foo"});
    let copy = json!({
        labels::SERVICE_NAME: "foo", labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER,
        labels::HUB: "h", labels::SOURCE_CLUSTER: "member1",
    });
    let full = json!({
        "metadata": {
            "annotations": {"empty": ""},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "foo", "uid": owner}],
            "finalizers": ["example.org/kept"],
        },
        "endpoints": [
            {"addresses": ["10.1.0.5", "10.1.0.6"], "nodeName": "n", "zone": "ä\"b", "hostname": "h",
             "conditions": {"ready": true, "serving": true, "terminating": false},
             "hints": {"forZones": [{"name": "a"}, {"name": "b"}]}, "targetRef": {"kind": "Pod", "name": "p"}},
            {"addresses": ["10.1.0.7"], "conditions": {"ready": false}},
            {"addresses": ["10.1.0.8"]},
        ],
        "ports": [
            {"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ],
    });
    let mut full_copy = full.clone();
    let of_copy = json!({"metadata": {
        "annotations": {labels::OWNER: "MultiClusterService/u", labels::SOURCE: "v/3"},
        "finalizers": null,
    }});
    json_patch::merge(&mut full_copy, &of_copy);
    let v6 =
        json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"], "conditions": {}}]});
    vec![
        slice("bare", source.clone(), json!({"endpoints": []})),
        slice("source", source.clone(), json!({"ports": [{"port": 1}]})),
        slice("full", source.clone(), full),
        slice("v6", source.clone(), v6),
        slice(
            "names",
            source,
            json!({"addressType": "FQDN", "endpoints": [{"addresses": ["foo.example"]}]}),
        ),
        slice("copy", copy, full_copy),
        slice("stray", json!({}), json!({})),
    ]
}

#[tokio::test]
async fn protobuf_says_what_json_says_in_lists_and_in_watches() {
    let fleet: &Fleet = super::fleet().await;
    let member = fleet.member("member1");
    let space = Space::create(fleet, "encodings", &[member]).await;
    let typed = space.api::<EndpointSlice>(member);
    let create = async |slice: &EndpointSlice| {
        typed.create(&PostParams::default(), slice).await.unwrap();
    };
    let maps = space.api::<ConfigMap>(member);
    let foo = maps
        .create(&PostParams::default(), &config_map("foo"))
        .await;
    let foo = foo.unwrap();
    let all = slices(&foo.uid().expect("a UID"));
    let (listed, later) = all.split_at(4);
    for slice in listed {
        create(slice).await;
    }
    let wire = || Api::namespaced(member.client(), space.name());
    let mut protobuf = Watching::begin(wire(), |noting| noting);
    let mut json = Watching::begin(wire(), NotingJson);
    for watching in [&mut protobuf, &mut json] {
        let first = next(&mut watching.signals).await;
        assert!(
            matches!(&first, Signal::Listed(all) if all.len() == 4),
            "{first:?}"
        );
    }
    for slice in later {
        create(slice).await;
    }
    let endpoints = json!({"endpoints": [{"addresses": ["10.1.0.9"]}]});
    merge(&typed, "full", endpoints).await;
    let delete = DeleteParams::default();
    // It has a finalizer, and is terminating until that is taken away.
    typed.delete("full", &delete).await.unwrap();
    merge(&typed, "full", json!({"metadata": {"finalizers": null}})).await;
    typed.delete("copy", &delete).await.unwrap();
    let (one, other) = (
        protobuf.until_deleted("copy").await,
        json.until_deleted("copy").await,
    );
    assert_eq!(one, other);
    assert!(one.iter().any(|signal| signal.contains("Copy(")), "{one:?}");
    assert_eq!(protobuf.encodings(), ["protobuf"]);
    assert_eq!(json.encodings(), ["JSON"]);
}

#[tokio::test]
async fn what_is_refused_is_understood_in_protobuf_too() {
    let fleet: &Fleet = super::fleet().await;
    let member = fleet.member("member1");
    let space = Space::create(fleet, "refused", &[member]).await;
    let create = ["create", "serviceaccount", "nobody", "-n", space.name()];
    member.kubectl(create).await.ok();
    let token = member.token(space.name(), "nobody").await;
    let (cluster, secret) = cluster_and_secret(member, member.url(), &token, member.ca_pem());
    let (target, token) = Target::read(&cluster, &secret, false).unwrap();
    let (_renewals, token) = channel::channel(token);
    let settings = member::Settings::default();
    let connector = member::Connector::new(&target, token, SOON, &settings.agent).unwrap();
    let client = connector.client().unwrap();
    let slices = || Api::namespaced(client.clone(), space.name());
    let mut protobuf = Watching::begin(slices(), |noting| noting);
    let mut json = Watching::begin(slices(), NotingJson);
    let failure = reported_failure(&mut protobuf.signals).await;
    assert_eq!(failure, reported_failure(&mut json.signals).await);
    assert_eq!(failure.kind, FailureKind::Forbidden);
    assert!(failure.to_string().contains("endpointslices"), "{failure}");
}

/// Returns a slice of a member, without values that differ from write to write.
async fn stored(space: &Space<'_>, member: &Cluster, name: &str) -> Value {
    let slice = space.api::<EndpointSlice>(member).get(name).await;
    let mut slice = serde_json::to_value(slice.expect("a slice")).expect("JSON");
    let metadata = slice["metadata"].as_object_mut().expect("metadata");
    for field in ["name", "uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    // Whose a list without entries is, protobuf cannot say.
    let managed = metadata["managedFields"].as_array_mut();
    for entry in managed.expect("who wrote it") {
        *entry = json!([entry["manager"], entry["operation"]]);
    }
    slice
}

#[tokio::test]
async fn what_is_written_as_protobuf_is_stored_and_refused_as_json_is() {
    let fleet: &Fleet = super::fleet().await;
    let member = fleet.member("member1");
    let space = Space::create(fleet, "written", &[member]).await;
    let typed = space.api::<EndpointSlice>(member);
    let by = PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    };
    let maps = space.api::<ConfigMap>(member);
    let foo = maps
        .create(&PostParams::default(), &config_map("foo"))
        .await;
    let owner = foo.unwrap().uid().expect("a UID");
    let client = member.client();
    let to = |name: &str, operation: Operation| {
        let id = SliceId {
            service: ServiceKey::new(space.name(), "foo"),
            exposure: Exposure::Native,
            name: name.into(),
        };
        Write::new(ObjectId::Slice(id), operation)
    };
    let write = async |write: Write| apply(&client, &write, SOON).await;
    let version = |ack: Ack| match ack {
        Ack::Slice(slice) => slice.resource_version(),
        other => panic!("{other:?}"),
    };
    let named = |slice: &EndpointSlice, name: &str| {
        let mut slice = slice.clone();
        slice.metadata.name = Some(name.to_owned());
        Box::new(slice)
    };
    // No request contains the hash.
    let content = ContentHash::of_copy(empty(), "", empty(), &[]);
    let all = slices(&owner);
    for slice in &all {
        let name = slice.name_any();
        let written = format!("written-{name}");
        typed.create(&by, slice).await.unwrap();
        let create = Operation::CreateSlice(named(slice, &written), content);
        let created = version(write(to(&written, create)).await.unwrap());
        let [one, other] = [&written, &name].map(|name| stored(&space, member, name));
        assert_eq!(one.await, other.await, "{name}");

        let mut changed = typed.get(&name).await.unwrap();
        let mut protobuf = typed.get(&written).await.unwrap();
        assert_eq!(protobuf.resource_version(), Some(created.to_string()));
        let next = |slice: &mut EndpointSlice| {
            slice.metadata.managed_fields = None;
            slice
                .metadata
                .labels
                .get_or_insert_default()
                .insert("new".to_owned(), String::new());
            slice.endpoints.clear();
        };
        next(&mut changed);
        next(&mut protobuf);
        typed.replace(&name, &by, &changed).await.unwrap();
        let replace = to(&written, Operation::ReplaceSlice(protobuf.into(), content));
        let replaced = write(replace.clone()).await.unwrap();
        assert!(version(replaced) > created, "{name}");
        let [one, other] = [&written, &name].map(|name| stored(&space, member, name));
        assert_eq!(one.await, other.await, "{name}");

        // The version that was replaced is no more.
        let failure = write(replace).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Conflict);
    }
    let mut wrong = all[0].clone();
    wrong.address_type = "IPX".to_owned();
    let missing = named(&all[0], "missing");
    let copy = Operation::CreateSlice(named(&all[0], "copy"), content);
    let invalid = Operation::CreateSlice(named(&wrong, "wrong"), content);
    for (refused, code) in [
        (to("copy", copy), 409),
        (to("wrong", invalid), 422),
        (
            to("missing", Operation::ReplaceSlice(missing, content)),
            404,
        ),
    ] {
        let name = refused.object().name();
        let json = match refused.operation() {
            Operation::CreateSlice(slice, _) => typed.create(&by, slice).await,
            Operation::ReplaceSlice(slice, _) => typed.replace(name, &by, slice).await,
            other => panic!("{other:?}"),
        };
        let json = json.unwrap_err();
        assert!(
            matches!(&json, kube::Error::Api(status) if status.code == code),
            "{json}"
        );
        let failure = write(refused).await.unwrap_err();
        assert_eq!(failure, classify(&json));
    }
}
