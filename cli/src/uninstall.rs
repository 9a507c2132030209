//! `kubectl mcs uninstall`: the members are cleaned first, then the hub loses the webhook, the programs and their rights.

mod keep;
mod leftovers;
mod serving;

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::ClusterName;
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};

use self::serving::{Carried, Serving};
use crate::args::{HubArgs, UninstallArgs};
use crate::ask::{ApiServer, AskError};
use crate::definitions::{CLUSTERS, DefinitionError, Kind, Origin, SERVICES};
use crate::objects::{self, ObjectError};
use crate::say::OutputError;
use crate::{bundle, follow, hub, karmada, say, unjoin};

/// How often the hub is asked what is left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// causeway could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UninstallError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("the answer cannot be read: {0}")]
    Input(io::Error),
    #[error(
        "causeway still serves {serving}: without it nobody would clean the members. Nothing was removed. Run first\n{commands}\n\
         or have that done: kubectl mcs uninstall --cascade"
    )]
    Serving { serving: String, commands: String },
    #[error(
        "Karmada carries {services}, and something of causeway's may be left of them, that nobody would clean. Nothing was removed. Run \
         first, while causeway-controller runs,\n{commands}"
    )]
    Carried { services: String, commands: String },
    #[error(
        "causeway-controller runs elsewhere ({holder} holds Lease {lease}), and would take the finalizers up again. Nothing was removed. Stop it, then run this again"
    )]
    StillRuns { holder: String, lease: String },
    #[error(
        "causeway's finalizers are not off within {seconds} s; left: {left}. Check that causeway-controller does not run, and run this again"
    )]
    NotLetGo { seconds: u64, left: String },
    #[error(
        "nobody can be asked whether to go on, for this is no terminal; give --yes if it is meant. Nothing was removed"
    )]
    Unasked,
    #[error("nothing was removed")]
    Declined,
    #[error(
        "the controller has not cleaned up within {seconds} s; left: {serving}. Check that it runs (kubectl mcs check) and run \
         this again; or give up what it would clean:\n{commands}"
    )]
    NotCleaned {
        seconds: u64,
        serving: String,
        commands: String,
    },
    #[error(
        "customresourcedefinition.apiextensions.k8s.io/{name} is not gone within {seconds} s{late}; something holds its objects: \
         see kubectl describe crd {name}"
    )]
    NotGone {
        name: String,
        seconds: u64,
        late: follow::Late,
    },
}

/// What of causeway is on a hub.
struct Scene {
    serving: Serving,
    carried: Carried,
    services: usize,
    clusters: Vec<Cluster>,
    /// The two definitions, and whose they are.
    definitions: [(Kind, Origin); 2],
    /// In the order in which they are removed.
    objects: Vec<DynamicObject>,
}

/// Removes causeway from a hub.
pub(crate) async fn run(hub: &HubArgs, args: &UninstallArgs) -> Result<(), UninstallError> {
    let hub = ApiServer::hub(hub).await?;
    let scene = Scene::read(&hub).await?;
    let definitions = scene.definitions_to_go(args);
    if scene.objects.is_empty() && definitions.is_empty() {
        say::result(format_args!(
            "nothing of causeway to remove on the hub at {}",
            hub.url()
        ))?;
        return scene.say_kept(args);
    }
    scene.say_loss(&hub, &definitions, args)?;
    if args.keep_services {
        keep::check(&hub, &scene.objects).await?;
    } else if let (Some(services), Some(commands)) =
        (scene.carried.named(), scene.carried.commands())
    {
        return Err(UninstallError::Carried { services, commands });
    }
    if !args.keep_services && !scene.serving.is_empty() && !args.cascade {
        return Err(UninstallError::Serving {
            serving: scene.serving.to_string(),
            commands: scene.serving.commands(),
        });
    }
    if args.dry_run.is_some() {
        return Ok(say::result("nothing was removed (dry run)")?);
    }
    if !args.yes {
        ask_person(&hub)?;
    }
    if args.keep_services {
        keep::let_go(&hub, &scene.objects, args.timeout).await?;
    } else if !scene.serving.is_empty() {
        clean(&hub, &scene, args).await?;
    }
    for object in &scene.objects {
        objects::remove(&hub, object).await?;
    }
    for kind in definitions {
        remove_definition(&hub, kind, args).await?;
    }
    scene.say_kept(args)?;
    if args.keep_services {
        return keep::say(&hub).await;
    }
    scene.say_members(&hub).await
}

impl Scene {
    async fn read(hub: &ApiServer) -> Result<Self, UninstallError> {
        let services: Vec<MultiClusterService> = list(hub).await?;
        let works = karmada::works(hub, None).await?.unwrap_or_default();
        let carried = Carried::of(&services, &works);
        let clusters: Vec<Cluster> = list(hub).await?;
        let definitions = [
            (SERVICES, SERVICES.find(hub).await?.origin),
            (CLUSTERS, CLUSTERS.find(hub).await?.origin),
        ];
        let mut objects = Vec::new();
        for object in bundle::everything()? {
            match objects::get(hub, &object).await? {
                Some(stored) if bundle::is_ours(&stored) => objects.push(object),
                Some(_) => say::progress(format_args!(
                    "note: {} does not bear causeway's label and is left",
                    objects::title(&object)
                ))?,
                None => {}
            }
        }
        Ok(Self {
            serving: Serving::of(&services, &clusters, &carried),
            carried,
            services: services.len(),
            clusters,
            definitions,
            objects,
        })
    }

    fn definitions_to_go(&self, args: &UninstallArgs) -> Vec<Kind> {
        let ours = self.definitions.iter();
        let ours = ours.filter(|(_, origin)| args.crds && *origin == Origin::Ours);
        ours.map(|(kind, _)| *kind).collect()
    }

    /// What a person who agrees to it agrees to.
    fn say_loss(
        &self,
        hub: &ApiServer,
        definitions: &[Kind],
        args: &UninstallArgs,
    ) -> Result<(), OutputError> {
        say::result(format_args!("to be removed from the hub at {}:", hub.url()))?;
        for object in &self.objects {
            say::result(format_args!("  {}", objects::title(object)))?;
        }
        for kind in definitions {
            let count = match kind.plural == SERVICES.plural {
                true => self.services,
                false => self.clusters.len(),
            };
            say::result(format_args!(
                "  customresourcedefinition.apiextensions.k8s.io/{}.{}, and with it every {} ({count} now)",
                kind.plural, kind.group, kind.name
            ))?;
        }
        if args.cascade && !self.serving.is_empty() {
            say::result(format_args!(
                "and before, when the controller has cleaned the members: {}",
                self.serving
            ))?;
        }
        if let Some(carried) = self.carried.named() {
            say::result(format_args!(
                "left as they are, for Karmada carries them: {carried}"
            ))?;
        }
        if args.keep_services {
            return say::result(
                "then nobody keeps up what reaches across clusters: Services and EndpointSlices stay in the members as they are now, also when \
                 endpoints come and go",
            );
        }
        say::result(
            "then MultiClusterServices are no longer judged or served, nor exports imported: clients lose what they reach in other clusters",
        )
    }

    fn say_kept(&self, args: &UninstallArgs) -> Result<(), UninstallError> {
        for (kind, origin) in self.definitions {
            let title = objects::title(&kind.definition()?);
            match origin {
                Origin::Ours if !args.crds => say::result(format_args!(
                    "hub: {title} left; --crds deletes it, and with it every {}",
                    kind.name
                ))?,
                Origin::Others(_) => say::result(format_args!(
                    "hub: {} is not causeway's, left as it is",
                    kind.name
                ))?,
                Origin::Ours | Origin::Absent => {}
            }
        }
        if !self.objects.is_empty() {
            say::result(format_args!(
                "hub: namespace/{DEFAULT_NAMESPACE} and namespace/{MEMBERS_NAMESPACE} left, delete them if nothing else is in them"
            ))?;
        }
        Ok(())
    }

    /// What is left in the members, which the hub's credentials do not reach any more.
    async fn say_members(&self, hub: &ApiServer) -> Result<(), UninstallError> {
        let joined = self.serving.clusters();
        if !joined.is_empty() {
            say::result(format_args!(
                "note: causeway's account is left in {}; remove it there with kubectl delete -f manifests/member/rbac.yaml",
                joined.join(", ")
            ))?;
        }
        let others = self.clusters.iter().map(ResourceExt::name_any);
        let others: Vec<_> = others.filter(|name| !joined.contains(name)).collect();
        let others = self
            .clusters
            .iter()
            .filter(|one| others.contains(&one.name_any()));
        leftovers::say(hub, others).await
    }
}

/// Every object of a kind, none where it is not served.
async fn list<K>(hub: &ApiServer) -> Result<Vec<K>, AskError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(hub.client.clone());
    match hub.ask(api.list(&ListParams::default())).await {
        Ok(list) => Ok(list.items),
        Err(AskError::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn ask_person(hub: &ApiServer) -> Result<(), UninstallError> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(UninstallError::Unasked);
    }
    write!(
        io::stderr(),
        "Remove causeway from the hub at {}? [y/N] ",
        hub.url()
    )
    .map_err(OutputError::from)?;
    if agrees(&mut input.lock()).map_err(UninstallError::Input)? {
        Ok(())
    } else {
        Err(UninstallError::Declined)
    }
}

fn agrees(input: &mut impl BufRead) -> io::Result<bool> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let answer = line.trim();
    Ok(["y", "yes"]
        .iter()
        .any(|yes| answer.eq_ignore_ascii_case(yes)))
}

/// Deletes what causeway serves, and waits until its controller is done: first the services, while all members are known, then
/// the Clusters.
async fn clean(hub: &ApiServer, scene: &Scene, args: &UninstallArgs) -> Result<(), UninstallError> {
    let deadline = Instant::now() + args.timeout;
    for (namespace, name) in scene.serving.services() {
        objects::remove(hub, &object(&SERVICES, Some(namespace), &name)?).await?;
    }
    cleaned(hub, deadline, args, Serving::without_clusters).await?;
    for name in scene.serving.clusters() {
        objects::remove(hub, &object(&CLUSTERS, None, name)?).await?;
    }
    cleaned(hub, deadline, args, |serving| serving).await?;
    for cluster in &scene.clusters {
        let name = cluster.name_any();
        let Ok(known) = ClusterName::try_from(&*name) else {
            continue;
        };
        hub::forget_credentials(hub, &known).await?;
        let trouble = unjoin::cleaning(cluster);
        if scene.serving.clusters().contains(&name) && !trouble.is_empty() {
            unjoin::say_left(hub, &name, &trouble).await?;
        }
    }
    Ok(())
}

/// An object of a kind by its name alone.
fn object(
    kind: &Kind,
    namespace: Option<String>,
    name: &str,
) -> Result<DynamicObject, ObjectError> {
    let mut object = objects::object(json!({
        "apiVersion": format!("{}/{}", kind.group, kind.versions[0]),
        "kind": kind.name,
        "metadata": { "name": name },
    }))?;
    object.metadata.namespace = namespace;
    Ok(object)
}

/// Waits until nothing of a part of what causeway serves is left.
async fn cleaned(
    hub: &ApiServer,
    deadline: Instant,
    args: &UninstallArgs,
    part: impl Fn(Serving) -> Serving,
) -> Result<(), UninstallError> {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        ticks.tick().await;
        let (services, clusters) = (list(hub).await?, list(hub).await?);
        let works = karmada::works(hub, None).await?.unwrap_or_default();
        let carried = Carried::of(&services, &works);
        let left = part(Serving::of(&services, &clusters, &carried));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(UninstallError::NotCleaned {
                seconds: args.timeout.as_secs(),
                serving: left.to_string(),
                commands: left.surrender(),
            });
        }
        let now = left.to_string();
        if now != last {
            say::progress(format_args!(
                "waiting for the controller to clean up after {now}"
            ))?;
        }
        last = now;
    }
}

/// Deletes a definition, and waits until its objects are gone too.
async fn remove_definition(
    hub: &ApiServer,
    kind: Kind,
    args: &UninstallArgs,
) -> Result<(), UninstallError> {
    let definition = kind.definition()?;
    objects::remove(hub, &definition).await?;
    let name = definition.name_any();
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.client.clone());
    let deadline = Instant::now() + args.timeout;
    let gone = follow::one(definitions, &name, deadline, |found| {
        found.is_none().then_some(())
    });
    let seconds = args.timeout.as_secs();
    gone.await.map_err(|late| UninstallError::NotGone {
        name,
        seconds,
        late,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for (answer, expected) in [
            ("y\n", true),
            ("YES\n", true),
            ("yes", true),
            ("\n", false),
            ("", false),
            ("n\n", false),
            ("yesterday\n", false),
        ] {
            assert_eq!(
                agrees(&mut answer.as_bytes()).unwrap(),
                expected,
                "{answer:?}"
            );
        }
    }
}
