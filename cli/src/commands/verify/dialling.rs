//! Pods of a run: those that answer, those that connect, and the outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway::domain::ServiceKey;
use futures::future::join_all;
use kube::api::DynamicObject;
use tokio::time::Instant;

use super::paths::Paths;
use super::pods::{DELETE_WITHIN, Pods, Role, Run};
use super::probe::{self, PORT, Path, Port, Protocol};
use super::report::{ConsumerReport, Report, ServiceReport};
use super::targets::{Dialler, Targets};
use super::{Ended, Notes, VerifyError};
use crate::cluster::objects::ObjectError;
use crate::term::exit::Failure;

impl Targets {
    /// Returns the providers of the paths.
    fn providers(diallers: &[Dialler]) -> BTreeSet<String> {
        let paths = diallers.iter().flat_map(Dialler::paths);
        let providers = paths.filter_map(endpoint).map(|(provider, _)| provider);
        providers.map(str::to_owned).collect()
    }

    /// Returns the objects that a run would create.
    pub(super) fn objects(
        &self,
        run: &Run,
        diallers: &[Dialler],
        as_job: bool,
    ) -> Result<Vec<DynamicObject>, ObjectError> {
        let mut objects = Vec::new();
        if !as_job {
            for provider in Self::providers(diallers) {
                objects.push(server(run, &provider)?);
            }
        }
        for (number, dialler) in diallers.iter().enumerate() {
            objects.push(match as_job {
                true => run.job(&dialler.name(number), &Role::Dial(&dialler.services))?,
                false => dialler.pod(run, number)?,
            });
        }
        Ok(objects)
    }

    /// Creates the pods, waits for their outcomes or for `stop`, and deletes the pods within
    /// [`DELETE_WITHIN`].
    ///
    /// # Errors
    /// [`VerifyError::Left`] if some pods may still exist and there is no report.
    pub(super) async fn verify(
        &self,
        run: &Run,
        (diallers, untried): (Vec<Dialler>, Vec<String>),
        notes: Notes<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Ended, Failure> {
        let mut involved = Self::providers(&diallers);
        involved.extend(diallers.iter().map(|dialler| dialler.cluster.clone()));
        let mut pods: BTreeMap<&str, Pods<'_>> = BTreeMap::new();
        for (name, member) in &self.members {
            if let Ok(member) = member
                && involved.contains(name)
            {
                pods.insert(name, Pods::new(member, &run.namespace));
            }
        }
        let finished = tokio::select! {
            report = self.dial(run, &mut pods, (diallers, untried), notes) => Some(report),
            () = stop => None,
        };
        let deadline = Instant::now() + DELETE_WITHIN;
        let deleted = pods.iter().map(|(name, pods)| async move {
            let left = pods.delete(deadline).await;
            (!left.is_empty()).then(|| run.left(name, &left))
        });
        let left: Vec<_> = join_all(deleted).await.into_iter().flatten().collect();
        let left = (!left.is_empty()).then(|| VerifyError::Left(left.join("; ")));
        match (finished, left) {
            (Some(Ok(report)), left) => Ok(Ended {
                report,
                left,
                unstored: Vec::new(),
            }),
            (_, Some(left)) => Err(left.into()),
            (Some(Err(error)), None) => Err(error),
            (None, None) => Err(VerifyError::Interrupted.into()),
        }
    }

    async fn dial(
        &self,
        run: &Run,
        pods: &mut BTreeMap<&str, Pods<'_>>,
        (mut diallers, mut untried): (Vec<Dialler>, Vec<String>),
        notes: Notes<'_>,
    ) -> Result<Report, Failure> {
        notes("starting the pods".to_owned())?;
        let deadline = Instant::now() + run.timeout;
        let adopted = pods.iter_mut().map(|(name, pods)| async move {
            let adopted = pods.adopt_ended().await.err();
            adopted.map(|error| format!("{name}: {error}"))
        });
        untried.extend(join_all(adopted).await.into_iter().flatten());
        let pods = &*pods;
        // A provider whose pod does not start leaves time for the dialling pods.
        let served_by = Instant::now() + run.timeout / 2;
        let servers = Self::providers(&diallers);
        let servers = servers.into_iter().map(|provider| async move {
            let served = self.served(run, pods, &provider, served_by).await;
            (provider, served)
        });
        let servers: BTreeMap<_, _> = join_all(servers).await.into_iter().collect();
        self.add_servers(&mut diallers, &servers);
        let paths = diallers.iter().flat_map(Dialler::paths).count();
        let number = diallers.len();
        notes(format!("dialling {paths} paths from {number} pods"))?;
        Ok(dialled(run, pods, (diallers, untried), deadline).await)
    }

    /// Starts the answering pod of a provider before the deadline. Returns its addresses, or the
    /// reason that it has none.
    async fn served(
        &self,
        run: &Run,
        pods: &BTreeMap<&str, Pods<'_>>,
        provider: &str,
        deadline: Instant,
    ) -> Result<Vec<IpAddr>, String> {
        let Some(pods) = pods.get(provider) else {
            return Err(match self.members.get(provider) {
                Some(Err(why)) => why.clone(),
                _ => self.no_member(provider).to_string(),
            });
        };
        let pod = server(run, provider).map_err(|error| error.to_string())?;
        let name = pods.create(pod, deadline).await?;
        pods.ready(&name, deadline).await
    }

    /// Adds the answering pods to the paths of each dialler, and those without an address to dial
    /// to its untried parts. Pods of another network are reachable only through entries of the
    /// service.
    fn add_servers(
        &self,
        diallers: &mut [Dialler],
        servers: &BTreeMap<String, Result<Vec<IpAddr>, String>>,
    ) {
        for dialler in diallers {
            let network = self.network(&dialler.cluster);
            for (_, Paths { paths, untried }) in &mut dialler.services {
                let mut endpoints: BTreeMap<_, Vec<_>> = BTreeMap::new();
                for (provider, address) in paths.iter().filter_map(endpoint) {
                    endpoints.entry(provider).or_default().push(address);
                }
                let reached = servers.iter().filter_map(|(provider, addresses)| {
                    let endpoints = endpoints.get(provider.as_str())?;
                    let is_reached = self.network(provider) == network;
                    is_reached.then(|| (provider, dialled_address(addresses, endpoints)))
                });
                let mut added = Vec::new();
                for (provider, address) in reached {
                    match address {
                        Ok(address) => added.push(Path::Server {
                            provider: provider.clone(),
                            at: Port::new(address, PORT, Protocol::Tcp),
                        }),
                        Err(why) => untried.push(format!(
                            "the way to pods of {provider} with large packets: {why}"
                        )),
                    }
                }
                paths.extend(added);
            }
        }
    }
}

/// Creates the pods that connect, waits for their outcomes, and reports them by service.
async fn dialled(
    run: &Run,
    pods: &BTreeMap<&str, Pods<'_>>,
    (diallers, mut untried): (Vec<Dialler>, Vec<String>),
    deadline: Instant,
) -> Report {
    let outcomes = diallers.iter().enumerate();
    let outcomes = outcomes.map(|(number, dialler)| async move {
        let pods = pods.get(dialler.cluster.as_str())?;
        let dialled = async {
            let pod = dialler.pod(run, number);
            let pod = pod.map_err(|error| error.to_string())?;
            let name = pods.create(pod, deadline).await?;
            Ok::<_, String>(pods.dialled(&name, deadline).await)
        };
        let dialled = dialled.await;
        Some(dialled.unwrap_or_else(|why| (Vec::new(), Some(why))))
    });
    let outcomes = join_all(outcomes).await;
    let mut services: BTreeMap<ServiceKey, Vec<ConsumerReport>> = BTreeMap::new();
    for (dialler, dialled) in diallers.into_iter().zip(outcomes) {
        let (dialled, error) = dialled.unwrap_or_default();
        for (key, report) in dialler.reports(dialled, error.as_deref()) {
            services.entry(key).or_default().push(report);
        }
    }
    let services = services.into_iter().map(|(key, consumers)| ServiceReport {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        consumers,
    });
    untried.sort();
    untried.dedup();
    Report::new(services.collect(), untried)
}

impl Dialler {
    /// Returns the suffix of the pod's name.
    fn name(&self, number: usize) -> String {
        format!("dial-{number}")
    }

    fn pod(&self, run: &Run, number: usize) -> Result<DynamicObject, ObjectError> {
        let role = Role::Dial(&self.services);
        run.pod(&self.name(number), &role, self.node.as_deref())
    }

    /// Returns the paths of all services.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.services.iter().flat_map(|(_, paths)| &paths.paths)
    }

    /// Splits the outcomes of a pod by service. `error` is the reason that the pod has no others.
    fn reports(
        self,
        dialled: Vec<probe::Dialled>,
        error: Option<&str>,
    ) -> Vec<(ServiceKey, ConsumerReport)> {
        let services = self.services.into_iter().enumerate();
        let reports = services.map(|(number, (key, Paths { paths, untried }))| {
            let of_service = dialled.iter().filter(|one| one.service == number);
            let of_service = (of_service.cloned().collect(), error);
            let from = (self.cluster.as_str(), self.node.as_deref());
            let report = ConsumerReport::new(from, &paths, of_service, untried, &self.entered);
            (key, report)
        });
        reports.collect()
    }
}

/// Returns the answering pod of a provider.
fn server(run: &Run, provider: &str) -> Result<DynamicObject, ObjectError> {
    run.pod(&format!("serve-{provider}"), &Role::Serve(provider), None)
}

/// Returns the provider and the address of an endpoint.
fn endpoint(path: &Path) -> Option<(&str, IpAddr)> {
    match path {
        Path::Endpoint { provider, at } => Some((provider, at.address)),
        _ => None,
    }
}

/// Returns an address of an answering pod in an address family of the endpoints, or the reason that
/// the pod has none. The consumer may lack other families.
fn dialled_address(
    addresses: &Result<Vec<IpAddr>, String>,
    endpoints: &[IpAddr],
) -> Result<IpAddr, String> {
    let addresses = addresses.as_ref().map_err(Clone::clone)?;
    let is_alike = |one: &&IpAddr| endpoints.iter().any(|at| at.is_ipv4() == one.is_ipv4());
    addresses.iter().find(is_alike).copied().ok_or_else(|| {
        let family = match endpoints.iter().any(IpAddr::is_ipv4) {
            true => "IPv4",
            false => "IPv6",
        };
        format!("its pod has no {family} address")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use causeway::api::SyncMode;

    use super::*;
    use crate::commands::verify::probe::{Dialled, Outcome};
    use crate::commands::verify::targets::tests::targets;
    use crate::fixtures::synced;

    /// Service that a provider of this name provides.
    fn service(name: &str, provider: &str) -> (ServiceKey, Paths) {
        let endpoint = Path::Endpoint {
            provider: provider.to_owned(),
            at: Port::new([10, 1, 0, 1], 8080, Protocol::Tcp),
        };
        let paths = Paths {
            paths: vec![endpoint],
            untried: Vec::new(),
        };
        (ServiceKey::new("shop", name), paths)
    }

    #[test]
    fn failed_pods_concern_only_services_whose_paths_they_lack() {
        let targets = targets(vec![synced("a"), synced("b")]);
        let mut diallers = [Dialler {
            cluster: "a".to_owned(),
            node: None,
            services: vec![service("foo", "a"), service("bar", "b")],
            entered: BTreeSet::new(),
        }];
        let servers = BTreeMap::from([
            ("a".to_owned(), Ok(vec![IpAddr::from([10, 1, 0, 9])])),
            ("b".to_owned(), Err("b: no".to_owned())),
        ]);
        targets.add_servers(&mut diallers, &servers);
        let [dialler] = diallers;
        let foo = dialler.services[0].1.paths.clone();
        assert_eq!(foo.len(), 2);
        let dialled = foo.into_iter().map(|path| Dialled {
            service: 0,
            path,
            outcome: Outcome::Works,
            milliseconds: 1,
        });
        let reports = dialler.reports(dialled.collect(), Some("pod dial-0 failed"));
        let untried = reports.into_iter().map(|(_, report)| report.untried);
        let untried: Vec<_> = untried.collect();
        let bar = [
            "the way to pods of b with large packets: b: no",
            "1 paths have no outcome: pod dial-0 failed",
        ];
        assert_eq!(untried, [vec![], bar.map(str::to_owned).to_vec()]);
    }

    #[tokio::test]
    async fn unserved_provider_has_no_answering_pod() {
        let mut pull = synced("pull");
        pull.spec.sync_mode = Some(SyncMode::Pull);
        let run = Run {
            id: "0a1b2c3d".to_owned(),
            namespace: "causeway-system".to_owned(),
            image: "causeway/kubectl-mcs:1".to_owned(),
            timeout: Duration::from_secs(60),
        };
        let targets = targets(vec![pull]);
        let pods = BTreeMap::new();
        let served = targets.served(&run, &pods, "pull", Instant::now()).await;
        let why = "pull is in Pull mode without credentials, so causeway does not serve it";
        assert_eq!(served, Err(why.to_owned()));
    }

    #[test]
    fn answering_pod_is_dialled_in_a_family_of_the_endpoints() {
        let targets = targets(vec![synced("a"), synced("b")]);
        let parsed = |all: &[&str]| -> Vec<IpAddr> {
            let all = all.iter();
            all.map(|one| one.parse().expect("an address")).collect()
        };
        let (v4, v6) = ("10.1.0.9", "fd00::9");
        let lacks = |family: &str| {
            vec![format!(
                "the way to pods of b with large packets: its pod has no {family} address"
            )]
        };
        for (endpoints, pod, dialled, untried) in [
            (&["10.1.0.1"][..], &[v6, v4][..], &[v4][..], vec![]),
            (&["fd00::1"], &[v4, v6], &[v6], vec![]),
            (&["10.1.0.1", "fd00::1"], &[v6, v4], &[v6], vec![]),
            (&["10.1.0.1", "fd00::1"], &[v4], &[v4], vec![]),
            (&["10.1.0.1"], &[v6], &[], lacks("IPv4")),
            (&["fd00::1"], &[v4], &[], lacks("IPv6")),
        ] {
            let of_provider = parsed(endpoints).into_iter().map(|address| Path::Endpoint {
                provider: "b".to_owned(),
                at: Port::new(address, 8080, Protocol::Tcp),
            });
            let paths = Paths {
                paths: of_provider.collect(),
                untried: Vec::new(),
            };
            let mut diallers = [Dialler {
                cluster: "a".to_owned(),
                node: None,
                services: vec![(ServiceKey::new("shop", "foo"), paths)],
                entered: BTreeSet::new(),
            }];
            let servers = BTreeMap::from([("b".to_owned(), Ok(parsed(pod)))]);
            targets.add_servers(&mut diallers, &servers);
            let paths = &diallers[0].services[0].1;
            let servers = paths.paths.iter().filter_map(|path| match path {
                Path::Server { at, .. } => Some(at.address),
                _ => None,
            });
            let servers: Vec<_> = servers.collect();
            assert_eq!(servers, parsed(dialled), "{endpoints:?} {pod:?}");
            assert_eq!(paths.untried, untried, "{endpoints:?} {pod:?}");
        }
    }
}
