//! `kubectl mcs verify`: connects from pods to the destinations of a service, and reports failures.

mod diagnosis;
mod paths;
mod pods;
pub(crate) mod probe;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::multicluster::ServiceImport;
use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{self, ClusterName, Network, ServiceKey};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use tokio::time::Instant;

use self::paths::Paths;
use self::pods::{PodError, Pods, Role, Run};
use self::probe::{PORT, Path};
use self::report::{ConsumerReport, Report, ServiceReport};
use crate::args::{PodArgs, VerifyArgs, WhatArgs};
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::images;
use crate::cluster::objects::ObjectError;
use crate::cluster::random;
use crate::observe::kubeconfigs;
use crate::observe::networking;
use crate::observe::once::{self, GatherError};
use crate::observe::scope::Scope;
use crate::term::exit::{CommandError, ExitState, PROBLEM, USAGE};
use crate::term::interrupt::interrupted;
use crate::term::output::{self, OutputError};
use crate::term::screen::Screen;

/// Maximum number of services that one run verifies.
const MAX_SERVICES: usize = 200;
/// Maximum number of nodes of a consumer that one run connects from.
const MAX_NODES: usize = 100;
/// Exit code of a program that the user interrupts (POSIX shells: 128 + SIGINT).
const INTERRUPTED: u8 = 130;

/// Failed verification of services.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(
        "{what} not found: no MultiClusterService on the hub and no ServiceImport in a member that could be read"
    )]
    NotFound { what: String },
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(String),
    #[error(
        "{count} services are more than the {MAX_SERVICES} of one run; name a namespace or a service"
    )]
    TooMany { count: usize },
    #[error("--print-job dials from one member; give --from once")]
    OneMember,
    #[error("the system has no random numbers")]
    NoRandomness,
    #[error("interrupted; the pods are deleted")]
    Interrupted,
    #[error("some pods may be left, which end by themselves in a minute or two: {0}")]
    Left(String),
}

impl CommandError for VerifyError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            Self::Object(error) => error.exit_code(),
            Self::TooMany { .. } | Self::OneMember => USAGE,
            Self::Interrupted => INTERRUPTED,
            _ => PROBLEM,
        }
    }
}

/// Member with the user's rights, or the reason that it cannot be read.
type Member = Result<ApiServer, String>;

/// Services and clusters of a run.
struct Targets {
    clusters: Vec<Cluster>,
    members: BTreeMap<String, Member>,
    services: Vec<ServiceKey>,
    /// Consumers of each service according to its MultiClusterService.
    consumers: BTreeMap<ServiceKey, BTreeSet<String>>,
    /// Services that a member imports.
    imported: BTreeSet<ServiceKey>,
    /// Members whose ServiceImports cannot be read, with the reasons.
    unread: BTreeMap<String, String>,
}

/// Pod that connects, with its paths.
struct Dialler {
    cluster: String,
    node: Option<String>,
    services: Vec<ServiceKey>,
    paths: Vec<Vec<Path>>,
    untried: Vec<Vec<String>>,
}

/// Receiver of one-line messages about the progress.
pub(crate) type Notes<'a> = &'a (dyn Fn(String) -> Result<(), OutputError> + Send + Sync);

/// Run whose pods do not exist yet.
struct Prepared {
    hub: ApiServer,
    targets: Targets,
    run: Run,
    diallers: Vec<Dialler>,
    untried: Vec<String>,
}

/// Verifies services and returns the exit state of their paths.
pub(crate) async fn run(args: &HubArgs, verify: &VerifyArgs) -> Result<ExitState, VerifyError> {
    if verify.print_job && verify.what.from.len() != 1 {
        return Err(VerifyError::OneMember);
    }
    let prepared = Prepared::read(args, &verify.what, &verify.pods).await?;
    if verify.print_job || verify.dry_run {
        let (run, diallers) = (&prepared.run, &prepared.diallers);
        let objects = prepared.targets.objects(run, diallers, verify.print_job)?;
        output::raw(format!("{}\n", output::manifest(&objects)?).as_bytes())?;
        return Ok(ExitState::new(true, prepared.untried.is_empty()));
    }
    let stop = async {
        // Without signals the pods are deleted at the timeout.
        if interrupted().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let report = prepared
        .verify(&|text| output::progress(text), stop)
        .await?;
    let screen = Screen::stdout(verify.color.color);
    output::report_on(screen, &report, verify.output.format, || {
        report.render(screen)
    })?;
    Ok(report.exit_state())
}

/// Verifies services, and deletes the pods early once `stop` completes.
pub(crate) async fn examine(
    args: &HubArgs,
    (what, pods): (&WhatArgs, &PodArgs),
    notes: Notes<'_>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Report, VerifyError> {
    let mut stop = std::pin::pin!(stop);
    let prepared = tokio::select! {
        prepared = Prepared::read(args, what, pods) => prepared?,
        () = &mut stop => return Err(VerifyError::Interrupted),
    };
    prepared.verify(notes, stop).await
}

impl Prepared {
    async fn read(args: &HubArgs, what: &WhatArgs, pods: &PodArgs) -> Result<Self, VerifyError> {
        let hub = kubeconfigs::hub(args, &pods.members).await?;
        let targets = Targets::read(&hub, what).await?;
        let run = Run {
            id: random_id()?,
            namespace: pods.probe_namespace.clone(),
            image: match &pods.image {
                Some(image) => image.clone(),
                None => image(&hub).await?,
            },
            timeout: pods.timeout,
        };
        let (diallers, untried) = targets.diallers(what).await;
        Ok(Self {
            hub,
            targets,
            run,
            diallers,
            untried,
        })
    }

    /// Runs the pods, and stores the results on the hub.
    async fn verify(
        self,
        notes: Notes<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Report, VerifyError> {
        let Self {
            hub,
            targets,
            run,
            diallers,
            untried,
        } = self;
        let report = targets
            .verify(&run, (diallers, untried), notes, stop)
            .await?;
        for service in &report.services {
            store(&hub, service, notes).await?;
        }
        Ok(report)
    }
}

/// Stores the result of a service. An error is a message, because the user gets the report.
async fn store(
    hub: &ApiServer,
    service: &ServiceReport,
    notes: Notes<'_>,
) -> Result<(), OutputError> {
    let Some(verification) = service.verification(Timestamp::now()) else {
        return Ok(());
    };
    match verification.write(hub, &service.key()).await {
        Ok(()) => Ok(()),
        Err(error) => notes(format!(
            "the result of {} is not stored on the hub: {error}",
            service.key()
        )),
    }
}

fn random_id() -> Result<String, VerifyError> {
    random::digits::<4>().map_err(|_| VerifyError::NoRandomness)
}

/// Returns the image of this program, from the registry of the hub's own controller.
async fn image(hub: &ApiServer) -> Result<String, VerifyError> {
    let registry = images::registry(hub).await?;
    let registry = registry.unwrap_or_else(|| "causeway".to_owned());
    Ok(format!(
        "{registry}/kubectl-mcs:{}",
        env!("CARGO_PKG_VERSION")
    ))
}

impl Targets {
    async fn read(hub: &ApiServer, what: &WhatArgs) -> Result<Self, VerifyError> {
        let mut clusters = once::clusters(hub).await?.unwrap_or_default();
        clusters.retain(|cluster| cluster.takes_part());
        let names: BTreeSet<_> = clusters.iter().map(|one| one.name_any()).collect();
        let unknown = what.from.iter().find(|one| !names.contains(*one));
        if let Some(unknown) = unknown {
            return Err(VerifyError::NotJoined(unknown.clone()));
        }
        let members = clusters.iter().map(|cluster| async {
            let name = cluster.name_any();
            let given = hub.members.or_by_name(&name);
            let member = kubeconfigs::connect(hub, cluster, &given).await;
            (name.clone(), member.map_err(|why| format!("{name}: {why}")))
        });
        let members = join_all(members).await.into_iter().collect();
        let mut targets = Self {
            clusters,
            members,
            services: Vec::new(),
            consumers: BTreeMap::new(),
            imported: BTreeSet::new(),
            unread: BTreeMap::new(),
        };
        targets.find_services(hub, what).await?;
        Ok(targets)
    }

    /// Finds the services that the arguments name.
    async fn find_services(&mut self, hub: &ApiServer, what: &WhatArgs) -> Result<(), VerifyError> {
        let namespace = match what.all_namespaces {
            true => None,
            false => Some(hub.config.default_namespace.clone()),
        };
        let scope = Scope {
            namespace: namespace.clone(),
            name: what.name.clone(),
            ..Scope::default()
        };
        let objects = match once::multi_cluster_services(hub, &scope).await {
            Ok(objects) => objects,
            Err(GatherError::NoApi(_)) => Vec::new(),
            Err(GatherError::Request(error)) => return Err(error.into()),
        };
        let mut services = BTreeSet::new();
        for object in objects {
            let key = key_of(&object);
            let consumers = self.named_consumers(&object);
            self.consumers.insert(key.clone(), consumers);
            services.insert(key);
        }
        let scope = &scope;
        let imports = self.members.iter().map(|(name, member)| async move {
            let member = member.as_ref().ok()?;
            let imports = scope.served::<ServiceImport>(member).await;
            Some(imports.map_err(|error| (name.clone(), format!("{name}: {error}"))))
        });
        for imports in join_all(imports).await.into_iter().flatten() {
            match imports {
                Ok(imports) => self.imported.extend(imports.iter().map(key_of)),
                Err((name, why)) => {
                    self.unread.insert(name, why);
                }
            }
        }
        services.extend(self.imported.iter().cloned());
        if services.is_empty() {
            let what = match (&what.name, &namespace) {
                (Some(name), Some(namespace)) => format!("service {namespace}/{name}"),
                (_, Some(namespace)) => format!("a service of namespace {namespace}"),
                _ => "any service".to_owned(),
            };
            return Err(VerifyError::NotFound { what });
        }
        if services.len() > MAX_SERVICES {
            let count = services.len();
            return Err(VerifyError::TooMany { count });
        }
        self.services = services.into_iter().collect();
        Ok(())
    }

    /// Returns the members that a MultiClusterService selects as consumers.
    fn named_consumers(&self, object: &MultiClusterService) -> BTreeSet<String> {
        let Ok(valid) = domain::MultiClusterService::try_from(object) else {
            return BTreeSet::new();
        };
        let names = self.members.keys().filter(|name| {
            ClusterName::try_from(name.as_str()).is_ok_and(|name| valid.consumers.includes(&name))
        });
        names.cloned().collect()
    }

    /// Reads the consumers. Returns the pods to run, and the parts that cannot be tried.
    async fn diallers(&self, what: &WhatArgs) -> (Vec<Dialler>, Vec<String>) {
        let is_chosen = |name: &String| match what.from.is_empty() {
            true => self.may_consume(name),
            false => what.from.contains(name),
        };
        let members = self.members.iter().filter(|(name, _)| is_chosen(name));
        let read = members.map(|(name, member)| async move {
            let member = member.as_ref().map_err(Clone::clone)?;
            let why = |error: RequestError| format!("{name}: {error}");
            let diallers = self.diallers_of(name, member, what.nodes);
            diallers.await.map_err(why)
        });
        let unread = self.unread.iter();
        let unread = unread.filter(|(name, _)| what.from.is_empty() || what.from.contains(name));
        let mut untried: Vec<_> = unread.map(|(_, why)| why.clone()).collect();
        let mut diallers = Vec::new();
        for read in join_all(read).await {
            match read {
                Ok(found) => diallers.extend(found),
                Err(why) => untried.push(why),
            }
        }
        if diallers.is_empty() && untried.is_empty() {
            untried.push("no member consumes a service of these".to_owned());
        }
        (diallers, untried)
    }

    /// Whether a member may be a consumer of one of the services, as far as is known without it.
    fn may_consume(&self, name: &str) -> bool {
        let named = self.consumers.values();
        !self.imported.is_empty() || named.flatten().any(|consumer| consumer == name)
    }

    async fn diallers_of(
        &self,
        name: &str,
        member: &ApiServer,
        each_node: bool,
    ) -> Result<Vec<Dialler>, RequestError> {
        let (mut services, mut paths, mut untried) = (Vec::new(), Vec::new(), Vec::new());
        for key in &self.services {
            let held = once::held(member.clone(), key).await?;
            let named = self.consumers.get(key);
            let is_named = named.is_some_and(|named| named.contains(name));
            // A Service of the same name in a cluster that does not consume the service is
            // unrelated.
            if !is_named && held.imports.is_empty() {
                continue;
            }
            let found = Paths::of(&held, key, name);
            services.push(key.clone());
            paths.push(found.paths);
            untried.push(found.untried);
        }
        if services.is_empty() {
            return Ok(Vec::new());
        }
        let nodes = match each_node {
            true => nodes(member).await?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        let diallers = nodes.into_iter().map(|node| Dialler {
            cluster: name.to_owned(),
            node,
            services: services.clone(),
            paths: paths.clone(),
            untried: untried.clone(),
        });
        Ok(diallers.collect())
    }

    /// Returns the providers of the paths.
    fn providers(diallers: &[Dialler]) -> BTreeSet<String> {
        let paths = diallers.iter().flat_map(|one| one.paths.iter().flatten());
        paths.filter_map(provider_of).map(str::to_owned).collect()
    }

    fn network(&self, name: &str) -> Network {
        let mut clusters = self.clusters.iter();
        let cluster = clusters.find(|one| one.name_any() == name);
        cluster.map_or_else(Network::default, networking::network)
    }

    /// Returns the objects that a run would create.
    fn objects(
        &self,
        run: &Run,
        diallers: &[Dialler],
        as_job: bool,
    ) -> Result<Vec<DynamicObject>, ObjectError> {
        let mut objects = Vec::new();
        if !as_job {
            for provider in Self::providers(diallers) {
                objects.push(run.pod(&server_name(&provider), &Role::Serve(&provider), None)?);
            }
        }
        for (number, dialler) in diallers.iter().enumerate() {
            let (name, role) = (dialler.name(number), Role::Dial(&dialler.paths));
            objects.push(match as_job {
                true => run.job(&name, &role)?,
                false => run.pod(&name, &role, dialler.node.as_deref())?,
            });
        }
        Ok(objects)
    }

    /// Creates the pods, waits for their outcomes or for `stop`, and deletes the pods.
    async fn verify(
        &self,
        run: &Run,
        (diallers, untried): (Vec<Dialler>, Vec<String>),
        notes: Notes<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Report, VerifyError> {
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
        let deleted = join_all(pods.values().map(Pods::delete)).await;
        let left: Vec<_> = deleted.into_iter().flatten().collect();
        if !left.is_empty() {
            return Err(VerifyError::Left(left.join("; ")));
        }
        finished.ok_or(VerifyError::Interrupted)?
    }

    async fn dial(
        &self,
        run: &Run,
        pods: &mut BTreeMap<&str, Pods<'_>>,
        (mut diallers, mut untried): (Vec<Dialler>, Vec<String>),
        notes: Notes<'_>,
    ) -> Result<Report, VerifyError> {
        notes("starting the pods".to_owned())?;
        let deadline = Instant::now() + run.timeout;
        let adopted = pods.iter_mut().map(|(name, pods)| async move {
            let adopted = pods.adopt_ended().await.err();
            adopted.map(|error| format!("{name}: {error}"))
        });
        untried.extend(join_all(adopted).await.into_iter().flatten());
        let servers = self.serve(run, pods, &diallers, deadline).await?;
        self.add_servers(&mut diallers, &servers);
        for (provider, address) in servers {
            if let Err(why) = address {
                untried.push(format!(
                    "the way to pods of {provider} with large packets: {why}"
                ));
            }
        }
        notes(format!(
            "dialling {} paths from {} pods",
            diallers
                .iter()
                .flat_map(|one| one.paths.iter())
                .map(Vec::len)
                .sum::<usize>(),
            diallers.len()
        ))?;
        for (number, dialler) in diallers.iter().enumerate() {
            let role = Role::Dial(&dialler.paths);
            let pod = run.pod(&dialler.name(number), &role, dialler.node.as_deref())?;
            if let Some(pods) = pods.get_mut(dialler.cluster.as_str())
                && let Err(error) = pods.create(&pod).await
            {
                untried.push(format!("{}: {error}", dialler.cluster));
            }
        }
        let pods = &*pods;
        let outcomes = diallers
            .iter()
            .enumerate()
            .map(|(number, dialler)| async move {
                let name = run.pod_name(&dialler.name(number));
                let pods = pods.get(dialler.cluster.as_str())?;
                Some(pods.dialled(&name, deadline).await)
            });
        let outcomes = join_all(outcomes).await;
        let mut services: BTreeMap<ServiceKey, Vec<ConsumerReport>> = BTreeMap::new();
        for (dialler, dialled) in diallers.into_iter().zip(outcomes) {
            let dialled = match dialled {
                Some(Ok(dialled)) => dialled,
                Some(Err(error)) => {
                    untried.push(format!("{}: {error}", dialler.cluster));
                    Vec::new()
                }
                None => Vec::new(),
            };
            for (key, report) in dialler.reports(dialled) {
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
        Ok(Report::new(services.collect(), untried))
    }

    /// Starts a pod in each provider. Returns the address of each pod, or the reason that it has
    /// none.
    async fn serve(
        &self,
        run: &Run,
        pods: &mut BTreeMap<&str, Pods<'_>>,
        diallers: &[Dialler],
        deadline: Instant,
    ) -> Result<BTreeMap<String, Result<std::net::IpAddr, String>>, VerifyError> {
        let mut servers = BTreeMap::new();
        for provider in Self::providers(diallers) {
            let pod = run.pod(&server_name(&provider), &Role::Serve(&provider), None)?;
            let created = match pods.get_mut(provider.as_str()) {
                Some(pods) => pods.create(&pod).await.map_err(|error| error.to_string()),
                None => match self.members.get(&provider) {
                    Some(Err(why)) => Err(why.clone()),
                    _ => Err(format!("{provider} is not joined")),
                },
            };
            servers.insert(provider, created);
        }
        let pods = &*pods;
        let ready = servers.into_iter().map(|(provider, created)| async move {
            let address = match (created, pods.get(provider.as_str())) {
                (Err(why), _) => Err(why),
                (Ok(()), None) => Err(format!("{provider} is not joined")),
                (Ok(()), Some(pods)) => {
                    let name = run.pod_name(&server_name(&provider));
                    let ready = pods.ready(&name, deadline).await;
                    ready.map_err(|error: PodError| error.to_string())
                }
            };
            (provider, address)
        });
        Ok(join_all(ready).await.into_iter().collect())
    }

    /// Adds the answering pods to the paths of each dialler. Pods of another network are reachable
    /// only through entries of the service.
    fn add_servers(
        &self,
        diallers: &mut [Dialler],
        servers: &BTreeMap<String, Result<std::net::IpAddr, String>>,
    ) {
        for dialler in diallers {
            let network = self.network(&dialler.cluster);
            for paths in &mut dialler.paths {
                let of_service: BTreeSet<_> = paths.iter().filter_map(provider_of).collect();
                let reached = servers.iter().filter(|(provider, _)| {
                    of_service.contains(provider.as_str()) && self.network(provider) == network
                });
                let added = reached.filter_map(|(provider, address)| {
                    Some(Path::Server {
                        provider: provider.clone(),
                        address: *address.as_ref().ok()?,
                        port: PORT,
                    })
                });
                let added: Vec<_> = added.collect();
                paths.extend(added);
            }
        }
    }
}

impl Dialler {
    /// Returns the suffix of the pod's name.
    fn name(&self, number: usize) -> String {
        format!("dial-{number}")
    }

    /// Splits the outcomes of a pod by service.
    fn reports(self, dialled: Vec<probe::Dialled>) -> Vec<(ServiceKey, ConsumerReport)> {
        let Self {
            cluster,
            node,
            services,
            paths,
            untried,
        } = self;
        let all = services.into_iter().zip(paths).zip(untried).enumerate();
        let reports = all.map(|(number, ((key, paths), untried))| {
            let of_service = dialled.iter().filter(|one| one.service == number);
            let of_service = of_service.cloned().collect();
            let report =
                ConsumerReport::new(&cluster, node.as_deref(), &paths, of_service, untried);
            (key, report)
        });
        reports.collect()
    }
}

fn server_name(provider: &str) -> String {
    format!("serve-{provider}")
}

fn provider_of(path: &Path) -> Option<&str> {
    match path {
        Path::Endpoint { provider, .. } => Some(provider),
        _ => None,
    }
}

fn key_of(object: &impl kube::ResourceExt) -> ServiceKey {
    ServiceKey::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns the names of the nodes that can run pods.
async fn nodes(member: &ApiServer) -> Result<Vec<String>, RequestError> {
    let nodes: Api<Node> = Api::all(member.client.clone());
    let nodes = member.request(nodes.list(&ListParams::default())).await?;
    let is_ready = |node: &Node| {
        let status = node.status.as_ref();
        let conditions = status
            .into_iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let mut ready = conditions.filter(|one| one.type_ == "Ready");
        ready.any(|one| one.status == "True")
    };
    let nodes = nodes.items.iter().filter(|node| is_ready(node));
    Ok(nodes.map(|node| node.name_any()).take(MAX_NODES).collect())
}
