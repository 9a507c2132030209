//! Clusters that are made of ClusterProfiles.

use causeway::api::ClusterProfile;
use serde_json::json;

use super::*;
use crate::model::{HubEvent, Profile};

const MANAGERS: &str = "fleet";

/// Returns a profile that offers the server of that URL by the provider that the controller knows.
fn profile(namespace: &str, name: &str, server: &str) -> Profile {
    offering(
        namespace,
        name,
        json!([{"name": "known", "cluster": {"server": server}}]),
    )
}

fn offering(namespace: &str, name: &str, access_providers: Value) -> Profile {
    let object: ClusterProfile = serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}")},
        "spec": {"clusterManager": {"name": "manager"}},
        "status": {
            "accessProviders": access_providers,
            "properties": [{"name": "region.topology.k8s.io", "value": "eu"}],
        },
    }))
    .expect("a ClusterProfile");
    Profile::read(&object, &["known".into(), "other".into()])
}

/// Returns a hub of causeway's Clusters that lists these profiles.
fn hub(profiles: Vec<Profile>) -> Environment {
    let mut env = env();
    env.keeps_clusters = true;
    env.hear(Signal::Listed(profiles));
    env
}

impl Environment {
    fn hear(&mut self, signal: Signal<Profile>) -> &mut Self {
        self.observe_hub(HubEvent::Profiles(MANAGERS.to_owned(), signal))
            .settle()
    }

    fn endpoint(&self, cluster: &str) -> Option<String> {
        let stored = self.hub.get(Kind::Cluster, "", cluster)?;
        stored["spec"]["apiEndpoint"]
            .as_str()
            .map(ToOwned::to_owned)
    }

    fn refused(&self) -> Vec<String> {
        let all = refused_profiles(&self.index, self.keeps_clusters);
        let texts = all
            .into_iter()
            .map(|one| format!("{}: {}", one.id.name, one.event.note));
        texts.collect()
    }
}

#[test]
fn a_cluster_is_made_of_a_profile_and_follows_it() {
    let mut env = hub(vec![profile(MANAGERS, "edge", "https://edge.example/one")]);
    let made = stored(&env, "edge");
    assert_eq!(
        made["metadata"]["labels"],
        json!({
            labels::HUB: env.index.hub_uid(),
            labels::MANAGED_BY: labels::MANAGER,
            labels::PROFILE_NAMESPACE: MANAGERS,
        })
    );
    assert_eq!(
        made["spec"],
        json!({"syncMode": "Push", "apiEndpoint": "https://edge.example/one", "region": "eu"})
    );
    env.assert_at_rest();
    env.hear(Signal::Applied(profile(
        MANAGERS,
        "edge",
        "https://edge.example/two",
    )));
    assert_eq!(
        env.endpoint("edge").as_deref(),
        Some("https://edge.example/two")
    );
    assert!(env.refused().is_empty());
    env.assert_at_rest();
}

#[test]
fn status_is_written_while_the_patch_of_a_profile_is_refused() {
    let mut env = hub(vec![profile(MANAGERS, "edge", "https://edge.example/one")]);
    let made = Object {
        kind: Kind::Cluster,
        value: stored(&env, "edge"),
    };
    env.member("edge").on_hub(made).settle();
    let refused = Failure::new(FailureKind::Forbidden, "forbidden");
    env.hub.refuses_object = Some((ObjectId::Cluster(name("edge")), refused));
    let two = "https://edge.example/two";
    env.hear(Signal::Applied(profile(MANAGERS, "edge", two)));
    env.lose("edge").pass(Duration::from_secs(60));
    assert_eq!(ready(&env, "edge"), "False Unreachable: connection refused");
    env.hub.refuses_object = None;
    env.pass(Duration::from_secs(60));
    assert_eq!(env.endpoint("edge").as_deref(), Some(two));
}

#[test]
fn a_cluster_goes_with_its_profile_only_if_that_is_proven() {
    let both = || ["edge", "far"].map(|name| profile(MANAGERS, name, "https://x.example"));
    let [_, far] = both();
    let lists = |profiles: &[Profile]| vec![Signal::Listed(profiles.to_vec()), Signal::Confirmed];
    for (what, events, remains) in [
        (
            "a watch showed it deleted",
            vec![Signal::Deleted(both()[0].clone())],
            false,
        ),
        ("two lists of others lack it", lists(&[far]), false),
        ("an empty list proves nothing", lists(&[]), true),
    ] {
        let mut env = hub(both().into());
        for event in events {
            env.hear(event);
        }
        assert!(env.endpoint("edge").is_some(), "{what}");
        env.pass(Duration::from_secs(3600));
        assert_eq!(env.endpoint("edge").is_some(), remains, "{what}");
        assert!(env.endpoint("far").is_some(), "{what}");
    }
}

#[test]
fn a_definition_that_goes_and_comes_back_takes_no_cluster_along() {
    let served = |served| HubEvent::ProfilesServed(MANAGERS.to_owned(), served);
    let mut env = hub(vec![profile(MANAGERS, "edge", "https://edge.example")]);
    env.observe_hub(served(false)).observe_hub(served(true));
    env.hear(Signal::Listed(Vec::new()));
    assert!(env.endpoint("edge").is_some());
    env.assert_at_rest();
}

#[test]
fn definition_that_is_deleted_with_its_profiles_takes_no_cluster_along() {
    let names = ["edge", "far"];
    let both = || names.map(|name| profile(MANAGERS, name, "https://x.example"));
    for event in [
        HubEvent::ProfilesServed(MANAGERS.to_owned(), false),
        HubEvent::Profiles(MANAGERS.to_owned(), Signal::Listed(Vec::new())),
    ] {
        let mut env = hub(both().into());
        for one in both() {
            env.hear(Signal::Deleted(one));
        }
        env.pass(Duration::from_secs(30));
        env.observe_hub(event).pass(Duration::from_secs(3600));
        assert!(names.iter().all(|name| env.endpoint(name).is_some()));
    }
}

#[test]
fn initial_list_without_a_profile_deletes_nothing_before_a_second_one() {
    let both = ["edge", "far"].map(|name| profile(MANAGERS, name, "https://x.example"));
    let [_, far] = both.clone();
    let mut env = hub(both.into());
    env.restart().hear(Signal::Listed(vec![far.clone()]));
    assert!(env.take_second_lists().contains(&TargetCluster::Hub));
    env.pass(Duration::from_secs(3600));
    assert!(env.endpoint("edge").is_some());
    env.hear(Signal::Listed(vec![far])).hear(Signal::Confirmed);
    assert!(!env.take_second_lists().contains(&TargetCluster::Hub));
    env.pass(Duration::from_secs(3600));
    assert_eq!(env.endpoint("edge"), None);
    assert!(env.endpoint("far").is_some());
}

#[test]
fn a_cluster_that_somebody_else_made_is_left_alone() {
    let mut env = env();
    env.keeps_clusters = true;
    env.on_hub(cluster("edge").with(json!({"spec": {"apiEndpoint": "https://own.example"}})));
    env.hear(Signal::Listed(vec![profile(
        MANAGERS,
        "edge",
        "https://edge.example",
    )]));
    assert_eq!(env.endpoint("edge").as_deref(), Some("https://own.example"));
    assert_eq!(
        env.refused(),
        [
            "edge: no Cluster is made of it: somebody else made Cluster edge; to have it made of the \
             profile, remove that one (kubectl mcs unjoin edge)"
        ]
    );
    env.hear(Signal::Deleted(profile(
        MANAGERS,
        "edge",
        "https://edge.example",
    )));
    assert!(env.endpoint("edge").is_some());
}

#[test]
fn a_profile_of_which_no_cluster_is_made_says_why() {
    let at = |server| json!([{"name": "known", "cluster": {"server": server}}]);
    for (name, offered, keeps_clusters, why) in [
        (
            "edge",
            json!([{"name": "google"}]),
            true,
            "has google, and causeway-controller knows known, other",
        ),
        ("edge", at(""), true, "names no cluster.server for known"),
        (
            "not.a-cluster",
            at("https://x.example"),
            true,
            "its name is none of a Cluster",
        ),
        (
            "edge",
            at("https://x.example"),
            false,
            "Karmada maintains the Clusters of this hub",
        ),
    ] {
        let mut env = env();
        env.keeps_clusters = keeps_clusters;
        env.hear(Signal::Listed(vec![offering(MANAGERS, name, offered)]));
        assert_eq!(env.hub.all(Kind::Cluster).count(), 0, "{why}");
        let refused = env.refused();
        assert!(
            refused.len() == 1 && refused[0].contains(why),
            "{refused:?}"
        );
    }
}

#[test]
fn a_profile_that_names_no_way_yet_is_no_problem() {
    let env = hub(vec![offering(MANAGERS, "edge", json!([]))]);
    assert_eq!(env.hub.all(Kind::Cluster).count(), 0);
    assert!(env.refused().is_empty());
}

#[test]
fn of_the_providers_that_the_controller_knows_the_first_counts() {
    let offered = json!([
        {"name": "unknown", "cluster": {"server": "https://unknown.example"}},
        {"name": "other", "cluster": {"server": "https://other.example"}},
        {"name": "known", "cluster": {"server": "https://known.example"}},
    ]);
    let env = hub(vec![offering(MANAGERS, "edge", offered)]);
    assert_eq!(
        env.endpoint("edge").as_deref(),
        Some("https://known.example")
    );
}

#[test]
fn two_profiles_of_one_name_make_one_cluster() {
    let second = profile("second", "edge", "https://second.example");
    let mut env = hub(vec![profile(MANAGERS, "edge", "https://edge.example")]);
    env.observe_hub(HubEvent::Profiles(
        "second".to_owned(),
        Signal::Listed(vec![second]),
    ))
    .settle();
    assert_eq!(
        env.endpoint("edge").as_deref(),
        Some("https://edge.example")
    );
    assert_eq!(env.refused().len(), 1);
    env.hear(Signal::Deleted(profile(
        MANAGERS,
        "edge",
        "https://edge.example",
    )));
    env.pass(Duration::from_secs(3600));
    assert_eq!(
        env.endpoint("edge").as_deref(),
        Some("https://second.example")
    );
    assert!(env.refused().is_empty());
}

#[test]
fn a_cluster_whose_label_somebody_removed_stays_as_it_is() {
    let mut env = hub(vec![profile(MANAGERS, "edge", "https://edge.example")]);
    let mut taken = stored(&env, "edge");
    taken["metadata"]["labels"] = json!({labels::PROFILE_NAMESPACE: MANAGERS});
    let taken = Object {
        kind: Kind::Cluster,
        value: taken,
    };
    env.on_hub(taken).settle();
    env.hear(Signal::Deleted(profile(
        MANAGERS,
        "edge",
        "https://edge.example",
    )));
    assert!(env.endpoint("edge").is_some());
}
