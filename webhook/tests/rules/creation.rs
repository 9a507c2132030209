//! V1 to V10 on create; V11 is in `failover`, V12 in `reach`.

use causeway_webhook::decide::{ServiceKind, Strictness};
use serde_json::{Value, json};

use crate::request::{create, spec};

#[test]
fn valid_object_is_accepted_without_a_warning() {
    for fields in [
        json!({}),
        json!({"ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]}),
        json!({"ports": [{"port": 80}]}),
        json!({"ports": [{"name": "", "port": 9090}]}),
        json!({"providerClusters": [{"name": "a"}], "consumerClusters": [{"name": "b"}]}),
        json!({"providerClusters": [{"name": "a"}], "consumerClusters": [{"name": "a"}, {"name": "b"}]}),
        json!({"providerClusters": [], "consumerClusters": []}),
    ] {
        create(spec(fields)).passes();
    }
    create(json!({"types": ["LoadBalancer"]}))
        .service(ServiceKind::LoadBalancer, &[("", 80)])
        .passes();
}

#[test]
fn name_is_a_valid_service_name() {
    let label = |name: &str| {
        format!(
            "metadata.name: Invalid value: {name:?}: a lowercase RFC 1123 label must consist of lower case alphanumeric \
             characters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. \
             'my-name' or '123-abc')"
        )
    };
    for name in ["Foo", "a.b", "foo-", &"x".repeat(64), "a_b"] {
        create(spec(json!({})))
            .named("shop", name)
            .no_service()
            .is_refused(&[&label(name)]);
    }
    let digits = create(spec(json!({}))).named("shop", "1foo");
    digits.passes();
    digits
        .clone()
        .no_service()
        .missing_service(Strictness::Warn)
        .warns(&[&awaited("1foo")]);
    digits
        .clone()
        .no_service()
        .dry_run()
        .warns(&[&tried("1foo")]);
    digits.no_service().is_refused(&[&missing("1foo")]);
}

fn missing(name: &str) -> String {
    format!(
        "metadata.name: Invalid value: {name:?}: there is no Service shop/{name}; create the Service first, under the name \
         and in the namespace of the MultiClusterService"
    )
}

fn tried(name: &str) -> String {
    let text = missing(name).replace(&format!("Invalid value: {name:?}: "), "");
    format!("{text} (refused without dry run)")
}

fn awaited(name: &str) -> String {
    format!("metadata.name: there is no Service shop/{name} yet; nothing is exposed until there is")
}

#[test]
fn missing_service_is_refused_or_warned_of() {
    let request = create(spec(json!({"ports": [{"name": "http", "port": 80}]}))).no_service();
    request.is_refused(&[&missing("foo")]);
    request.clone().dry_run().warns(&[&tried("foo")]);
    request
        .missing_service(Strictness::Warn)
        .warns(&[&awaited("foo")]);
}

#[test]
fn missing_service_names_those_of_its_namespace() {
    let create = || create(spec(json!({})));
    let beside = |names: &[&str]| create().no_service_beside(names);
    let two = "; namespace shop has bar, baz";
    beside(&["baz", "bar"]).is_refused(&[&format!("{}{two}", missing("foo"))]);
    let warned = beside(&["baz", "bar"]).missing_service(Strictness::Warn);
    warned.warns(&[&format!("{}{two}", awaited("foo"))]);
    let many: Vec<_> = (0..5_000).map(|number| format!("s{number:04}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let first = many[..10].join(", ");
    beside(&many).is_refused(&[&format!(
        "{}; namespace shop has {first} and 4990 more",
        missing("foo")
    )]);
}

#[test]
fn generated_name_is_denied() {
    let remedy = "a MultiClusterService is named like the Service that it exposes: set metadata.name to the Service's name, \
                  and leave out metadata.generateName";
    let refused = |name: &str| format!("metadata.name: Invalid value: {name:?}: {remedy}");
    let request = create(spec(json!({}))).with(|object| {
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.remove("name");
        metadata.insert("generateName".into(), json!("foo-"));
    });
    request.is_refused(&[&refused("")]);
    request.clone().dry_run().warns(&[&format!(
        "metadata.name: {remedy} (refused without dry run)"
    )]);
    request
        .clone()
        .missing_service(Strictness::Warn)
        .warns(&[&format!("metadata.name: {remedy}")]);
    let made_up = request.clone().named("shop", "foo-x7k2p").no_service();
    made_up.is_refused(&[&refused("foo-x7k2p")]);
    // The API server makes up a name only where there is none.
    for name in ["bar", "foo-x7k2pq", "foo-aeiou"] {
        let named = request.clone().named("shop", name).no_service();
        named.is_refused(&[&missing(name)]);
    }
}

#[test]
fn external_name_is_refused_under_all_flags() {
    let error = "metadata.name: Invalid value: \"foo\": Service shop/foo is of type ExternalName, an alias without endpoints; \
                 only a Service of another type can be exposed to other clusters";
    let request =
        create(spec(json!({"ports": [{"port": 1}]}))).service(ServiceKind::ExternalName, &[]);
    request.is_refused(&[error]);
    request.warns_on_dry_run(&[error]);
    request
        .missing_service(Strictness::Warn)
        .is_refused(&[error]);
}

#[test]
fn types_are_known_and_one() {
    let cases: [(Value, &[&str]); 5] = [
        (
            json!([]),
            &["spec.types: Required value: name one type: CrossCluster or LoadBalancer"],
        ),
        (
            json!(["ClusterIP"]),
            &[
                r#"spec.types[0]: Unsupported value: "ClusterIP": supported values: "CrossCluster", "LoadBalancer""#,
            ],
        ),
        (
            json!(["CrossCluster", "LoadBalancer"]),
            &[
                r#"spec.types: Invalid value: ["CrossCluster","LoadBalancer"]: at most one type; make a MultiClusterService either CrossCluster or LoadBalancer"#,
            ],
        ),
        (
            json!(["crosscluster", "CrossCluster"]),
            &[
                r#"spec.types[0]: Unsupported value: "crosscluster": supported values: "CrossCluster", "LoadBalancer""#,
                r#"spec.types: Invalid value: ["crosscluster","CrossCluster"]: at most one type; make a MultiClusterService either CrossCluster or LoadBalancer"#,
            ],
        ),
        (
            json!(["X", "X"]),
            &[
                r#"spec.types[0]: Unsupported value: "X": supported values: "CrossCluster", "LoadBalancer""#,
                r#"spec.types[1]: Unsupported value: "X": supported values: "CrossCluster", "LoadBalancer""#,
            ],
        ),
    ];
    for (types, errors) in cases {
        create(json!({ "types": types })).is_refused(errors);
    }
}

#[test]
fn ports_are_labels_numbers_and_unique() {
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', must start and end \
                 with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc')";
    let cases: [(Value, &[&str]); 6] = [
        (
            json!([{"name": "HTTP", "port": 80}]),
            &[&format!(
                r#"spec.ports[0].name: Invalid value: "HTTP": {label}"#
            )],
        ),
        (
            json!([{"port": 0}, {"port": 65536}, {"port": -1}]),
            &[
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
                "spec.ports[2].port: Invalid value: -1: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            json!([{"name": "http", "port": 80}, {"name": "http", "port": 80}]),
            &[r#"spec.ports[1].name: Duplicate value: "http": port names are unique"#],
        ),
        (
            json!([{"name": "http", "port": 80}, {"port": 80}]),
            &[
                r#"spec.ports[1]: Duplicate value: "80": means the same Service port as the entry "http 80"; remove one of them"#,
            ],
        ),
        (
            json!([{"port": 80}, {"port": 80}]),
            &[
                r#"spec.ports[1]: Duplicate value: "80": means the same Service port as the entry "80"; remove one of them"#,
            ],
        ),
        (
            json!([{"port": 80}, {"name": "http", "port": 80}]),
            &[
                r#"spec.ports[1]: Duplicate value: "http 80": means the same Service port as the entry "80"; remove one of them"#,
            ],
        ),
    ];
    for (ports, errors) in cases {
        create(spec(json!({ "ports": ports }))).is_refused(errors);
    }
}

#[test]
fn ports_are_those_of_the_service() {
    let cases = [
        (
            json!({"name": "htp", "port": 80}),
            r#"spec.ports[0].name: Invalid value: "htp": Service shop/foo has no port named "htp"; it has http 80/TCP, metrics 9090/TCP"#,
        ),
        (
            json!({"name": "http", "port": 81}),
            r#"spec.ports[0].port: Invalid value: 81: port "http" of Service shop/foo is 80; the Service has http 80/TCP, metrics 9090/TCP"#,
        ),
        (
            json!({"port": 81}),
            "spec.ports[0].port: Invalid value: 81: Service shop/foo has no port 81; it has http 80/TCP, metrics 9090/TCP",
        ),
    ];
    for (port, error) in cases {
        let request = create(spec(json!({ "ports": [port] })));
        request.is_refused(&[error]);
        let (path, _, detail) = parts(error);
        request
            .clone()
            .missing_service(Strictness::Warn)
            .warns(&[&format!("{path}: {detail}")]);
        request
            .dry_run()
            .warns(&[&format!("{path}: {detail} (refused without dry run)")]);
    }
    create(spec(json!({"ports": [{"name": "http", "port": 80}]})))
        .service(ServiceKind::Other, &[])
        .is_refused(&[
            r#"spec.ports[0].name: Invalid value: "http": Service shop/foo has no port named "http"; it has no ports"#,
        ]);
}

/// Path, problem and detail of an error.
fn parts(error: &str) -> (&str, &str, &str) {
    let (path, rest) = error.split_once(": Invalid value: ").expect("a path");
    let (value, detail) = rest.split_once(": ").expect("a value");
    (path, value, detail)
}

#[test]
fn clusters_are_named_as_clusters_are() {
    let long = "x".repeat(49);
    create(spec(
        json!({"providerClusters": [{"name": "a"}, {"name": "clusterB"}], "consumerClusters": [{"name": long}, {}]}),
    ))
    .is_refused(&[
        r#"spec.providerClusters[1].name: Invalid value: "clusterB": a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and has at most 48 characters (e.g. 'member1')"#,
        &format!(r#"spec.consumerClusters[0].name: Invalid value: "{long}": a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and has at most 48 characters (e.g. 'member1')"#),
        r#"spec.consumerClusters[1].name: Invalid value: "": name the cluster, or remove the entry; without any entry all clusters are selected"#,
    ]);
}

#[test]
fn unknown_clusters_are_warned_of_or_refused() {
    let request = create(spec(
        json!({"providerClusters": [{"name": "a"}, {"name": "member9"}], "consumerClusters": [{"name": "member9"}]}),
    ));
    let outcome = [
        r#"spec.providerClusters[1].name: Invalid value: "member9": no Cluster is named "member9"; join it, or correct the name"#,
        r#"spec.consumerClusters[0].name: Invalid value: "member9": no Cluster is named "member9"; join it, or correct the name"#,
    ];
    request.warns(
        &outcome
            .map(|error| error.replace("Invalid value: \"member9\": ", ""))
            .each_ref()
            .map(String::as_str),
    );
    let strict = request.unknown_cluster(Strictness::Deny);
    strict.is_refused(&outcome);
    strict.warns_on_dry_run(&outcome);
}

#[test]
fn unserved_clusters_cause_no_warning_but_a_strict_denial() {
    let request = create(spec(json!({"providerClusters": [{"name": "a"}]}))).no_clusters_served();
    request.passes();
    let error = r#"spec.providerClusters[0].name: Invalid value: "a": the hub serves no Cluster objects, by which clusters are known; join it, or correct the name"#;
    let strict = request.unknown_cluster(Strictness::Deny);
    strict.is_refused(&[error]);
    strict.warns_on_dry_run(&[error]);
    create(spec(json!({})))
        .no_clusters_served()
        .unknown_cluster(Strictness::Deny)
        .passes();
}

#[test]
fn deprecated_fields_that_disagree_are_refused() {
    create(spec(
        json!({"consumerClusters": [{"name": "a"}], "range": {"clusterNames": ["b"]}}),
    ))
    .is_refused(&[
        r#"spec.range.clusterNames: Invalid value: ["b"]: deprecated, and disagrees with spec.consumerClusters ["a"]; remove spec.range.clusterNames and list the clusters in spec.consumerClusters"#,
    ]);
    create(spec(
        json!({"range": {"clusterNames": ["a"]}, "serviceConsumptionClusters": ["b"]}),
    ))
    .is_refused(&[
        r#"spec.serviceConsumptionClusters: Invalid value: ["b"]: deprecated, and disagrees with spec.range.clusterNames ["a"]; remove spec.serviceConsumptionClusters and list the clusters in spec.consumerClusters"#,
    ]);
    create(spec(
        json!({"providerClusters": [{"name": "a"}], "serviceProvisionClusters": ["a", "b"]}),
    ))
    .is_refused(&[
        r#"spec.serviceProvisionClusters: Invalid value: ["a","b"]: deprecated, and disagrees with spec.providerClusters ["a"]; remove spec.serviceProvisionClusters and list the clusters in spec.providerClusters"#,
    ]);
}

#[test]
fn error_in_a_deprecated_field_names_that_field() {
    create(spec(
        json!({"serviceProvisionClusters": ["clusterB"], "range": {"clusterNames": ["a", "zz"]}}),
    ))
    .is_refused(&[
        r#"spec.serviceProvisionClusters[0]: Invalid value: "clusterB": a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and has at most 48 characters (e.g. 'member1')"#,
    ]);
}

#[test]
fn deprecated_field_is_validated_beside_its_successor() {
    create(spec(
        json!({"consumerClusters": [{"name": "a"}], "range": {"clusterNames": ["a", "clusterB"]}}),
    ))
    .is_refused(&[
        r#"spec.range.clusterNames[1]: Invalid value: "clusterB": a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and has at most 48 characters (e.g. 'member1')"#,
        r#"spec.range.clusterNames: Invalid value: ["a","clusterB"]: deprecated, and disagrees with spec.consumerClusters ["a"]; remove spec.range.clusterNames and list the clusters in spec.consumerClusters"#,
    ]);
}

#[test]
fn harmless_oddities_cause_warnings() {
    create(spec(json!({
        "providerClusters": [{"name": "a"}, {"name": "b"}, {"name": "a"}],
        "consumerClusters": [{"name": "c"}, {"name": "c"}],
    })))
    .with(|object| object["spec"]["types"] = json!(["CrossCluster", "CrossCluster"]))
    .warns(&[
        r#"spec.types[1]: "CrossCluster" is listed already"#,
        r#"spec.providerClusters[2].name: cluster "a" is listed already"#,
        r#"spec.consumerClusters[1].name: cluster "c" is listed already"#,
    ]);
    let itself = json!({"providerClusters": [{"name": "a"}], "consumerClusters": [{"name": "a"}]});
    create(spec(itself)).warns(&[
        r#"spec: cluster "a" is the only provider and the only consumer, so no endpoints cross clusters"#,
    ]);
    create(json!({"types": ["LoadBalancer"]})).warns(&[
        "spec.types: LoadBalancer gathers load balancer addresses, but Service shop/foo is not of type LoadBalancer; name the clusters whose load balancers are to lead to all pods in spec.consumerClusters, or change the Service",
    ]);
}

#[test]
fn some_places_are_out_of_bounds() {
    let protected = |namespace: &str| {
        format!(
            "metadata.namespace: Invalid value: {namespace:?}: namespace {namespace} is protected; start causeway with \
             --allow-namespace {namespace} to allow it"
        )
    };
    for namespace in [
        "kube-system",
        "kube-public",
        "karmada-system",
        "karmada-es-a",
        "causeway-system",
    ] {
        let request = create(spec(json!({}))).named(namespace, "foo");
        request.is_refused(&[&protected(namespace)]);
        request.allowing(namespace).passes();
    }
    create(spec(json!({}))).named("default", "foo").passes();
    create(spec(json!({})))
        .named("default", "kubernetes")
        .allowing("default")
        .is_refused(&[
            r#"metadata.name: Invalid value: "kubernetes": default/kubernetes is the API server of each cluster itself and cannot be exposed to others"#,
        ]);
}

#[test]
fn all_errors_of_an_object_come_at_once() {
    let outcome = create(json!({
        "types": [],
        "ports": [{"name": "htp", "port": 80}, {"port": 0}],
        "providerClusters": [{"name": "B"}],
        "consumerClusters": [{"name": "a"}], "range": {"clusterNames": ["c"]},
    }))
    .named("kube-system", "foo")
    .validate();
    let paths: Vec<_> = outcome
        .errors
        .iter()
        .map(|error| error.split(": ").next().unwrap_or_default())
        .collect();
    assert_eq!(
        paths,
        [
            "metadata.namespace",
            "spec.types",
            "spec.ports[1].port",
            "spec.providerClusters[0].name",
            "spec.range.clusterNames",
            "spec.ports[0].name"
        ]
    );
}
