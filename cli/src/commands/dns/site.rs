//! Location of a cluster's CoreDNS, and the ConfigMaps behind its files. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, KeyToPath, PodSpec};
use kube::ResourceExt as _;

use super::corefile::{Corefile, Files};

/// Namespace of CoreDNS in every supported distribution.
pub(super) const NAMESPACE: &str = "kube-system";
/// Label of the cluster's DNS in every implementation.
const OF_DNS: (&str, &str) = ("k8s-app", "kube-dns");
const NAME: &str = "coredns";
/// Default path of the Corefile, relative to CoreDNS' working directory `/`.
const DEFAULT_PATH: &str = "/Corefile";

/// CoreDNS of a cluster.
#[derive(Clone, Debug)]
pub(super) struct CoreDns {
    /// Name of the Deployment.
    pub name: String,
    /// Name of the ServiceAccount.
    pub account: String,
    pub image: String,
    /// Available and desired replicas.
    pub available: (i32, i32),
    /// Labels of the pods.
    pub selector: BTreeMap<String, String>,
    /// Name of the container.
    pub container: String,
    /// Path of the Corefile.
    pub path: String,
    /// Names of the other Deployments that are CoreDNS.
    pub others: Vec<String>,
    mounts: Vec<Mount>,
}

/// Mounted path of the container.
#[derive(Clone, Debug)]
struct Mount {
    path: String,
    /// ConfigMap whose keys are the files of the path. `None` for any other volume.
    config_map: Option<String>,
    /// Keys with their files, if the volume selects keys.
    items: Vec<KeyToPath>,
}

/// Key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub config_map: String,
    pub key: String,
}

/// Corefile that is missing or cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Location of the Corefile, if a mounted ConfigMap has it.
    pub location: Option<Location>,
    pub why: String,
}

/// Existing ConfigMaps of CoreDNS, by name.
pub(super) type ConfigMaps = BTreeMap<String, ConfigMap>;

impl CoreDns {
    /// Finds the cluster's CoreDNS among the Deployments of [`NAMESPACE`], by label, else by name.
    pub(super) fn among(deployments: &[Deployment]) -> Option<Self> {
        let (labelled, others): (Vec<_>, Vec<_>) = deployments.iter().partition(|one| is_dns(one));
        let named = others.into_iter().filter(|one| one.name_any() == NAME);
        let mut all = labelled.into_iter().chain(named).filter_map(Self::of);
        let first = all.next()?;
        let others = all.map(|one| one.name).collect();
        Some(Self { others, ..first })
    }

    fn of(deployment: &Deployment) -> Option<Self> {
        let spec = deployment.spec.as_ref()?;
        let pod = spec.template.spec.as_ref()?;
        let container = pod.containers.iter().find(|one| is_coredns(one))?;
        let status = deployment.status.as_ref();
        let account = pod
            .service_account_name
            .as_ref()
            .or(pod.service_account.as_ref());
        let available = status.and_then(|status| status.available_replicas);
        Some(Self {
            name: deployment.name_any(),
            account: account.map_or("default", String::as_str).to_owned(),
            image: container.image.clone().unwrap_or_default(),
            available: (available.unwrap_or_default(), spec.replicas.unwrap_or(1)),
            selector: spec.selector.match_labels.clone().unwrap_or_default(),
            container: container.name.clone(),
            path: corefile_path(container),
            others: Vec::new(),
            mounts: mounts(pod, container),
        })
    }

    /// Returns the names of the mounted ConfigMaps.
    pub(super) fn config_maps(&self) -> BTreeSet<&str> {
        let mounts = self.mounts.iter();
        mounts
            .filter_map(|mount| mount.config_map.as_deref())
            .collect()
    }

    /// Returns the Corefile and its location.
    pub(super) fn corefile(&self, maps: &ConfigMaps) -> Result<(Location, Corefile), Unreadable> {
        let location = self
            .location()
            .filter(|location| text(maps, location).is_some());
        let Some(location) = location else {
            let path = &self.path;
            let why = format!("CoreDNS reads {path}, which is in no ConfigMap that it mounts");
            return Err(Unreadable {
                location: None,
                why,
            });
        };
        let whole = self.mounts.iter().filter(|mount| mount.items.is_empty());
        let directories = whole.filter_map(|mount| {
            let map = maps.get(mount.config_map.as_ref()?);
            Some((mount.path.clone(), self.files(&mount.path, map)))
        });
        let text = text(maps, &location).unwrap_or_default();
        match Corefile::read(text, &self.path, &directories.collect()) {
            Ok(corefile) => Ok((location, corefile)),
            Err(why) => Err(Unreadable {
                why: format!("ConfigMap {NAMESPACE}/{}: {why}", location.config_map),
                location: Some(location),
            }),
        }
    }

    fn location(&self) -> Option<Location> {
        let (directory, name) = self.path.rsplit_once('/')?;
        let is_covered = self.mounts.iter().any(|mount| mount.path == self.path);
        let mount = self.mount(directory).filter(|_| !is_covered)?;
        let item = mount.items.iter().find(|item| item.path == name);
        let key = match mount.items.is_empty() {
            true => name,
            false => &item?.key,
        };
        Some(Location {
            config_map: mount.config_map.clone()?,
            key: key.to_owned(),
        })
    }

    /// Returns the location of a new file with server blocks. `None` if the Corefile imports no
    /// server blocks.
    pub(super) fn import(&self, corefile: &Corefile) -> Option<Location> {
        let mut imports = corefile.imports.iter();
        let (pattern, _) = imports.find(|(_, has_servers)| *has_servers)?;
        let (directory, name) = pattern.rsplit_once('/')?;
        Some(Location {
            config_map: self.mount(directory)?.config_map.clone()?,
            key: name.replace('*', "clusterset"),
        })
    }

    fn mount(&self, path: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.path == path)
    }

    /// Returns the files of a directory: the keys of its ConfigMap, and the paths that are mounted
    /// over it.
    fn files(&self, path: &str, map: Option<&ConfigMap>) -> Files {
        let data = map.and_then(|map| map.data.clone()).unwrap_or_default();
        let keys = data.into_iter().map(|(key, text)| (key, Some(text)));
        let mounted = self.mounts.iter().filter_map(|other| {
            let rest = other.path.strip_prefix(path)?.strip_prefix('/')?;
            Some((rest.split('/').next()?.to_owned(), None))
        });
        keys.chain(mounted).collect()
    }
}

/// Returns the text of a key of a ConfigMap.
pub(super) fn text<'a>(maps: &'a ConfigMaps, location: &Location) -> Option<&'a str> {
    let data = maps.get(&location.config_map)?.data.as_ref()?;
    data.get(&location.key).map(String::as_str)
}

fn is_dns(deployment: &Deployment) -> bool {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let labels = template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    let label = labels.and_then(|labels| labels.get(OF_DNS.0));
    label.is_some_and(|value| value == OF_DNS.1)
}

fn is_coredns(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    container.name == NAME || last.contains(NAME)
}

/// Returns the argument of the flag `-conf`, or the default path.
fn corefile_path(container: &Container) -> String {
    let words = container.command.iter().flatten();
    let mut words = words.chain(container.args.iter().flatten());
    let is_flag = |word: &&String| matches!(word.as_str(), "-conf" | "--conf");
    let path = words.find(is_flag).and_then(|_| words.next());
    path.map_or(DEFAULT_PATH, String::as_str).to_owned()
}

/// Returns the mounted paths. Projected volumes and sub paths have no ConfigMap here: CoreDNS of no
/// distribution has any.
fn mounts(pod: &PodSpec, container: &Container) -> Vec<Mount> {
    let mounts = container.volume_mounts.iter().flatten().map(|mount| {
        let is_part = mount.sub_path.is_some() || mount.sub_path_expr.is_some();
        let mut volumes = pod.volumes.iter().flatten();
        let volume = volumes.find(|volume| volume.name == mount.name && !is_part);
        let source = volume.and_then(|volume| volume.config_map.clone());
        let source = source.map(|source| (source.name, source.items.unwrap_or_default()));
        let (config_map, items) = source.unzip();
        Mount {
            path: mount.mount_path.trim_end_matches('/').to_owned(),
            config_map,
            items: items.unwrap_or_default(),
        }
    });
    mounts.collect()
}
