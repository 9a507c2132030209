//! `kubectl mcs uninstall`: cleans up the members, and then deletes the webhook, the programs and
//! their RBAC from the hub.

mod keep_services;
mod serving;

use causeway::api::{Cluster, ClusterProfile, MultiClusterService};
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use causeway::domain::{ClusterName, enrolment};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::DynamicObject;
use tokio::time::Instant;

use self::serving::{ManagedByKarmada, Serving};
use crate::args::UninstallArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::bundle;
use crate::cluster::definitions::{CLUSTERS, Found, Kind, Origin, SERVICES};
use crate::cluster::helm::{self, Release};
use crate::cluster::karmada;
use crate::cluster::lease;
use crate::cluster::objects;
use crate::cluster::wait;
use crate::commands::membership::leftovers::{self, Problems};
use crate::commands::membership::{cleaning, hub, is_kept};
use crate::observe::kubeconfigs;
use crate::observe::once;
use crate::term::confirm;
use crate::term::exit::{CommandError, Failure, PROBLEM, UNKNOWN};
use crate::term::output::{self, OutputError};

/// Failed uninstallation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UninstallError {
    #[error(
        "you may not get Lease {0} on the hub, which shows whether causeway-controller runs; use a kubeconfig that may"
    )]
    LeaseForbidden(&'static str),
    #[error(
        "causeway still serves {serving}: without it nothing would clean up the members. Nothing was removed. Run first\n{commands}\n\
         or let this command do it: kubectl mcs uninstall --cascade"
    )]
    Serving { serving: String, commands: String },
    #[error(
        "Karmada manages {services}, and objects of causeway may remain for them that nothing would clean up. Nothing was removed. Run \
         first, while causeway-controller is running:\n{commands}"
    )]
    ManagedByKarmada { services: String, commands: String },
    #[error(
        "{stopped}. Nothing was removed, because only the controller cleans up {serving}. Start it ({remedy}), and run this again; \
         or remove the finalizers without a cleanup:\n{commands}",
        remedy = lease::REMEDY
    )]
    NoController {
        stopped: String,
        serving: String,
        commands: String,
    },
    #[error(
        "causeway-controller is running elsewhere, or has ended within the last minute ({holder} holds \
         Lease {lease}): it would add the finalizers again. Nothing was removed. Stop it, or wait a \
         minute, then run this again"
    )]
    StillRuns { holder: String, lease: String },
    #[error(
        "causeway's finalizers are not removed within {seconds} s; left: {left}. Check that causeway-controller is not running, and run this again"
    )]
    FinalizersLeft { seconds: u64, left: String },
    #[error(
        "Clusters of this hub are made of ClusterProfiles, and would be made again. Nothing was removed. Remove these \
         ClusterProfiles first, and their Clusters go with them:\n{commands}"
    )]
    OfProfiles { commands: String },
    #[error(
        "services or clusters of the hub have changed since they were listed. Nothing was removed; run this again"
    )]
    Changed,
    #[error(
        "causeway on the hub is {release}, which only Helm removes as a whole. Nothing was removed. Run\n{commands}"
    )]
    OfHelm { release: Release, commands: String },
    #[error(
        "the controller has not cleaned up within {seconds} s; left: {serving}. Check that it runs (kubectl mcs check) and run \
         this again; or remove the finalizers without a cleanup:\n{commands}"
    )]
    NotCleaned {
        seconds: u64,
        serving: String,
        commands: String,
    },
    #[error(
        "customresourcedefinition.apiextensions.k8s.io/{name} is not deleted within {seconds} s{late}; its objects have finalizers: \
         see kubectl describe crd {name}"
    )]
    NotGone {
        name: String,
        seconds: u64,
        late: wait::TimedOut,
    },
}

impl CommandError for UninstallError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::LeaseForbidden(_) => UNKNOWN,
            Self::NotGone { late, .. } => late.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Objects of causeway on a hub.
struct Inventory {
    served: Served,
    /// Secrets of members that exist without a Cluster, for example after an interrupted
    /// `--cascade`, with the names of the members.
    orphans: Vec<(ClusterName, DynamicObject)>,
    /// Commands that delete the ClusterProfiles of which Clusters are made.
    profiles: Vec<String>,
    /// Definitions of MultiClusterService and Cluster on the hub.
    definitions: [Definition; 2],
    /// Objects to delete, in order, with their UIDs.
    objects: Vec<DynamicObject>,
}

/// Kind, and its definition on the hub.
type Definition = (Kind, Found);

/// Removes causeway from a hub.
pub(crate) async fn run(hub: &HubArgs, args: &UninstallArgs) -> Result<(), Failure> {
    // A member may have gone in an earlier run, so its kubeconfig is no mistake.
    let hub = kubeconfigs::hub_of_any(hub, &args.members).await?;
    let mut inventory = Inventory::read(&hub).await?;
    inventory.note_unknown(&hub)?;
    if args.keep_services {
        inventory
            .objects
            .retain(|object| !bundle::is_kept_with_services(object));
    }
    let definitions = inventory.definitions_to_go(args);
    if inventory.is_empty() && definitions.is_empty() {
        output::result(format_args!(
            "nothing of causeway to remove on the hub at {}",
            hub.url()
        ))?;
        return inventory.print_kept(&hub, args).await;
    }
    if let Some(release) = helm::release(&hub).await? {
        return Err(inventory.of_helm(release, args.keep_services).into());
    }
    inventory.print_plan(&hub, &definitions, args)?;
    match args.keep_services {
        true => keep_services::check(&hub, &inventory.objects).await?,
        false => {
            inventory.check_serving(args.cascade)?;
            inventory.served.check_controller(&hub).await?;
        }
    }
    if args.dry_run.is_some() {
        return Ok(output::result("nothing was removed (dry run)")?);
    }
    if !args.yes {
        let question = format!("Remove causeway from the hub at {}?", hub.url());
        confirm::ask(question, "removed")?;
        inventory.check_unchanged(&hub).await?;
    }
    if args.keep_services {
        keep_services::remove_finalizers(&hub, &inventory.objects, args.timeout).await?;
    } else {
        clean(&hub, &inventory, args).await?;
    }
    for object in &inventory.objects {
        objects::remove(&hub, object).await?;
    }
    if args.keep_services {
        keep_services::remove_rest(&hub, args.timeout).await?;
    }
    for definition in definitions {
        remove_definition(&hub, definition, args).await?;
    }
    inventory.print_kept(&hub, args).await?;
    if args.keep_services {
        return keep_services::report(&hub).await;
    }
    inventory.report_members(&hub).await
}

impl Inventory {
    async fn read(hub: &ApiServer) -> Result<Self, Failure> {
        let clusters = CLUSTERS.find(hub).await?;
        let served = Served::read(hub, owns_clusters(hub, &clusters).await?).await?;
        let definitions = [(SERVICES, SERVICES.find(hub).await?), (CLUSTERS, clusters)];
        let clusters = &served.clusters;
        let mut orphans = hub::joined_secrets(hub).await?;
        orphans.retain(|(name, _)| !clusters.iter().any(|one| one.name_any() == name.as_str()));
        let profiles = profiles(hub, clusters).await?;
        let mut objects = Vec::new();
        for mut object in bundle::everything()? {
            match objects::get(hub, &object).await? {
                Some(stored) if bundle::is_managed(&stored) => {
                    object.metadata.uid = stored.metadata.uid;
                    objects.push(object);
                }
                Some(_) => output::progress(format_args!(
                    "note: {} does not have causeway's label, unchanged",
                    objects::title(&object)
                ))?,
                None => {}
            }
        }
        Ok(Self {
            served,
            orphans,
            profiles,
            definitions,
            objects,
        })
    }

    /// Prints which kubeconfigs are of no member.
    fn note_unknown(&self, hub: &ApiServer) -> Result<(), OutputError> {
        let clusters = &self.served.clusters;
        for name in hub.members.named() {
            if !clusters.iter().any(|one| one.name_any() == *name) {
                output::progress(format_args!("note: {name} is not joined"))?;
            }
        }
        Ok(())
    }

    /// Whether nothing of causeway is left, not even a finalizer.
    fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.orphans.is_empty()
            && self.served.serving.is_empty()
            && self.served.karmadas.commands().is_none()
    }

    /// Checks that the hub has the same services and Clusters as before the user was asked.
    async fn check_unchanged(&self, hub: &ApiServer) -> Result<(), Failure> {
        let owns_clusters = owns_clusters(hub, &CLUSTERS.find(hub).await?).await?;
        let now = Served::read(hub, owns_clusters).await?;
        let before = &self.served;
        match now.serving == before.serving && now.karmadas == before.karmadas {
            true => Ok(()),
            false => Err(UninstallError::Changed.into()),
        }
    }

    /// Returns the error for an installation by Helm. To keep the services, only finalizers are
    /// removed after the release.
    fn of_helm(&self, release: Release, keep_services: bool) -> UninstallError {
        let uninstall = format!("  helm uninstall {} -n {}", release.name, release.namespace);
        let Served {
            serving, karmadas, ..
        } = &self.served;
        let (first, last) = match keep_services {
            true => (Vec::new(), "  kubectl mcs uninstall --keep-services"),
            false => {
                let (profiles, karmadas) = (self.profiles.join("\n"), karmadas.commands());
                let all = [profiles, karmadas.unwrap_or_default(), serving.commands()];
                (all.into(), "")
            }
        };
        let commands = first.into_iter().chain([uninstall, last.to_owned()]);
        let commands: Vec<_> = commands.filter(|one| !one.is_empty()).collect();
        UninstallError::OfHelm {
            release,
            commands: commands.join("\n"),
        }
    }

    /// Checks that nothing remains that only a running controller cleans up. `--cascade` deletes
    /// it.
    fn check_serving(&self, cascade: bool) -> Result<(), UninstallError> {
        if !self.profiles.is_empty() {
            let commands = self.profiles.join("\n");
            return Err(UninstallError::OfProfiles { commands });
        }
        let Served {
            serving, karmadas, ..
        } = &self.served;
        if let (Some(services), Some(commands)) = (karmadas.named(), karmadas.commands()) {
            return Err(UninstallError::ManagedByKarmada { services, commands });
        }
        if serving.is_empty() || cascade {
            return Ok(());
        }
        Err(UninstallError::Serving {
            serving: serving.to_string(),
            commands: serving.commands(),
        })
    }

    fn definitions_to_go(&self, args: &UninstallArgs) -> Vec<&Definition> {
        let ours = self.definitions.iter();
        ours.filter(|(_, found)| args.crds && found.origin == Origin::Managed)
            .collect()
    }

    /// Prints the objects to remove before the user confirms.
    fn print_plan(
        &self,
        hub: &ApiServer,
        definitions: &[&Definition],
        args: &UninstallArgs,
    ) -> Result<(), Failure> {
        output::result(format_args!("to be removed from the hub at {}:", hub.url()))?;
        for object in &self.objects {
            output::result(format_args!("  {}", objects::title(object)))?;
        }
        for (_, secret) in self.orphans.iter().filter(|_| !args.keep_services) {
            output::result(format_args!("  {}", objects::title(secret)))?;
        }
        let serving = &self.served.serving;
        for (kind, _) in definitions {
            let count = match kind.plural == SERVICES.plural {
                true => self.served.services,
                false => self.served.clusters.len(),
            };
            output::result(format_args!(
                "  customresourcedefinition.apiextensions.k8s.io/{}.{}, and with it every {} ({count} now)",
                kind.plural, kind.group, kind.name
            ))?;
        }
        if args.cascade && !serving.is_empty() {
            output::result(format_args!(
                "and before, when the controller has cleaned the members: {serving}"
            ))?;
        }
        if let Some(karmadas) = self.served.karmadas.named() {
            output::result(format_args!(
                "left as they are, because Karmada manages them: {karmadas}"
            ))?;
        }
        if args.keep_services {
            return Ok(output::result(
                "after that nothing updates multi-cluster services: Services and EndpointSlices stay in the members as they are now, also when \
                 endpoints come and go",
            )?);
        }
        Ok(output::result(
            "after that MultiClusterServices are neither validated nor served, and exports are not imported: clients lose their endpoints in other clusters",
        )?)
    }

    async fn print_kept(&self, hub: &ApiServer, args: &UninstallArgs) -> Result<(), Failure> {
        for (kind, found) in &self.definitions {
            let title = objects::title(&kind.definition()?);
            match found.origin {
                Origin::Managed if !args.crds => output::result(format_args!(
                    "hub: {title} stays; --crds deletes it, and with it every {}",
                    kind.name
                ))?,
                Origin::Foreign(_) => output::result(format_args!(
                    "hub: {} is not managed by causeway, unchanged",
                    kind.name
                ))?,
                Origin::Managed | Origin::Absent => {}
            }
        }
        if self.objects.is_empty() {
            return Ok(());
        }
        let of_enrolment = |object: &DynamicObject| {
            let namespace = object.metadata.namespace.as_deref();
            namespace == Some(enrolment::NAMESPACE)
        };
        let enrols = self.objects.iter().any(of_enrolment);
        let namespaces = [DEFAULT_NAMESPACE, MEMBERS_NAMESPACE].into_iter();
        for namespace in namespaces.chain(enrols.then_some(enrolment::NAMESPACE)) {
            let advice = match karmada::members_with_namespace(hub, namespace).await? {
                Some(members) if members.is_empty() => "delete it if it is empty".to_owned(),
                Some(members) => format!(
                    "do not delete it: Karmada propagates it, and would delete it with all that it holds in {}",
                    members.join(", ")
                ),
                None => "delete it only if no Work of Karmada propagates it; you may not list works.work.karmada.io"
                    .to_owned(),
            };
            output::result(format_args!("hub: namespace/{namespace} kept; {advice}"))?;
        }
        Ok(())
    }

    /// Prints the accounts in the members whose credentials on the hub are about to be deleted.
    fn report_accounts(&self) -> Result<(), OutputError> {
        let orphans = self.orphans.iter().map(|(name, _)| name.to_string());
        let mut joined = self.served.serving.members();
        joined.extend(orphans);
        if joined.is_empty() {
            return Ok(());
        }
        // A member may have several Secrets.
        joined.sort_unstable();
        joined.dedup();
        output::result(format_args!(
            "note: causeway's account remains in {}; to delete its token for this hub, and the account unless another hub uses it, run \
             for each: kubectl mcs unjoin NAME --member-kubeconfig FILE --force",
            joined.join(", ")
        ))
    }

    /// Prints leftovers in joined members. They are read with the credentials on the hub: the
    /// status of a Cluster does not change while it is deleted.
    async fn report_uncleaned(&self, hub: &ApiServer, problems: &Problems) -> Result<(), Failure> {
        let members = self.served.serving.members();
        let clusters = self.served.clusters.iter();
        let joined = clusters.filter(|one| members.contains(&one.name_any()));
        leftovers::report(hub, joined, problems).await
    }

    /// Prints leftovers in members that were not joined with this program.
    async fn report_members(&self, hub: &ApiServer) -> Result<(), Failure> {
        let joined = self.served.serving.members();
        let clusters = self.served.clusters.iter();
        let others = clusters.filter(|one| !joined.contains(&one.name_any()));
        leftovers::report(hub, others, &Problems::new()).await
    }
}

/// Returns the commands that delete the ClusterProfiles of which these Clusters are made.
async fn profiles(hub: &ApiServer, clusters: &[Cluster]) -> Result<Vec<String>, RequestError> {
    let mut commands = Vec::new();
    for cluster in clusters {
        let Some(namespace) = cluster.profile_namespace() else {
            continue;
        };
        let (api, name) = (hub.within::<ClusterProfile>(namespace), cluster.name_any());
        if hub.get_metadata(api, &name).await?.is_some() {
            commands.push(format!(
                "  kubectl -n {namespace} delete clusterprofile {name}"
            ));
        }
    }
    Ok(commands)
}

/// Services and Clusters of a hub.
struct Served {
    /// Number of services.
    services: usize,
    clusters: Vec<Cluster>,
    karmadas: ManagedByKarmada,
    /// Whether `join` may have created the Clusters.
    owns_clusters: bool,
    serving: Serving,
}

impl Served {
    async fn read(hub: &ApiServer, owns_clusters: bool) -> Result<Self, Failure> {
        let services: Vec<MultiClusterService> = once::all(hub).await?.unwrap_or_default();
        let clusters = once::clusters(hub).await?.unwrap_or_default();
        let works = karmada::works(hub, None).await?;
        let works = works.ok_or(karmada::WorksForbidden)?;
        let karmadas = ManagedByKarmada::of(&services, &works);
        Ok(Self {
            serving: Serving::of(&services, &clusters, &karmadas, owns_clusters),
            services: services.len(),
            clusters,
            karmadas,
            owns_clusters,
        })
    }

    /// Checks that the controller is not known to be stopped if objects have its finalizer: their
    /// deletion cannot be undone, and would not end.
    async fn check_controller(&self, hub: &ApiServer) -> Result<(), Failure> {
        let serving = &self.serving;
        if serving.services.is_empty() && !self.clusters.iter().any(is_kept) {
            return Ok(());
        }
        match lease::stopped(hub, Instant::now()).await? {
            Some(stopped) => Err(UninstallError::NoController {
                stopped,
                serving: serving.to_string(),
                commands: serving.surrender(),
            }
            .into()),
            None => Ok(()),
        }
    }
}

/// Whether `join` may have created Clusters of the hub, given their definition.
async fn owns_clusters(hub: &ApiServer, definition: &Found) -> Result<bool, Failure> {
    let is_karmadas = definition.origin != Origin::Managed && karmada::is_served(hub).await?;
    Ok(serving::owns_clusters(definition, is_karmadas))
}

/// Deletes all objects that causeway serves and waits for the controller's cleanup. Deletes
/// services first, while all members are joined, then Clusters, then credentials. A repeated run
/// resumes an interrupted one.
async fn clean(
    hub: &ApiServer,
    inventory: &Inventory,
    args: &UninstallArgs,
) -> Result<(), Failure> {
    let serving = &inventory.served.serving;
    let mut cleanup = Cleanup {
        hub,
        args,
        deadline: Instant::now() + args.timeout,
        owns_clusters: inventory.served.owns_clusters,
        problems: Problems::new(),
    };
    record(&mut cleanup.problems, &inventory.served.clusters);
    if !serving.is_empty() {
        for service in &serving.services {
            objects::remove(hub, service).await?;
        }
        cleanup.wait(Serving::without_clusters).await?;
        for cluster in &serving.clusters {
            objects::remove(hub, cluster).await?;
        }
        cleanup.wait(|serving| serving).await?;
    }
    inventory.report_accounts()?;
    inventory.report_uncleaned(hub, &cleanup.problems).await?;
    let orphans = inventory.orphans.iter().map(|(name, _)| name.to_string());
    leftovers::report_without_cluster(hub, orphans.collect()).await?;
    let members = serving.members();
    let cleaned = members.iter();
    let cleaned = cleaned.filter_map(|name| ClusterName::try_from(name.as_str()).ok());
    for name in cleaned {
        let credentials = hub::credentials(hub, &name).await?;
        let enrolments = hub::enrolments(hub, &name).await?;
        for secret in enrolments.iter().chain(&credentials) {
            objects::remove(hub, secret).await?;
        }
    }
    for (_, secret) in &inventory.orphans {
        objects::remove(hub, secret).await?;
    }
    Ok(())
}

/// Records the problems of these Clusters. A Cluster that is deleted retains its last one.
fn record(problems: &mut Problems, clusters: &[Cluster]) {
    let kept = clusters.iter().filter(|one| is_kept(*one));
    problems.extend(kept.map(|one| (one.name_any(), cleaning(one))));
}

/// Cleanup by the controller.
struct Cleanup<'a> {
    hub: &'a ApiServer,
    args: &'a UninstallArgs,
    deadline: Instant,
    owns_clusters: bool,
    problems: Problems,
}

impl Cleanup<'_> {
    /// Waits until the selected part of the served objects is deleted. Records the problems of the
    /// Clusters meanwhile.
    async fn wait(&mut self, part: impl Fn(Serving) -> Serving) -> Result<(), Failure> {
        let (hub, owns_clusters, problems) = (self.hub, self.owns_clusters, &mut self.problems);
        let what = "the controller to clean up after ";
        let left = wait::none_left(self.deadline, what, async || {
            let served = Served::read(hub, owns_clusters).await?;
            record(problems, &served.clusters);
            let left = part(served.serving);
            Ok((!left.is_empty()).then_some(left))
        });
        match left.await? {
            None => Ok(()),
            Some(left) => Err(UninstallError::NotCleaned {
                seconds: self.args.timeout.as_secs(),
                serving: left.to_string(),
                commands: left.surrender(),
            }
            .into()),
        }
    }
}

/// Deletes a definition and waits until its objects are deleted too.
async fn remove_definition(
    hub: &ApiServer,
    (kind, found): &Definition,
    args: &UninstallArgs,
) -> Result<(), Failure> {
    let mut object = kind.definition()?;
    object.metadata.uid = found.stored.as_ref().and_then(ResourceExt::uid);
    objects::remove(hub, &object).await?;
    let name = object.name_any();
    let deadline = Instant::now() + args.timeout;
    let definitions = hub.all::<CustomResourceDefinition>();
    let gone = wait::until(definitions, &name, deadline, |found| {
        found.is_none().then_some(())
    });
    let seconds = args.timeout.as_secs();
    Ok(gone.await.map_err(|late| UninstallError::NotGone {
        name,
        seconds,
        late,
    })?)
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use serde_json::json;

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::{answering, cluster, ready};

    #[tokio::test]
    async fn renewal_by_a_late_clock_proves_that_the_controller_runs() {
        let mut second = 0;
        let hub = answering(Side::Hub, move |_| {
            second += 1;
            let renewed = format!("2000-01-01T00:00:{second:02}.000000Z");
            let spec = json!({"holderIdentity": "a", "renewTime": renewed});
            (200, json!({"metadata": {}, "spec": spec}))
        });
        let mut kept = cluster("a", json!([]));
        kept.metadata.finalizers = Some(vec![labels::FINALIZER.to_owned()]);
        let served = Served {
            services: 0,
            clusters: vec![kept],
            karmadas: ManagedByKarmada::default(),
            owns_clusters: true,
            serving: Serving::default(),
        };
        let checked = served.check_controller(&hub).await;
        assert!(checked.is_ok(), "{checked:?}");
    }

    #[test]
    fn last_status_of_a_deleted_cluster_is_its_problem() {
        let observed = |name: &str, status: &str| {
            let mut one = cluster(name, json!([ready(status, "Unreachable", "no route")]));
            one.metadata.finalizers = Some(vec![labels::FINALIZER.to_owned()]);
            one
        };
        let mut freed = observed("b", "True");
        freed.metadata.finalizers = None;
        let mut problems = Problems::new();
        let first = [observed("a", "True"), observed("b", "False")];
        record(&mut problems, &first);
        record(&mut problems, &[observed("a", "False"), freed]);
        record(&mut problems, &[]);
        let why = ": Unreachable (no route)";
        let expected = ["a", "b"].map(|name| (name.to_owned(), why.to_owned()));
        assert_eq!(problems, Problems::from(expected));
    }
}
