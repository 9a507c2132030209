//! Table of docs/design/deletion-safety.md, row by row.

use std::ops::Range;
use std::time::Duration;

use causeway::api::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::discovery::DebouncedDiscovery;
use super::relist::{Conclusion, DeletionGuard};
use crate::fixtures::objects::{Kind, cluster, mcs, service, slice};
use crate::fixtures::server::decode;
use crate::fixtures::{Environment, env, hub_event, member_event, name};
use crate::model::{Signal, TargetCluster};

mod initial_lists;

/// Number of services that member1 provides, and that member2 and member3 consume.
const ALL: usize = 24;
const INTERVAL: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

/// Returns an environment in which member1 provides that number of services to the other members.
fn exposing(services: usize) -> Environment {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    for number in 0..services {
        let name = format!("s{number:02}");
        let source = slice(&format!("{name}-abc"), &name);
        env.on_hub(service(&name).port("http", 80))
            .on_hub(mcs(&name).providers(&["member1"]))
            .on("member1", service(&name).port("http", 80))
            .on("member1", source.port("http", 8080).endpoint("10.1.0.5"));
    }
    env.settle().forget_writes();
    env
}

/// Time at which the watch lists again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relist {
    None,
    AtOnce,
    /// Half a minute after the list.
    Later,
}

/// One watch of one API server, with its deletion guard and the controller that applies its events.
struct Watched {
    env: Environment,
    cluster: &'static str,
    kind: Kind,
    guard: DeletionGuard,
}

impl Watched {
    /// Returns a watch that has listed all objects.
    fn watching(cluster: &'static str, kind: Kind) -> Self {
        let mut watched = Self {
            env: exposing(ALL),
            cluster,
            kind,
            guard: DeletionGuard::new(INTERVAL, false),
        };
        watched.list(0..0);
        watched
    }

    /// Returns the objects of the watched kind.
    fn objects(&self) -> Vec<Value> {
        let server = match self.cluster {
            "hub" => &self.env.hub,
            member => &self.env.members[member],
        };
        server.all(self.kind).cloned().collect()
    }

    fn report(&mut self, signal: Signal<Value>) {
        match self.cluster {
            "hub" => self.env.observe_hub(hub_event(self.kind, signal)),
            member => self.env.observe(member, member_event(self.kind, signal)),
        };
    }

    /// Lists all but these objects.
    fn list(&mut self, lacking: Range<usize>) -> &mut Self {
        self.list_of(lacking, false)
    }

    /// Lists all but these objects, in a state that is older than the observed one.
    fn list_older(&mut self, lacking: Range<usize>) -> &mut Self {
        self.list_of(lacking, true)
    }

    fn list_of(&mut self, lacking: Range<usize>, went_back: bool) -> &mut Self {
        let objects = self.objects().into_iter().enumerate();
        let listed = objects.filter(|(number, _)| !lacking.contains(number));
        let objects: Vec<_> = listed.map(|(_, object)| object).collect();
        let listed = objects.iter().map(|one| self.guard.object(&meta(one), 10));
        let listed = listed.collect();
        let now = self.env.now().instant;
        match self.guard.observe_list(listed, went_back, now, now) {
            Conclusion::Accepted { confirms } => {
                self.report(Signal::Listed(objects));
                if confirms {
                    self.report(Signal::Confirmed);
                }
            }
            Conclusion::Suspended { missing, .. } => {
                for object in objects {
                    self.report(Signal::Applied(object));
                }
                self.report(Signal::DeletionsSuspended(missing));
            }
        }
        self.settle()
    }

    /// Runs the controller until it is at rest, and passes requests for second lists to the guard.
    fn settle(&mut self) -> &mut Self {
        self.env.settle();
        let cluster = match self.cluster {
            "hub" => TargetCluster::Hub,
            member => TargetCluster::Member(name(member)),
        };
        if self.env.take_second_lists().contains(&cluster) {
            self.guard.request_second_list(self.env.now().instant);
        }
        self
    }

    /// Deletes that number of objects, as the watch shows.
    fn delete(&mut self, count: usize) -> &mut Self {
        for object in self.objects().into_iter().take(count) {
            let meta = meta(&object);
            self.guard.observe_deleted(&meta);
            let name = meta.name.expect("a name");
            self.env.off(self.cluster, self.kind, &name);
        }
        self.settle()
    }

    /// Changes that number of objects, as the watch shows.
    fn change(&mut self, count: usize, change: fn(&mut ObjectMeta)) -> &mut Self {
        for object in self.objects().into_iter().take(count) {
            let mut meta = meta(&object);
            change(&mut meta);
            self.guard.observe_applied(&meta, 10);
        }
        self
    }

    /// Starts another process. The hub, or the member, lists all but these objects.
    fn restart(&mut self, lacking: Range<usize>) -> &mut Self {
        self.guard = DeletionGuard::new(INTERVAL, false);
        self.env
            .forgets(self.cluster, self.kind, lacking.start)
            .restart();
        self.env.remembers();
        self.list(lacking)
    }

    /// Engages the member again, by other watches. It lists all but these objects.
    fn engage_again(&mut self, lacking: Range<usize>) -> &mut Self {
        self.guard = DeletionGuard::new(INTERVAL, false);
        self.env.index.expect_initial_lists(&name(self.cluster));
        self.list(lacking)
    }

    /// Confirms deletions at that time, on behalf of a person.
    fn confirm_deletions(&mut self, at: Timestamp) -> &mut Self {
        let annotations = json!({labels::CONFIRM_DELETIONS: at.to_string()});
        let marked = cluster("member1").with(json!({"metadata": {"annotations": annotations}}));
        self.env.on_hub(marked).deliver();
        let now = self.env.now();
        if self
            .env
            .index
            .deletions_are_confirmed(&name("member1"), now)
        {
            self.guard.confirm_deletions(now.instant);
        }
        self
    }

    /// Returns the number of services that have lost their copies in a consumer, the number of
    /// suspended deletions, and the time at which the watch lists again.
    fn outcome(&self) -> (usize, usize, Relist) {
        let services = (0..ALL).map(|number| format!("s{number:02}"));
        let lost = services.filter(|name| self.env.copies("member2", name).is_empty());
        let index = &self.env.index;
        let members = index.members().map(|(_, member)| member);
        let suspended = members.map(|member| member.suspended_deletions().count);
        let now = self.env.now().instant;
        let relist = match self.guard.relist_at() {
            None => Relist::None,
            Some(at) if at <= now => Relist::AtOnce,
            Some(_) => Relist::Later,
        };
        let suspended = index.hub_suspended_deletions() + suspended.sum::<usize>();
        (lost.count(), suspended, relist)
    }

    /// Lists all but these objects half a minute later.
    fn list_again(&mut self, lacking: Range<usize>) -> &mut Self {
        self.env.pass(INTERVAL + SECOND);
        self.list(lacking)
    }
}

fn meta(object: &Value) -> ObjectMeta {
    decode(object["metadata"].clone())
}

/// Row of the table: a name, the observation, and the result. The result has the missing objects,
/// the number of deletions that count, the number that are suspended, the time at which the watch
/// lists again, and the number that count once a second list lacks the same objects. A second list
/// that holds them ends every suspicion.
type Row = (
    &'static str,
    fn(&mut Watched) -> &mut Watched,
    (Range<usize>, usize, usize, Relist, usize),
);

fn check(cluster: &'static str, kind: Kind, table: &[Row]) {
    for (observed, observe, (lacking, deleted, suspended, relist, confirmed)) in table {
        let mut watched = Watched::watching(cluster, kind);
        observe(&mut watched);
        assert_eq!(
            watched.outcome(),
            (*deleted, *suspended, *relist),
            "{observed}"
        );
        watched.list_again(lacking.clone());
        let (lost, suspended, _) = watched.outcome();
        assert_eq!((lost, suspended), (*confirmed, 0), "{observed}, twice");

        let mut watched = Watched::watching(cluster, kind);
        observe(&mut watched);
        watched.list_again(0..0).settle();
        let (lost, suspended, _) = watched.outcome();
        let counted = if *relist == Relist::None { *deleted } else { 0 };
        assert!(
            suspended == 0 && lost <= counted,
            "{observed}, and a second list holds all: {lost} deleted, {suspended} suspended"
        );
    }
}

#[rustfmt::skip]
#[test]
fn a_members_deletions() {
    use Relist::{AtOnce, Later, None};
    check("member1", Kind::Slice, &[
        // observed, (missing, deleted, suspended, listed again, deleted then)
        ("a list that lacks nothing", |s| s.list(0..0),                                    (0..0, 0, 0, None, 0)),
        ("a DELETED event, however many", |s| s.delete(24),                                (0..0, 24, 0, None, 24)),
        ("a relist that lacks few", |s| s.list(0..10),                                     (0..10, 10, 0, Later, 10)),
        ("a relist that lacks many", |s| s.list(0..11),                                    (0..11, 0, 11, Later, 11)),
        ("a second list that lacks many others", |s| s.list(0..11).list_again(12..24),
                                                                                           (12..24, 0, 12, Later, 12)),
        ("a second list that comes too early", |s| s.list(0..11).list(0..11),              (0..11, 0, 11, Later, 11)),
        ("a relist that lacks many that were terminating", |s| {
            s.change(24, |meta| meta.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.into())).list(0..24)
        },                                                                                 (0..24, 24, 0, None, 24)),
        ("a relist without one that had finalizers", |s| {
            s.change(1, |meta| meta.finalizers = Some(vec!["example.com/keep".to_owned()])).list(0..1)
        },                                                                                 (0..1, 0, 1, Later, 1)),
        ("a relist of an older state", |s| s.list_older(0..0),                             (0..0, 0, 0, Later, 0)),
        ("a relist of an older state that lacks one", |s| s.list_older(0..1),              (0..1, 0, 1, Later, 1)),
        ("no answer", |s| { s.env.lose("member1"); s.settle() },                           (0..0, 0, 0, None, 0)),
        ("another cluster answers, and has nothing", |s| {
            s.env.identify("member1", "another", (1, 34));
            s.list(0..24)
        },                                                                                 (0..24, 0, 0, Later, 0)),
        ("a person confirms what is suspended", |s| {
            let now = s.list(0..11).env.now();
            s.confirm_deletions(now.wall)
        },                                                                                 (0..11, 0, 11, AtOnce, 11)),
        ("a person confirmed before it was suspended", |s| {
            let before = s.env.now().wall - SECOND;
            s.list(0..11).confirm_deletions(before)
        },                                                                                 (0..11, 0, 11, Later, 11)),
        ("an initial list that lacks few of what copies name", |s| s.restart(14..24),      (14..24, 10, 0, None, 10)),
        ("an initial list that lacks many", |s| s.restart(13..24),                         (13..24, 0, 11, Later, 11)),
        ("an initial list that is empty", |s| s.restart(0..24),                            (0..24, 0, 24, Later, 24)),
        ("an initial list of another engagement that lacks many", |s| s.engage_again(0..11),
                                                                                           (0..11, 0, 11, Later, 11)),
        ("versions older than those that copies name", |s| {
            let snapshot = s.env.server("member1").snapshot();
            let source = slice("s00-abc", "s00").port("http", 8080).endpoint("10.1.0.6");
            s.env.on("member1", source).settle();
            s.env.server("member1").restore(snapshot);
            s.restart(0..0)
        },                                                                                 (0..0, 0, 0, Later, 0)),
    ]);
}

#[rustfmt::skip]
#[test]
fn the_hubs_deletions() {
    use Relist::Later;
    check("hub", Kind::Cluster, &[
        ("a relist of Clusters without one that had finalizers", |s| {
            s.change(1, |meta| meta.finalizers = Some(vec!["example.com/keep".to_owned()])).list(0..1)
        },                                                                                 (0..1, 0, 1, Later, 24)),
        ("an initial list of Clusters without one that copies come from", |s| s.restart(0..1),
                                                                                           (0..1, 0, 1, Later, 24)),
    ]);
    // A MultiClusterService that no list holds is requested from the hub, and only a 404 counts.
    check("hub", Kind::Mcs, &[
        ("a relist of MultiClusterServices that lacks many", |s| s.list(0..24),            (0..24, 0, 24, Later, 0)),
        ("an initial list of MultiClusterServices that lacks many", |s| s.restart(0..24),
                                                                                           (0..24, 0, 24, Later, 0)),
    ]);
}

#[test]
fn an_empty_list_counts_at_the_second_one_where_there_is_always_some_object() {
    let mut guard = DeletionGuard::new(INTERVAL, true);
    let now = crate::fixtures::now().instant;
    let mut list = |at| guard.observe_list(Default::default(), false, at, at);
    let suspended = Conclusion::Suspended { missing: 0, of: 0 };
    assert_eq!(list(now), suspended);
    let confirmed = Conclusion::Accepted { confirms: true };
    assert_eq!(list(now + INTERVAL), confirmed);
}

#[test]
fn a_kind_that_is_served_no_more_is_gone_when_that_is_observed_twice_in_a_row() {
    let (served, gone, failure) = (Some(true), Some(false), None);
    for (observed, counts) in [
        (&[served][..], true),
        (&[served, gone], true),
        (&[served, gone, gone], false),
        (&[served, gone, failure, gone], true),
        (&[served, gone, served, gone], true),
        (&[served, gone, failure, gone, gone], false),
    ] {
        let mut discovery = DebouncedDiscovery::new(true, |now, before| !now && *before);
        let mut is_served = true;
        for one in observed {
            match one {
                Some(one) => is_served = discovery.observe(*one).unwrap_or(is_served),
                None => discovery.observe_failure(),
            }
        }
        assert_eq!(is_served, counts, "{observed:?}");
    }
}
