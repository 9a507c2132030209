//! Mutate, then validate: what the webhook makes of a change, and what it says of it.
//!
//! A document is `{"object": {}, "stored": {}, "request": {"uid": "", "namespace": "", "name": "",
//! "dryRun": false}, "policy": {"missingService": "Warn", "unknownCluster": "Deny"}, "hub":
//! {"service": {"type": "", "clusterIP": "", "ports": []}, "clusters": [""], "idTaken": false}}`,
//! of which only the object has to be there; without `stored` it is created.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use causeway::api::MultiClusterServiceSpec;
use causeway::api::labels::{self, PERMANENT_ID, REACH};
use causeway::domain::protected::Protection;
use causeway::domain::{
    ClusterField, Failover, Hostnames, MultiClusterService, Reach, ServicePort, read_routing,
};
use causeway_webhook::decide::{
    self, Change, Clusters, Decision, Denial, HubView, Locality, Neighbors, Observed, Policy,
    PreparedChange, ServiceFacts, ServiceKind, Stored, Strictness,
};
use causeway_webhook::review::{self, Subject};
use json_patch::{Patch, PatchOperation};
use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

const ROLES: [ClusterField; 2] = [ClusterField::Providers, ClusterField::Consumers];

/// A request to the webhook, and what it observes of the hub.
pub(crate) struct Case {
    request: Value,
    id_taken: bool,
    view: HubView,
    policy: Policy,
}

/// Panics where the rules break a promise about the change that the document holds.
pub fn holds(input: &[u8]) {
    let Some(document) = crate::document(input) else {
        return;
    };
    let case = Case::read(&document);
    let (object, stored) = (&document["object"], document.get("stored"));
    let Some(change) = case.change(object, stored) else {
        return;
    };
    let (patched, operations) = mutated(&change, object, case.id_taken);
    only_what_it_may(object, &patched, &operations);
    let Some(after) = case.change(&patched, stored) else {
        panic!("the mutation made an object unreadable: {patched}");
    };
    let (again, operations) = mutated(&after, &patched, false);
    assert_eq!(
        (&again, operations.as_slice()),
        (&patched, [].as_slice()),
        "a second mutation"
    );
    nothing_widens(&change.object.spec, &after.object.spec);
    let decision = case.validate(&after);
    same_decision(&case.validate(&change), &decision, &patched);
    what_is_accepted_is_readable(&after, &decision);
    if matches!(
        change.stored,
        Stored::Deleting(_) | Stored::DeletingUnreadable
    ) {
        assert!(
            is_accepted(&decision),
            "held up while being deleted: {decision:?}"
        );
    }
    what_is_stored_passes(&case, object);
}

impl Case {
    pub(crate) fn read(document: &Value) -> Self {
        let hub = &document["hub"];
        let strictness = |name: &str, usual| match document["policy"][name].as_str() {
            Some("Warn") => Strictness::Warn,
            Some("Deny") => Strictness::Deny,
            _ => usual,
        };
        Self {
            request: document["request"].clone(),
            id_taken: hub["idTaken"] == json!(true),
            view: view(hub),
            policy: Policy {
                missing_service: strictness("missingService", Strictness::Deny),
                unknown_cluster: strictness("unknownCluster", Strictness::Warn),
                protection: Protection::new("causeway-system", []),
            },
        }
    }

    /// The change as it comes over the wire; `None` where an object does not decode.
    pub(crate) fn change(&self, object: &Value, stored: Option<&Value>) -> Option<Change> {
        let text = |name: &str, usual: &str| {
            let text = self.request[name].as_str();
            text.filter(|text| (1..=63).contains(&text.len()))
                .unwrap_or(usual)
                .to_owned()
        };
        let body = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": text("uid", "11111111-2222-3333-4444-555555555555"),
                "kind": {"group": "networking.karmada.io", "version": "v1alpha1", "kind": "MultiClusterService"},
                "name": text("name", "foo"), "namespace": text("namespace", "shop"),
                "operation": if stored.is_some() { "UPDATE" } else { "CREATE" },
                "dryRun": self.request["dryRun"] == json!(true),
                "object": object, "oldObject": stored,
            },
        });
        let body = body.to_string();
        let request = review::read(body.as_bytes()).expect("a request");
        match request.subject {
            Subject::Change(change) => Some(*change),
            _ => None,
        }
    }

    /// What the rules decide, of which nothing may be unconfirmed where the hub was just observed.
    pub(crate) fn validate(&self, change: &Change) -> Decision {
        let prepared = PreparedChange::from(change.clone());
        let confirmed = prepared.validate(&self.view, &self.policy);
        assert_eq!(
            confirmed.unconfirmed.impact(),
            None,
            "unconfirmed though just observed: {confirmed:?}"
        );
        if let Decision::Deny { denial, .. } = &confirmed.decision {
            names_fields(denial);
        }
        for view in [from_cache(&self.view), HubView::default()] {
            let validation = prepared.validate(&view, &self.policy);
            if validation.unconfirmed.impact().is_none() {
                assert_eq!(
                    validation.decision, confirmed.decision,
                    "confirmed, and still wrong"
                );
            }
        }
        confirmed.decision
    }
}

/// A denial says which fields are wrong.
fn names_fields(denial: &Denial) {
    let Denial::Fields { errors, .. } = denial else {
        panic!("a denial without a field: {denial:?}");
    };
    assert!(!errors.is_empty(), "a denial without a reason");
    for error in errors.shown() {
        let known = error.path.starts_with("metadata.") || error.path.starts_with("spec");
        assert!(known, "no field of the object: {error}");
    }
}

fn view(hub: &Value) -> HubView {
    let service = hub["service"].as_object().map(|service| {
        let ports = service.get("ports").and_then(Value::as_array);
        let ports = ports.into_iter().flatten().filter_map(|port| {
            let port: core::ServicePort = serde_json::from_value(port.clone()).ok()?;
            ServicePort::read(&port)
        });
        Arc::new(ServiceFacts {
            kind: ServiceKind::read(
                service.get("type").and_then(Value::as_str),
                service.get("clusterIP").and_then(Value::as_str),
            ),
            ports: ports.collect(),
        })
    });
    let names = hub["clusters"].as_array().map(|names| {
        let names = names.iter().filter_map(Value::as_str);
        let clusters = names.map(|name| (Box::from(name), Locality::default()));
        Arc::new(clusters.collect::<HashMap<_, _>>())
    });
    HubView {
        service: Some(Observed {
            value: service,
            live: true,
        }),
        neighbors: Neighbors::default(),
        clusters: Some(Observed {
            value: names.map_or(Clusters::NotServed, Clusters::Named),
            live: true,
        }),
    }
}

fn from_cache(view: &HubView) -> HubView {
    let mut view = view.clone();
    if let Some(seen) = &mut view.service {
        seen.live = false;
    }
    if let Some(seen) = &mut view.clusters {
        seen.live = false;
    }
    view
}

/// The object with the patch applied as an API server applies it, and the patch.
fn mutated(change: &Change, object: &Value, id_taken: bool) -> (Value, Vec<PatchOperation>) {
    let decision = decide::mutate(change.clone(), id_taken);
    assert_eq!(
        decision,
        decide::mutate(change.clone(), id_taken),
        "the same request, another answer"
    );
    let operations = match decision {
        Decision::Allow { .. } => Vec::new(),
        Decision::Patch { operations, .. } => {
            assert!(!operations.is_empty(), "an empty patch");
            operations
        }
        Decision::Deny { denial, .. } => panic!("a mutation refuses nothing: {denial:?}"),
    };
    let wire = json!(operations).to_string();
    let patch: Patch = serde_json::from_str(&wire).expect("a JSON patch");
    let mut patched = object.clone();
    if let Err(error) = json_patch::patch(&mut patched, &patch) {
        panic!("{wire} does not apply to {object}: {error}");
    }
    (patched, operations)
}

/// Only the permanent-id and the lists of clusters change, and a list only with the deprecated
/// field that it takes over.
fn only_what_it_may(before: &Value, after: &Value, operations: &[PatchOperation]) {
    let touched: Vec<_> = operations
        .iter()
        .map(|operation| operation.path().to_string())
        .collect();
    let (mut before, mut after) = (before.clone(), after.clone());
    for object in [&mut before, &mut after] {
        without_id(object);
        for role in ROLES {
            let fields: Vec<_> = role.with_deprecated().collect();
            let converted = fields
                .iter()
                .any(|field| field.successor() != *field && touched.contains(&pointer(*field)));
            for field in fields.iter().filter(|_| converted) {
                let path = pointer(*field);
                let parent = object.pointer_mut("/spec").and_then(Value::as_object_mut);
                parent
                    .expect("a spec")
                    .remove(path.trim_start_matches("/spec/"));
            }
        }
    }
    assert_eq!(
        before, after,
        "more was changed than may be, by {touched:?}"
    );
}

fn without_id(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let labels = metadata.get_mut("labels");
    let is_empty = match labels {
        Some(Value::Object(labels)) => {
            labels.remove(PERMANENT_ID);
            labels.is_empty()
        }
        Some(Value::Null) => true,
        _ => false,
    };
    if is_empty {
        metadata.remove("labels");
    }
}

/// The field of the spec that a list is, or is in.
fn pointer(field: ClusterField) -> String {
    let path = match field {
        ClusterField::Range => "spec.range",
        other => other.path(),
    };
    format!("/{}", path.replace('.', "/"))
}

fn named(spec: &MultiClusterServiceSpec, role: ClusterField) -> BTreeSet<&str> {
    role.with_deprecated()
        .flat_map(|field| field.names(spec))
        .collect()
}

/// No cluster is added that the object did not name, and an object that named some does not end up
/// with all.
fn nothing_widens(before: &MultiClusterServiceSpec, after: &MultiClusterServiceSpec) {
    for role in ROLES {
        let (before, after) = (named(before, role), named(after, role));
        assert!(
            after.is_subset(&before),
            "{role:?} of {before:?} became {after:?}"
        );
        assert_eq!(
            before.is_empty(),
            after.is_empty(),
            "{role:?} of {before:?} became everybody"
        );
    }
    if let Ok(meant) = MultiClusterService::try_from(before) {
        let means = MultiClusterService::try_from(after);
        assert_eq!(
            means.as_ref(),
            Ok(&meant),
            "the object means something else"
        );
    }
}

fn is_accepted(decision: &Decision) -> bool {
    matches!(decision, Decision::Allow { .. })
}

/// What validation accepts as it was sent it accepts after the mutation, and what is wrong with the
/// spec stays the same.
fn same_decision(sent: &Decision, mutated: &Decision, object: &Value) {
    assert!(
        !is_accepted(sent) || is_accepted(mutated),
        "the mutation spoilt it: {mutated:?} of {object}"
    );
    let errors = |decision: &Decision| match decision {
        Decision::Deny {
            denial: Denial::Fields { errors, .. },
            ..
        } => {
            let all = errors
                .shown()
                .iter()
                .filter(|error| !error.path.contains(PERMANENT_ID));
            all.map(ToString::to_string).collect::<Vec<_>>()
        }
        _ => Vec::new(),
    };
    assert_eq!(errors(sent), errors(mutated), "of {object}");
}

/// What is accepted the parser reads: all that is created, and all that is made of what it could
/// read.
fn what_is_accepted_is_readable(change: &Change, decision: &Decision) {
    let is_readable = |spec: &MultiClusterServiceSpec| MultiClusterService::try_from(spec).is_ok();
    let was_readable = match &change.stored {
        Stored::Nothing => true,
        Stored::Present(stored) => is_readable(&stored.spec),
        Stored::Deleting(_) | Stored::DeletingUnreadable => false,
    };
    let spec = &change.object.spec;
    if was_readable && is_accepted(decision) {
        assert!(is_readable(spec), "accepted and unreadable: {spec:?}");
    }
    let before = match &change.stored {
        Stored::Nothing => None,
        Stored::Present(stored) => Some(&stored.metadata),
        Stored::Deleting(_) | Stored::DeletingUnreadable => return,
    };
    for name in labels::VALIDATED {
        let value = change.object.metadata.annotation(name);
        let is_new = before.is_none_or(|before| before.annotation(name) != value);
        let is_asked = |asked: &str| value.filter(|_| asked == name);
        if is_new && is_accepted(decision) {
            Failover::read(is_asked, &mut |error| {
                panic!("accepted and unreadable: {error}")
            });
            if let Some(names) = is_asked(labels::HOSTNAME) {
                Hostnames::read(names, &mut |error| {
                    panic!("accepted and unreadable: {error}")
                });
            }
            if let Some(property) = is_asked(labels::HOSTNAME_ROUTING) {
                read_routing(property, &mut |error| {
                    panic!("accepted and unreadable: {error}")
                });
            }
            let reach = is_asked(REACH).map(Reach::of_annotation);
            assert!(
                !matches!(reach, Some(Err(_))),
                "accepted and unreadable: {reach:?}"
            );
        }
    }
}

/// An update that changes nothing is accepted without a word.
fn what_is_stored_passes(case: &Case, object: &Value) {
    let Some(change) = case.change(object, Some(object)) else {
        return;
    };
    let (patched, operations) = mutated(&change, object, false);
    assert!(
        operations.len() <= 1,
        "an update of nothing is converted: {operations:?}"
    );
    let after = case
        .change(&patched, Some(object))
        .expect("it decodes still");
    let silent = Decision::Allow {
        warnings: Vec::new(),
    };
    assert_eq!(case.validate(&after), silent, "of an update of nothing");
}
