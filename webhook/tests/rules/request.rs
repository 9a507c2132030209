//! Requests as they come over the wire, and what is observed of the hub beside them.

use std::collections::HashMap;
use std::sync::Arc;

use causeway::domain::protected::Protection;
use causeway::domain::{PortId, Protocol, ServicePort};
use causeway_webhook::decide::{
    self, Change, Clusters, Decision, Denial, HubView, Locality, Neighbors, Observed, Policy,
    PreparedChange, ServiceFacts, ServiceKind, Strictness, Unconfirmed,
};
use causeway_webhook::review::{self, Subject};
use serde_json::{Value, json};

pub(crate) const UID: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const ID: &str = "multiclusterservice.karmada.io/permanent-id";

/// A request about shop/foo, whose Service has the ports http 80 and metrics 9090; clusters a, b
/// and c are known.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) object: Value,
    pub(crate) stored: Option<Value>,
    dry_run: bool,
    view: HubView,
    policy: Policy,
}

/// Returns the decision of the rules.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) unconfirmed: Unconfirmed,
}

fn localities(clusters: &[(&str, &str, &[&str])]) -> HashMap<Box<str>, Locality> {
    let located = |(name, region, zones): &(&str, &str, &[&str])| {
        let region = Some(*region).filter(|region| !region.is_empty());
        let locality = Locality {
            region: region.map(Box::from),
            zones: zones.iter().map(|zone| Box::from(*zone)).collect(),
        };
        (Box::from(*name), locality)
    };
    clusters.iter().map(located).collect()
}

pub(crate) fn object(spec: Value) -> Value {
    json!({
        "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "foo", "namespace": "shop", "labels": {ID: "kept"}},
        "spec": spec,
    })
}

/// A spec that is fine, with these fields beside the type.
pub(crate) fn spec(fields: Value) -> Value {
    let mut spec = json!({"types": ["CrossCluster"]});
    for (name, value) in fields.as_object().expect("an object") {
        spec[name] = value.clone();
    }
    spec
}

pub(crate) fn create(spec: Value) -> Request {
    Request::new(object(spec), None)
}

pub(crate) fn update(stored: Value, spec: Value) -> Request {
    Request::new(object(spec), Some(object(stored)))
}

/// Returns the text of an error or warning of an annotation.
pub(crate) fn at(annotation: &str, rest: &str) -> String {
    format!("metadata.annotations[{annotation}]: {rest}")
}

/// Sets annotations; a null removes one.
pub(crate) fn annotate(object: &mut Value, annotations: &Value) {
    for (name, value) in annotations.as_object().expect("annotations") {
        object["metadata"]["annotations"][name] = value.clone();
    }
}

/// Returns the creation of an object with these annotations and these fields in its spec.
pub(crate) fn annotated(annotations: &Value, fields: Value) -> Request {
    create(spec(fields)).with(|object| annotate(object, annotations))
}

/// Returns an update of the annotations alone.
pub(crate) fn reannotated(stored: &Value, annotations: &Value, fields: Value) -> Request {
    update(spec(fields.clone()), spec(fields))
        .with(|object| annotate(object, annotations))
        .with_stored(|object| annotate(object, stored))
}

impl Request {
    fn new(object: Value, stored: Option<Value>) -> Self {
        let clusters = ["a", "b", "c"].map(|name| (name, "eu", ["eu-1"].as_slice()));
        let clusters = localities(&clusters);
        Self {
            object,
            stored,
            dry_run: false,
            view: HubView {
                neighbors: Neighbors::default(),
                service: Some(Observed {
                    value: Some(facts(
                        ServiceKind::Other,
                        &[("http", 80), ("metrics", 9090)],
                    )),
                    live: true,
                }),
                clusters: Some(Observed {
                    value: Clusters::Named(Arc::new(clusters)),
                    live: true,
                }),
            },
            policy: Policy {
                missing_service: Strictness::Deny,
                unknown_cluster: Strictness::Warn,
                protection: Protection::new("causeway-system", []),
            },
        }
    }

    /// The Clusters, each with its region and its zones.
    pub(crate) fn located(mut self, clusters: &[(&str, &str, &[&str])]) -> Self {
        self.view.clusters = Some(Observed {
            value: Clusters::Named(Arc::new(localities(clusters))),
            live: true,
        });
        self
    }

    pub(crate) fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    pub(crate) fn named(mut self, namespace: &str, name: &str) -> Self {
        self.object["metadata"]["namespace"] = json!(namespace);
        self.object["metadata"]["name"] = json!(name);
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.object);
        self
    }

    pub(crate) fn with_stored(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(self.stored.as_mut().expect("an update"));
        self
    }

    pub(crate) fn service(mut self, kind: ServiceKind, ports: &[(&str, u16)]) -> Self {
        self.view.service = Some(Observed {
            value: Some(facts(kind, ports)),
            live: true,
        });
        self
    }

    /// Without its Service, in a namespace that has these.
    pub(crate) fn no_service_beside(self, names: &[&str]) -> Self {
        let mut request = self.no_service();
        request.view.neighbors = Neighbors::of(names.iter().copied());
        request
    }

    pub(crate) fn no_service(mut self) -> Self {
        self.view.service = Some(Observed {
            value: None,
            live: true,
        });
        self
    }

    pub(crate) fn no_clusters_served(mut self) -> Self {
        self.view.clusters = Some(Observed {
            value: Clusters::NotServed,
            live: true,
        });
        self
    }

    /// Marks the observations as cached.
    pub(crate) fn cached(mut self) -> Self {
        if let Some(observed) = &mut self.view.service {
            observed.live = false;
        }
        if let Some(observed) = &mut self.view.clusters {
            observed.live = false;
        }
        self
    }

    /// Nothing is known yet.
    pub(crate) fn unobserved(mut self) -> Self {
        self.view = HubView::default();
        self
    }

    pub(crate) fn missing_service(mut self, strictness: Strictness) -> Self {
        self.policy.missing_service = strictness;
        self
    }

    pub(crate) fn unknown_cluster(mut self, strictness: Strictness) -> Self {
        self.policy.unknown_cluster = strictness;
        self
    }

    pub(crate) fn allowing(mut self, namespace: &str) -> Self {
        self.policy.protection = Protection::new("causeway-system", [namespace.to_owned()]);
        self
    }

    pub(crate) fn review(&self) -> Value {
        let metadata = &self.object["metadata"];
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": UID,
                "kind": {"group": "networking.karmada.io", "version": "v1alpha1", "kind": "MultiClusterService"},
                "resource": {"group": "networking.karmada.io", "version": "v1alpha1", "resource": "multiclusterservices"},
                "name": metadata["name"].as_str().unwrap_or_default(),
                "namespace": metadata["namespace"],
                "operation": if self.stored.is_some() { "UPDATE" } else { "CREATE" },
                "userInfo": {"username": "kubernetes-admin"},
                "object": self.object,
                "oldObject": self.stored,
                "dryRun": self.dry_run,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        })
    }

    pub(crate) fn change(&self) -> Change {
        match self.subject() {
            Subject::Change(change) => *change,
            other => panic!("no change: {other:?}"),
        }
    }

    pub(crate) fn subject(&self) -> Subject {
        let text = self.review().to_string();
        review::read(text.as_bytes()).expect("a request").subject
    }

    /// Returns the mutated object; the object itself without a change.
    pub(crate) fn mutate(&self, id_taken: bool) -> (Value, Vec<String>) {
        match decide::mutate(self.change(), id_taken) {
            Decision::Allow { warnings } => (self.object.clone(), warnings),
            Decision::Patch {
                operations,
                warnings,
            } => {
                assert!(!operations.is_empty(), "an empty patch");
                let mut object = self.object.clone();
                json_patch::patch(&mut object, &operations).expect("the patch applies");
                (object, warnings)
            }
            Decision::Deny { denial, .. } => panic!("a mutation refuses nothing: {denial:?}"),
        }
    }

    pub(crate) fn validate(&self) -> Outcome {
        let validation = PreparedChange::from(self.change()).validate(&self.view, &self.policy);
        let (errors, warnings) = match validation.decision {
            Decision::Allow { warnings } => (Vec::new(), warnings),
            Decision::Deny {
                denial: Denial::Fields { errors, .. },
                warnings,
            } => (
                errors.shown().iter().map(ToString::to_string).collect(),
                warnings,
            ),
            other => panic!("no answer of a validation: {other:?}"),
        };
        Outcome {
            errors,
            warnings,
            unconfirmed: validation.unconfirmed,
        }
    }

    #[track_caller]
    pub(crate) fn passes(&self) {
        let outcome = self.validate();
        assert!(
            outcome.errors.is_empty() && outcome.warnings.is_empty(),
            "{outcome:#?}\nfor {:#}",
            self.object
        );
    }

    #[track_caller]
    pub(crate) fn warns(&self, warnings: &[&str]) {
        let outcome = self.validate();
        assert!(outcome.errors.is_empty(), "{outcome:#?}");
        assert_eq!(outcome.warnings, warnings, "for {:#}", self.object);
    }

    /// Asserts that a dry run warns of these errors, which are refused without one.
    #[track_caller]
    pub(crate) fn warns_on_dry_run(&self, errors: &[&str]) {
        let warning = |error: &&str| {
            let (path, rest) = error.split_once(": Invalid value: ").expect("a path");
            let (_, detail) = rest.split_once(": ").expect("a value");
            format!("{path}: {detail} (refused without dry run)")
        };
        let warnings: Vec<_> = errors.iter().map(warning).collect();
        let warnings: Vec<_> = warnings.iter().map(String::as_str).collect();
        self.clone().dry_run().warns(&warnings);
    }

    #[track_caller]
    pub(crate) fn is_refused(&self, errors: &[&str]) {
        let outcome = self.validate();
        assert_eq!(outcome.errors, errors, "for {:#}", self.object);
    }
}

fn facts(kind: ServiceKind, ports: &[(&str, u16)]) -> Arc<ServiceFacts> {
    let ports = ports.iter().map(|(name, number)| ServicePort {
        id: PortId {
            protocol: Protocol::Tcp,
            number: *number,
        },
        name: (*name).into(),
    });
    Arc::new(ServiceFacts {
        kind,
        ports: ports.collect(),
    })
}
