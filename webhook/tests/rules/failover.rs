//! V11: the annotations of failover.

use causeway::api::labels::{MIN_READY, PREFER, REACH, SHARE, UNREACHABLE};
use causeway_webhook::decide::{Impact, ServiceKind, Strictness, Unconfirmed};
use serde_json::{Value, json};

use crate::request::{Request, annotate, annotated, at, reannotated, spec, update};

const PORTS: [(&str, u16); 2] = [("http", 80), ("metrics", 9090)];

fn prefer(text: &str) -> Value {
    json!({ PREFER: text })
}

fn placed(providers: &[&str], consumers: &[&str]) -> Value {
    let list =
        |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    json!({"providerClusters": list(providers), "consumerClusters": list(consumers)})
}

#[test]
fn valid_annotations_are_accepted_without_a_warning() {
    for annotations in [
        prefer("local, region, any"),
        prefer("zone, any"),
        prefer("any"),
        prefer("local"),
        prefer("LocalFirst"),
        prefer("RemoteAndLocal"),
        prefer("local,cluster/a,cluster/b,any"),
        json!({PREFER: "local, any", MIN_READY: "50%"}),
        json!({UNREACHABLE: "keep"}),
        json!({UNREACHABLE: "standby"}),
        json!({UNREACHABLE: "withdraw-after=10m"}),
        json!({SHARE: "cluster/a=10%, cluster/b=0%, rest"}),
        json!({"mcs.causeway.dev/probe": "now", "example.com/prefer": "near"}),
    ] {
        annotated(&annotations, json!({})).passes();
        reannotated(&json!({}), &annotations, json!({})).passes();
        reannotated(&annotations, &json!({}), json!({})).passes();
    }
}

#[test]
fn invalid_annotation_is_refused_with_value_and_remedy() {
    let long = "x".repeat(49);
    let cases = [
        (
            prefer("near"),
            vec![at(
                PREFER,
                r#"Unsupported value: "near": supported values: "local", "zone", "region", "cluster/NAME", "same(KEY)", "property(KEY)=VALUE", "any""#,
            )],
        ),
        (
            prefer("local, Region, local, any, zone"),
            vec![
                at(
                    PREFER,
                    r#"Unsupported value: "Region": supported values: "local", "zone", "region", "cluster/NAME", "same(KEY)", "property(KEY)=VALUE", "any""#,
                ),
                at(PREFER, r#"Duplicate value: "local": name each tier once"#),
                at(
                    PREFER,
                    r#"Invalid value: "zone": nothing comes after any, which takes everybody else; move it before"#,
                ),
            ],
        ),
        (
            prefer(&format!("cluster/{long}")),
            vec![at(
                PREFER,
                &format!(
                    r#"Invalid value: "cluster/{long}": a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and has at most 48 characters (e.g. 'member1')"#
                ),
            )],
        ),
        (
            prefer(""),
            vec![at(
                PREFER,
                r#"Unsupported value: "": supported values: "local", "zone", "region", "cluster/NAME", "same(KEY)", "property(KEY)=VALUE", "any""#,
            )],
        ),
        (
            json!({PREFER: "local, any", MIN_READY: "+50%", UNREACHABLE: "withdraw-after=PT10M"}),
            vec![
                at(
                    MIN_READY,
                    r#"Invalid value: "+50%": a percentage from 1% to 100%, such as 50%"#,
                ),
                at(
                    UNREACHABLE,
                    r#"Invalid value: "withdraw-after=PT10M": write a duration as whole hours, minutes and seconds, such as 90s, 10m or 1h30m"#,
                ),
            ],
        ),
        (
            json!({UNREACHABLE: "withdraw-after=0s"}),
            vec![at(
                UNREACHABLE,
                r#"Invalid value: "withdraw-after=0s": must be at least 60s: an API server that restarts is unreachable for a while, and its pods serve on"#,
            )],
        ),
        (
            json!({SHARE: "cluster/a=10, a=1%, cluster/b=1%"}),
            vec![
                at(
                    SHARE,
                    r#"Invalid value: "cluster/a=10": write a whole percentage from 0% to 100%, such as 10%"#,
                ),
                at(
                    SHARE,
                    r#"Unsupported value: "a=1%": supported values: "cluster/NAME=N%", "rest""#,
                ),
                at(
                    SHARE,
                    r#"Invalid value: "cluster/a=10, a=1%, cluster/b=1%": add rest, which all other clusters share"#,
                ),
            ],
        ),
        (
            json!({SHARE: "cluster/a=60%, cluster/b=41%, rest"}),
            vec![at(
                SHARE,
                r#"Invalid value: "cluster/a=60%, cluster/b=41%, rest": the shares add up to 101%; lower them to 100% or less"#,
            )],
        ),
        (
            json!({PREFER: "local, any", MIN_READY: "0.5", UNREACHABLE: "drop"}),
            vec![
                at(
                    MIN_READY,
                    r#"Invalid value: "0.5": a percentage from 1% to 100%, such as 50%"#,
                ),
                at(
                    UNREACHABLE,
                    r#"Unsupported value: "drop": supported values: "keep", "standby", "withdraw-after=DURATION""#,
                ),
            ],
        ),
    ];
    for (annotations, errors) in cases {
        let errors: Vec<_> = errors.iter().map(String::as_str).collect();
        annotated(&annotations, json!({})).is_refused(&errors);
        annotated(&annotations, json!({}))
            .dry_run()
            .is_refused(&errors);
        reannotated(&json!({}), &annotations, json!({})).is_refused(&errors);
        // A LoadBalancer type is refused no less, and warned of beside that.
        annotated(&annotations, json!({"types": ["LoadBalancer"]}))
            .service(ServiceKind::LoadBalancer, &PORTS)
            .is_refused(&errors);
    }
}

#[test]
fn early_withdrawal_that_is_stored_does_not_block_updates() {
    let early = json!({UNREACHABLE: "withdraw-after=0s"});
    let changed = json!({UNREACHABLE: "withdraw-after=0s", PREFER: "local, any"});
    reannotated(&early, &changed, json!({})).passes();
}

#[test]
fn stored_error_stays_until_the_annotation_changes() {
    let wrong = json!({PREFER: "near, any", MIN_READY: "0%", UNREACHABLE: "drop"});
    let fields = || placed(&["a"], &["b"]);
    reannotated(&wrong, &wrong, fields()).passes();
    update(
        spec(fields()),
        spec(json!({"providerClusters": [{"name": "c"}]})),
    )
    .with(|object| annotate(object, &wrong))
    .with_stored(|object| annotate(object, &wrong))
    .passes();
    let changed = |annotations: Value| {
        let mut now = wrong.clone();
        for (name, value) in annotations.as_object().expect("annotations") {
            now[name] = value.clone();
        }
        reannotated(&wrong, &now, fields())
    };
    changed(json!({UNREACHABLE: "standby"})).passes();
    changed(json!({UNREACHABLE: null})).passes();
    changed(json!({PREFER: "region, any"})).passes();
    changed(json!({MIN_READY: "50%"})).passes();
    changed(json!({MIN_READY: "200%"})).is_refused(&[&at(
        MIN_READY,
        r#"Invalid value: "200%": a percentage from 1% to 100%, such as 50%"#,
    )]);
    changed(json!({PREFER: "near"})).is_refused(&[&at(
        PREFER,
        r#"Unsupported value: "near": supported values: "local", "zone", "region", "cluster/NAME", "same(KEY)", "property(KEY)=VALUE", "any""#,
    )]);
    // Gone, or no preference any more: the threshold is without a use from now on.
    for (preference, warning) in [
        (
            json!(null),
            "has no effect unless Namespace shop has mcs.causeway.dev/prefer; or set that too",
        ),
        (
            json!("RemoteAndLocal"),
            "has no effect without a preference; set mcs.causeway.dev/prefer too",
        ),
    ] {
        changed(json!({ PREFER: preference })).warns(&[&at(MIN_READY, warning)]);
    }
}

#[test]
fn an_object_that_is_being_deleted_is_not_held_up() {
    let wrong = json!({PREFER: "near", MIN_READY: "0%", UNREACHABLE: "drop"});
    let request = reannotated(&json!({}), &wrong, json!({}))
        .service(ServiceKind::Headless, &PORTS)
        .with_stored(|object| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
    request.passes();
    assert!(
        request
            .unobserved()
            .validate()
            .unconfirmed
            .impact()
            .is_none()
    );
}

#[test]
fn value_that_needs_a_proxy_is_refused_for_headless_services() {
    let refused = |annotation: &str, value: &str, rest: &str| {
        at(
            annotation,
            &format!(
                "Invalid value: {value:?}: Service shop/foo is headless: it has no proxy that chooses{rest}"
            ),
        )
    };
    let preference = refused(PREFER, "local, any", "; remove the annotation");
    let standby = refused(
        UNREACHABLE,
        "standby",
        ", and DNS leaves standby endpoints out; write keep, or withdraw-after=DURATION",
    );
    let share = refused(SHARE, "cluster/a=1%, rest", "; remove the annotation");
    for (annotations, errors) in [
        (prefer("local, any"), vec![&preference]),
        (json!({SHARE: "cluster/a=1%, rest"}), vec![&share]),
        (json!({UNREACHABLE: "standby"}), vec![&standby]),
        (
            json!({PREFER: "local, any", MIN_READY: "50%", UNREACHABLE: "standby"}),
            vec![&preference, &standby],
        ),
    ] {
        let errors: Vec<_> = errors.into_iter().map(String::as_str).collect();
        for request in [
            annotated(&annotations, json!({})),
            reannotated(&json!({}), &annotations, json!({})),
        ] {
            request.passes();
            let headless = request.service(ServiceKind::Headless, &PORTS);
            headless.is_refused(&errors);
            headless.warns_on_dry_run(&errors);
            headless
                .missing_service(Strictness::Warn)
                .is_refused(&errors);
        }
        // It was there before the Service was headless.
        reannotated(&annotations, &json!({}), json!({}))
            .service(ServiceKind::Headless, &PORTS)
            .passes();
    }
    // What cannot be read would have to go all the same.
    annotated(&prefer("near"), json!({}))
        .service(ServiceKind::Headless, &PORTS)
        .is_refused(&[
            &at(
                PREFER,
                r#"Unsupported value: "near": supported values: "local", "zone", "region", "cluster/NAME", "same(KEY)", "property(KEY)=VALUE", "any""#,
            ),
            &refused(PREFER, "near", "; remove the annotation"),
        ]);
    for annotations in [
        prefer("RemoteAndLocal"),
        json!({UNREACHABLE: "keep"}),
        json!({UNREACHABLE: "withdraw-after=1h"}),
    ] {
        annotated(&annotations, json!({}))
            .service(ServiceKind::Headless, &PORTS)
            .passes();
    }
}

#[test]
fn that_a_service_is_headless_is_confirmed_before_it_is_refused() {
    let service = Unconfirmed {
        service: Some(Impact::Denial),
        clusters: None,
    };
    let request = || reannotated(&json!({}), &prefer("local, any"), json!({}));
    let headless = request().service(ServiceKind::Headless, &PORTS);
    for (request, unconfirmed) in [
        (request().cached(), Unconfirmed::default()),
        (request().unobserved(), service),
        (headless.clone(), Unconfirmed::default()),
        (headless.cached(), service),
        (
            reannotated(&json!({}), &json!({UNREACHABLE: "keep"}), json!({})).unobserved(),
            Unconfirmed::default(),
        ),
        (
            reannotated(&prefer("any"), &json!({MIN_READY: "50%"}), json!({})).unobserved(),
            Unconfirmed::default(),
        ),
    ] {
        assert_eq!(
            request.validate().unconfirmed,
            unconfirmed,
            "{:#}",
            request.object
        );
    }
}

#[test]
fn annotations_without_an_effect_are_warned_of() {
    annotated(&json!({MIN_READY: "50%"}), json!({})).warns(&[&at(
        MIN_READY,
        "has no effect unless Namespace shop has mcs.causeway.dev/prefer; or set that too",
    )]);
    let all = json!({
        PREFER: "cluster/zz, local", MIN_READY: "50%", UNREACHABLE: "standby",
        SHARE: "cluster/zz=1%, rest", REACH: "cluster-ip",
    });
    let warnings = [PREFER, MIN_READY, UNREACHABLE, SHARE, REACH].map(|name| {
        at(
            name,
            "has no effect on a MultiClusterService of type LoadBalancer without spec.consumerClusters",
        )
    });
    let balanced = || json!({"types": ["LoadBalancer"], "providerClusters": [{"name": "a"}]});
    for request in [
        annotated(&all, balanced()),
        reannotated(&json!({}), &all, balanced()),
    ] {
        request
            .service(ServiceKind::LoadBalancer, &PORTS)
            .unknown_cluster(Strictness::Deny)
            .warns(&warnings.each_ref().map(String::as_str));
    }
    reannotated(&all, &json!({MIN_READY: "60%"}), balanced())
        .service(ServiceKind::LoadBalancer, &PORTS)
        .warns(&[&warnings[1]]);
}

#[test]
fn tier_local_without_effect_is_warned_of() {
    let late = at(
        PREFER,
        "a consumer that is also a provider always uses its own pods, which are in its own EndpointSlices; write local first",
    );
    let nobody = at(
        PREFER,
        "no consumer is a provider, so nobody is in tier local; remove it",
    );
    let some: [&[&str]; 4] = [&[], &["a"], &["b"], &["a", "b"]];
    for (preference, providers, consumers, warning) in [
        ("local, any", some[0], some[0], None),
        ("local, any", some[3], some[1], None),
        ("local, any", some[1], some[2], Some(&nobody)),
        ("region, local", some[1], some[2], Some(&nobody)),
        ("region, local, any", some[0], some[0], Some(&late)),
        ("region, local, any", some[3], some[1], Some(&late)),
        ("region, any", some[3], some[1], None),
        ("zone, local, any", some[1], some[0], Some(&late)),
        ("any", some[0], some[0], None),
        // The one cluster that is both is the one that is preferred.
        ("cluster/a, local", some[1], some[3], None),
        ("cluster/a, any", some[1], some[3], None),
        ("cluster/a, any", some[3], some[1], None),
        ("cluster/a, any", some[1], some[2], None),
        ("cluster/b, any", some[3], some[1], Some(&late)),
        ("cluster/b, local, any", some[3], some[1], Some(&late)),
        ("cluster/a", some[0], some[0], Some(&late)),
        ("cluster/a", some[0], some[3], Some(&late)),
        ("cluster/a", some[0], some[1], None),
    ] {
        let fields = placed(providers, consumers);
        let warnings: Vec<_> = warning.into_iter().map(String::as_str).collect();
        let annotations = prefer(preference);
        let warns = |request: Request| {
            let found = request.validate();
            assert!(found.errors.is_empty(), "{found:?}");
            let about = |text: &&String| text.contains(PREFER);
            let found: Vec<_> = found.warnings.iter().filter(about).collect();
            assert_eq!(
                found, warnings,
                "{preference} from {providers:?} to {consumers:?}"
            );
        };
        warns(annotated(&annotations, fields.clone()));
        warns(reannotated(&prefer("any"), &annotations, fields.clone()));
        let before = spec(placed(&["c"], &["c"]));
        let moved = update(before, spec(fields.clone()));
        let moved = moved.with_stored(|object| annotate(object, &annotations));
        warns(moved.with(|object| annotate(object, &annotations)));
        let another = json!({PREFER: preference, UNREACHABLE: "keep"});
        reannotated(&annotations, &another, fields).passes();
    }
}

#[test]
fn the_deprecated_lists_count_as_their_successors() {
    let fields = json!({"serviceProvisionClusters": ["a"], "range": {"clusterNames": ["b"]}});
    annotated(&prefer("local, cluster/b, any"), fields.clone()).warns(&[
        &at(
            PREFER,
            "no consumer is a provider, so nobody is in tier local; remove it",
        ),
        &at(
            PREFER,
            r#"cluster "b" is no provider, so nobody is in tier cluster/b; add it to spec.providerClusters, or remove the tier"#,
        ),
    ]);
    reannotated(&json!({}), &prefer("local, any"), fields).warns(&[&at(
        PREFER,
        "no consumer is a provider, so nobody is in tier local; remove it",
    )]);
}

#[test]
fn share_of_a_cluster_that_provides_nothing_is_warned_of() {
    let no_provider = at(
        SHARE,
        r#"cluster "b" is no provider, so its share goes to the others; add it to spec.providerClusters, or remove the entry"#,
    );
    let share = |text: &str| json!({ SHARE: text });
    let fields = || placed(&["a"], &["c"]);
    annotated(&share("cluster/a=1%, rest"), fields()).passes();
    annotated(&share("cluster/b=1%, cluster/a=1%, rest"), fields()).warns(&[&no_provider]);
    let stored = share("cluster/b=1%, rest");
    reannotated(&stored, &share("cluster/b=2%, rest"), fields()).passes();
    let unknown = at(
        SHARE,
        r#"Invalid value: "cluster/zz": no Cluster is named "zz"; join it, or correct the name"#,
    );
    let fields = || placed(&[], &[]);
    let request = || annotated(&share("cluster/zz=1%, rest"), fields());
    request()
        .unknown_cluster(Strictness::Deny)
        .is_refused(&[&unknown]);
}

#[test]
fn a_preferred_cluster_that_provides_nothing_is_warned_of() {
    let no_provider = |name: &str| {
        at(
            PREFER,
            &format!(
                "cluster {name:?} is no provider, so nobody is in tier cluster/{name}; add it to spec.providerClusters, or \
                 remove the tier"
            ),
        )
    };
    let fields = || placed(&["a"], &["c"]);
    let preferring = |names: &[&str]| {
        let tiers = names.iter().map(|name| format!("cluster/{name}"));
        prefer(&tiers.collect::<Vec<_>>().join(", "))
    };
    annotated(&preferring(&["a"]), fields()).passes();
    annotated(&preferring(&["b", "a", "c"]), fields())
        .warns(&[&no_provider("b"), &no_provider("c")]);
    reannotated(&preferring(&["b"]), &preferring(&["b", "c"]), fields())
        .warns(&[&no_provider("c")]);
    // It was a provider until now.
    let moved = update(spec(placed(&["a", "b"], &["c"])), spec(fields()));
    let both = preferring(&["a", "b"]);
    moved
        .with(|object| annotate(object, &both))
        .with_stored(|object| annotate(object, &both))
        .warns(&[&no_provider("b")]);
    annotated(&preferring(&["b"]), placed(&[], &["b"])).passes();
}

#[test]
fn empty_tiers_of_zone_and_region_are_warned_of() {
    let zone = at(
        PREFER,
        "no consumer shares a zone with another provider, so nobody is in tier zone; set spec.zones of \
         the Clusters, or remove the tier",
    );
    let region = at(
        PREFER,
        "no consumer is in the region of another provider, so nobody is in tier region; set spec.region \
         of the Clusters, or remove the tier",
    );
    type Places = &'static [(&'static str, &'static str, &'static [&'static str])];
    let apart: Places = &[("a", "eu", &["eu-1"]), ("b", "us", &["us-1", "us-2"])];
    let together: Places = &[("a", "eu", &["eu-1"]), ("b", "eu", &["eu-2", "eu-1"])];
    let nowhere: Places = &[("a", "", &[]), ("b", "", &[])];
    let all = || placed(&[], &[]);
    let named = || placed(&["a"], &["b"]);
    for (preference, fields, clusters, warnings) in [
        ("zone", named(), nowhere, vec![&zone]),
        ("zone, region, any", named(), apart, vec![&zone, &region]),
        ("zone, region, any", named(), together, vec![]),
        // A consumer is in its own zone, unless its own tier comes first.
        ("zone, any", all(), nowhere, vec![]),
        ("local, zone, any", all(), nowhere, vec![&zone]),
        ("local, region, any", all(), apart, vec![&region]),
        ("local, region, any", all(), together, vec![]),
        // Without Clusters, and of one that is unknown, nothing is certain.
        ("local, zone, any", all(), &[], vec![]),
        ("zone, any", named(), &together[..1], vec![]),
    ] {
        let warnings: Vec<_> = warnings.into_iter().map(String::as_str).collect();
        let about = |request: Request| {
            let found = request.located(clusters).validate();
            let tiers = |text: &&String| text.contains("nobody is in tier");
            let found: Vec<_> = found.warnings.iter().filter(tiers).cloned().collect();
            assert_eq!(found, warnings, "{preference} of {clusters:?}");
        };
        about(annotated(&prefer(preference), fields.clone()));
        about(reannotated(
            &prefer("any"),
            &prefer(preference),
            fields.clone(),
        ));
        let kept = reannotated(&prefer(preference), &prefer(preference), fields);
        kept.located(clusters).passes();
    }
}

#[test]
fn a_preferred_cluster_that_is_unknown_is_warned_of_or_refused() {
    let unknown = at(
        PREFER,
        r#"Invalid value: "cluster/zz": no Cluster is named "zz"; join it, or correct the name"#,
    );
    let not_served = at(
        PREFER,
        r#"Invalid value: "cluster/zz": the hub serves no Cluster objects, by which clusters are known; join it, or correct the name"#,
    );
    let warning = unknown.replace(r#"Invalid value: "cluster/zz": "#, "");
    let preference = prefer("local, cluster/zz, any");
    for request in [
        annotated(&preference, json!({})),
        reannotated(&prefer("local, any"), &preference, json!({})),
    ] {
        request.warns(&[&warning]);
        let strict = request.clone().unknown_cluster(Strictness::Deny);
        strict.is_refused(&[&unknown]);
        strict.warns_on_dry_run(&[&unknown]);
        strict
            .clone()
            .no_clusters_served()
            .is_refused(&[&not_served]);
        request.clone().no_clusters_served().passes();
        for (request, impact) in [(request, Impact::Warning), (strict, Impact::Denial)] {
            for request in [request.clone().cached(), request.unobserved()] {
                let unconfirmed = request.validate().unconfirmed;
                assert_eq!(unconfirmed.clusters, Some(impact));
            }
        }
    }
    let kept = reannotated(&preference, &prefer("local, cluster/zz"), json!({}))
        .unknown_cluster(Strictness::Deny);
    kept.passes();
    assert_eq!(kept.cached().validate().unconfirmed, Unconfirmed::default());
}
