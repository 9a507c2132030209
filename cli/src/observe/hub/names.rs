//! Names in DNS: the DNSEndpoints of the hub, and the MultiClusterServices that request names.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::{DNSEndpoint, DnsRecord, MultiClusterService, labels};
use causeway::domain::{RequestedHostnames, ServiceKey, canonical_name};
use causeway_engine::lists::NameLists;
use causeway_engine::model::Failure;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};

use super::Hub;
use crate::cluster::api_server::RequestError;
use crate::observe::link::Kind;
use crate::observe::once;
use crate::observe::pace::{self, LOOK_AGAIN};
use crate::observe::reader::Reader;
use crate::observe::scope::Scope;
use crate::observe::store::{Store, key_of};
use crate::observe::touched::Touched;

/// Names in DNS of all namespaces.
#[derive(Debug)]
pub(crate) struct Names {
    read: Read,
    /// Kinds with an incomplete list.
    awaited: BTreeSet<Kind>,
    /// DNSEndpoints by the service of their name.
    endpoints: Store<ServiceKey, DNSEndpoint>,
    /// MultiClusterServices that request names, if the scope has one namespace.
    requests: Store<ServiceKey, MultiClusterService>,
    /// Names that a service requests, or that its DNSEndpoint publishes.
    of: BTreeMap<ServiceKey, BTreeSet<String>>,
    /// Services of each name in `of`.
    holders: BTreeMap<String, BTreeSet<ServiceKey>>,
}

/// Result of the read of the lists.
#[derive(Clone, Debug, PartialEq)]
enum Read {
    Pending,
    Listed,
    NotServed,
    Unreadable(Failure),
}

impl Default for Names {
    fn default() -> Self {
        Self {
            read: Read::Pending,
            awaited: BTreeSet::new(),
            endpoints: Store::new(key_of),
            requests: Store::new(|mcs: &MultiClusterService| {
                let is_named = mcs.annotations().contains_key(labels::HOSTNAME);
                key_of(mcs).filter(|_| is_named)
            }),
            of: BTreeMap::new(),
            holders: BTreeMap::new(),
        }
    }
}

impl Names {
    /// Returns the services that request or publish one of `names`.
    fn sharing(&self, names: &BTreeSet<String>) -> BTreeSet<&ServiceKey> {
        let holders = names.iter().filter_map(|name| self.holders.get(name));
        holders.flatten().collect()
    }

    /// Records the names of a service. Returns its former names.
    fn set(&mut self, key: &ServiceKey, names: BTreeSet<String>) -> BTreeSet<String> {
        let before = self.of.remove(key).unwrap_or_default();
        for name in &before {
            let Some(holders) = self.holders.get_mut(name) else {
                continue;
            };
            holders.remove(key);
            if holders.is_empty() {
                self.holders.remove(name);
            }
        }
        for name in &names {
            let holders = self.holders.entry(name.clone()).or_default();
            holders.insert(key.clone());
        }
        if !names.is_empty() {
            self.of.insert(key.clone(), names);
        }
        before
    }

    /// Returns the services with names.
    fn all(&self) -> BTreeSet<ServiceKey> {
        self.of.keys().cloned().collect()
    }
}

impl Hub {
    /// Returns the DNSEndpoint of a service, with those and the MultiClusterServices that have one
    /// of its names.
    pub(crate) fn name_lists(&self, key: &ServiceKey) -> NameLists {
        match &self.names.read {
            Read::Pending => return NameLists::NotRead,
            Read::NotServed => return NameLists::NotServed,
            Read::Unreadable(failure) => return NameLists::Unreadable(failure.clone()),
            Read::Listed => {}
        }
        let names = self.names.of.get(key).into_iter();
        let sharing = names.flat_map(|names| self.names.sharing(names));
        let others: Vec<_> = sharing.filter(|one| *one != key).collect();
        let rivals = others.iter().filter_map(|one| self.requesting(one));
        let all = [key].into_iter().chain(others.iter().copied());
        NameLists::Listed {
            rivals: rivals.cloned().collect(),
            endpoints: all
                .flat_map(|one| self.names.endpoints.of(one))
                .cloned()
                .collect(),
        }
    }

    fn requesting(&self, key: &ServiceKey) -> Option<&MultiClusterService> {
        self.mcs.of(key).chain(self.names.requests.of(key)).next()
    }

    /// Records the names of changed services. Returns the services with one of these names.
    pub(super) fn note_names(&mut self, changed: &BTreeSet<ServiceKey>) -> BTreeSet<ServiceKey> {
        let mut affected = BTreeSet::new();
        for key in changed {
            let names = self.names_of(key);
            affected.extend(names.iter().cloned());
            affected.extend(self.names.set(key, names));
        }
        self.names.sharing(&affected).into_iter().cloned().collect()
    }

    fn names_of(&self, key: &ServiceKey) -> BTreeSet<String> {
        let mcs = self.requesting(key);
        let requested = mcs.map(|mcs| RequestedHostnames::of(&mcs.metadata, &mut |_| {}));
        let requested: Vec<_> = match &requested {
            Some(RequestedHostnames::Names(names)) => names.iter().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let endpoints = self.names.endpoints.of(key);
        let records = endpoints.flat_map(|one| &one.spec.endpoints);
        let published = records.map(|DnsRecord { dns_name, .. }| canonical_name(dns_name));
        requested.into_iter().chain(published).collect()
    }

    /// Returns the effect on the MultiClusterServices of the scope.
    fn names_changed(&mut self, changed: BTreeSet<ServiceKey>) -> Touched {
        let mut services = self.note_names(&changed);
        services.extend(changed);
        services.retain(|key| self.mcs.has(key));
        Touched::services(services)
    }

    /// Returns the effect of an event of a kind, which may have completed its list.
    fn names_applied(
        &mut self,
        kind: Kind,
        changed: BTreeSet<ServiceKey>,
        is_listed: bool,
    ) -> Touched {
        let mut touched = self.names_changed(changed);
        if is_listed {
            touched.add(self.names_listed(kind));
        }
        touched
    }

    /// Records that the list of a kind is complete.
    fn names_listed(&mut self, kind: Kind) -> Touched {
        let names = &mut self.names;
        names.awaited.remove(&kind);
        if !names.awaited.is_empty() || names.read == Read::Listed {
            return Touched::default();
        }
        names.read = Read::Listed;
        let all = names.all();
        self.names_changed(all)
    }

    /// Records that the lists cannot be read: for want of the definition without a failure.
    fn names_unread(&mut self, failure: Option<Failure>) -> Touched {
        let read = failure.map_or(Read::NotServed, Read::Unreadable);
        let mut changed = self.names.endpoints.replace(Vec::new());
        changed.extend(self.names.requests.replace(Vec::new()));
        if self.names.read != read {
            self.names.read = read;
            changed.extend(self.names.all());
        }
        self.names_changed(changed)
    }
}

/// Returns the kinds that are followed.
pub(super) fn kinds(scope: &Scope) -> impl Iterator<Item = Kind> + use<> {
    let requests = scope.namespace.is_some().then_some(Kind::NameRequest);
    [Kind::DnsEndpoint].into_iter().chain(requests)
}

fn dns_endpoints(hub: &mut Hub, event: Event<DNSEndpoint>) -> Touched {
    let is_listed = matches!(event, Event::InitDone);
    let changed = hub.names.endpoints.apply(event);
    hub.names_applied(Kind::DnsEndpoint, changed, is_listed)
}

fn requests(hub: &mut Hub, event: Event<MultiClusterService>) -> Touched {
    let is_listed = matches!(event, Event::InitDone);
    let changed = hub.names.requests.apply(event);
    hub.names_applied(Kind::NameRequest, changed, is_listed)
}

/// Follows the DNSEndpoints of all namespaces. In the scope of one namespace also follows all
/// MultiClusterServices: they may request the same names. Without the definition or a right names
/// are not known, and the next attempt follows after 10 seconds.
pub(super) async fn follow(reader: &Reader<'_, Hub>) -> RequestError {
    let server = reader.server;
    let is_partial = reader.scope.namespace.is_some();
    let all = watcher::Config::default;
    loop {
        let awaited = kinds(reader.scope).collect();
        let begin = |hub: &mut Hub| {
            hub.names.awaited = awaited;
            Touched::default()
        };
        reader.send(begin).await;
        let endpoints: Api<DNSEndpoint> = server.api(None);
        let services: Api<MultiClusterService> = server.api(None);
        let follow_endpoints =
            || reader.follow(Kind::DnsEndpoint, endpoints.clone(), all(), dns_endpoints);
        let follow_requests =
            || reader.follow(Kind::NameRequest, services.clone(), all(), requests);
        let broken = tokio::select! {
            broken = pace::relisting(follow_endpoints) => broken,
            broken = pace::relisting(follow_requests), if is_partial => broken,
        };
        let why = broken.why;
        if !matches!(why, RequestError::NotFound { .. }) && !why.is_missing_right() {
            return why;
        }
        let failure = once::unread_names(server, &why).await;
        let kinds = kinds(reader.scope);
        let unread = move |hub: &mut Hub| {
            let mut touched = hub.names_unread(failure);
            for kind in kinds {
                touched.link |= hub.link.listed(kind);
            }
            touched
        };
        reader.send(unread).await;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use causeway_engine::model::FailureKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{cross, service};
    use crate::observe::fixtures::from;
    use crate::observe::hub::multi_cluster_services;

    fn key(name: &str) -> ServiceKey {
        ServiceKey::new("shop", name)
    }

    fn keys(names: &str) -> BTreeSet<ServiceKey> {
        names.split_whitespace().map(key).collect()
    }

    fn named(name: &str, version: &str, hostname: &str) -> MultiClusterService {
        let mut mcs = service(name, cross(&["a"], &["b"]), json!([]));
        mcs.metadata.resource_version = Some(version.to_owned());
        let hostname = (labels::HOSTNAME.to_owned(), hostname.to_owned());
        mcs.metadata.annotations = Some([hostname].into());
        mcs
    }

    fn endpoint(name: &str, version: &str, hostnames: &[&str]) -> DNSEndpoint {
        let record = |name: &&str| json!({ "dnsName": name, "targets": ["192.0.2.1"] });
        let records: Value = hostnames.iter().map(record).collect();
        let metadata = json!({ "name": name, "namespace": "shop", "resourceVersion": version });
        from(json!({ "metadata": metadata, "spec": { "endpoints": records } }))
    }

    fn listed(hub: &mut Hub, endpoints: Vec<DNSEndpoint>) -> Touched {
        hub.names.awaited.insert(Kind::DnsEndpoint);
        let mut touched = Touched::default();
        let events = endpoints.into_iter().map(Event::InitApply);
        for event in [Event::Init]
            .into_iter()
            .chain(events)
            .chain([Event::InitDone])
        {
            touched.add(dns_endpoints(hub, event));
        }
        touched
    }

    /// Returns the names of the DNSEndpoints and of the other services, if they are listed.
    fn lists(hub: &Hub, name: &str) -> Option<(String, String)> {
        let NameLists::Listed { endpoints, rivals } = hub.name_lists(&key(name)) else {
            return None;
        };
        let endpoints: Vec<_> = endpoints.iter().map(DNSEndpoint::name_any).collect();
        let rivals: Vec<_> = rivals.iter().map(MultiClusterService::name_any).collect();
        Some((endpoints.join(" "), rivals.join(" ")))
    }

    #[test]
    fn services_with_one_name_depend_on_each_other() {
        let mut hub = Hub::default();
        for (name, hostname) in [
            ("foo", "shared.example.com"),
            ("bar", "shared.example.com,bar.example.com"),
            ("baz", "baz.example.com"),
        ] {
            multi_cluster_services(&mut hub, Event::Apply(named(name, "1", hostname)));
        }
        assert!(matches!(hub.name_lists(&key("foo")), NameLists::NotRead));
        let other = endpoint("nobody", "1", &["nobody.example.com"]);
        let first = vec![endpoint("foo", "1", &["Shared.Example.COM."]), other];
        assert_eq!(listed(&mut hub, first).services, keys("foo bar baz"));
        let both = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        assert_eq!(lists(&hub, "foo"), both("foo", "bar"));
        assert_eq!(lists(&hub, "bar"), both("foo", "foo"));
        assert_eq!(lists(&hub, "baz"), both("", ""));
        let changes: [(Event<DNSEndpoint>, &str); 3] = [
            (
                Event::Apply(endpoint("nobody", "2", &["x.example.com"])),
                "",
            ),
            (
                Event::Apply(endpoint("baz", "1", &["baz.example.com"])),
                "baz",
            ),
            (Event::Delete(endpoint("foo", "1", &[])), "foo bar"),
        ];
        for (event, touched) in changes {
            assert_eq!(dns_endpoints(&mut hub, event).services, keys(touched));
        }
        let freed = named("bar", "2", "bar.example.com");
        let touched = multi_cluster_services(&mut hub, Event::Apply(freed));
        assert_eq!(touched.services, keys("foo bar"));
        assert_eq!(lists(&hub, "foo"), both("", ""));
    }

    #[test]
    fn unread_names_are_unknown_until_they_are_listed_again() {
        let mut hub = Hub::default();
        let foo = named("foo", "1", "foo.example.com");
        multi_cluster_services(&mut hub, Event::Apply(foo));
        let all = || vec![endpoint("foo", "1", &["foo.example.com"])];
        assert_eq!(listed(&mut hub, all()).services, keys("foo"));
        let forbidden = || {
            Some(Failure::new(
                FailureKind::Forbidden,
                "dnsendpoints is forbidden",
            ))
        };
        for (failure, touched) in [
            (forbidden(), "foo"),
            (forbidden(), ""),
            (None, "foo"),
            (None, ""),
        ] {
            let is_served = failure.is_some();
            assert_eq!(hub.names_unread(failure).services, keys(touched));
            let lists = hub.name_lists(&key("foo"));
            assert_eq!(matches!(lists, NameLists::Unreadable(_)), is_served);
            assert_eq!(matches!(lists, NameLists::NotServed), !is_served);
        }
        assert_eq!(listed(&mut hub, all()).services, keys("foo"));
        assert!(lists(&hub, "foo").is_some());
    }

    #[test]
    fn requests_of_other_namespaces_are_awaited_too() {
        let mut hub = Hub::default();
        let scope = Scope {
            namespace: Some("shop".to_owned()),
            ..Scope::default()
        };
        hub.names.awaited = kinds(&scope).collect();
        let foo = named("foo", "1", "foo.example.com");
        multi_cluster_services(&mut hub, Event::Apply(foo));
        listed(&mut hub, Vec::new());
        assert!(lists(&hub, "foo").is_none());
        let mut rival = named("bar", "1", "foo.example.com");
        rival.metadata.namespace = Some("other".to_owned());
        requests(&mut hub, Event::Init);
        requests(&mut hub, Event::InitApply(rival.clone()));
        let touched = requests(&mut hub, Event::InitDone);
        assert_eq!(touched.services, keys("foo"), "the scope has no others");
        assert_eq!(lists(&hub, "foo"), Some((String::new(), "bar".to_owned())));
        let touched = requests(&mut hub, Event::Delete(rival));
        assert_eq!(touched.services, keys("foo"));
    }
}
