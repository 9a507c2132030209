//! Location of a cluster's CoreDNS, and the ConfigMaps behind its files. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, KeyToPath, PodSpec, Volume, VolumeMount};
use kube::ResourceExt as _;

use super::corefile::{Corefile, CorefileError, Files};

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
    mounts: Vec<Mount>,
}

/// ConfigMap that is mounted into CoreDNS.
#[derive(Clone, Debug)]
struct Mount {
    /// Path of the directory, or of the single file.
    path: String,
    config_map: String,
    /// File names by key, if the volume selects keys.
    items: Option<BTreeMap<String, String>>,
    /// Single file that is mounted.
    sub_path: Option<String>,
}

/// Key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub config_map: String,
    pub key: String,
}

/// Existing ConfigMaps of CoreDNS, by name.
pub(super) type ConfigMaps = BTreeMap<String, ConfigMap>;

impl CoreDns {
    /// Finds the cluster's CoreDNS among the Deployments of [`NAMESPACE`], by label, else by name.
    pub(super) fn among(deployments: &[Deployment]) -> Option<Self> {
        let labelled = deployments.iter().filter(|one| is_dns(one));
        let named = deployments.iter().filter(|one| one.name_any() == NAME);
        labelled.chain(named).find_map(Self::of)
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
            mounts: mounts(pod, container),
        })
    }

    /// Returns the names of the mounted ConfigMaps.
    pub(super) fn config_maps(&self) -> BTreeSet<&str> {
        self.mounts.iter().map(|mount| &*mount.config_map).collect()
    }

    /// Returns the location of the Corefile. `None` if no ConfigMap contains it.
    pub(super) fn location(&self, maps: &ConfigMaps) -> Option<Location> {
        let all = self.mounts.iter();
        let mut all = all.flat_map(|mount| mount.files(maps.get(&mount.config_map)));
        all.find(|(path, _)| *path == self.path)
            .map(|(_, location)| location)
    }

    /// Returns the files that the Corefile can import, by path. The path of a directory ends with
    /// `/`.
    pub(super) fn files(&self, maps: &ConfigMaps) -> Files {
        let mut files = Files::new();
        for mount in &self.mounts {
            let map = maps.get(&mount.config_map);
            if mount.sub_path.is_none() {
                files.insert(format!("{}/", mount.path), String::new());
            }
            for (path, location) in mount.files(map) {
                files.insert(
                    path,
                    text(map, &location.key).unwrap_or_default().to_owned(),
                );
            }
        }
        files
    }

    /// Parses `text` as the Corefile, with its imports.
    pub(super) fn read(&self, text: &str, maps: &ConfigMaps) -> Result<Corefile, CorefileError> {
        Corefile::read(text, &self.path, &self.files(maps))
    }

    /// Returns a key of a ConfigMap from which the Corefile imports server blocks under any name.
    /// k3s and AKS mount such a ConfigMap.
    pub(super) fn import(&self, corefile: &Corefile) -> Option<Location> {
        corefile.imports.iter().find_map(|pattern| {
            let (directory, name) = pattern.rsplit_once('/')?;
            let (before, after) = name.split_once('*')?;
            let whole = |mount: &&Mount| {
                mount.path == directory && mount.items.is_none() && mount.sub_path.is_none()
            };
            let mount = self.mounts.iter().find(whole)?;
            Some(Location {
                config_map: mount.config_map.clone(),
                key: format!("{before}clusterset{after}"),
            })
        })
    }
}

impl Mount {
    /// Returns the paths of existing files and the location of each.
    fn files(&self, map: Option<&ConfigMap>) -> Vec<(String, Location)> {
        let keys = map.and_then(|map| map.data.as_ref()).into_iter().flatten();
        let named = keys.filter_map(|(key, _)| {
            let name = match &self.items {
                None => key,
                Some(items) => items.get(key)?,
            };
            let path = match &self.sub_path {
                None => format!("{}/{name}", self.path),
                Some(one) => (one == name).then(|| self.path.clone())?,
            };
            let config_map = self.config_map.clone();
            Some((
                path,
                Location {
                    config_map,
                    key: key.clone(),
                },
            ))
        });
        named.collect()
    }
}

/// Returns the text of a key of a ConfigMap.
pub(super) fn text<'a>(map: Option<&'a ConfigMap>, key: &str) -> Option<&'a str> {
    map?.data.as_ref()?.get(key).map(String::as_str)
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
    let mut path = None;
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix('-') else {
            continue;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        match flag.split_once('=') {
            Some(("conf", value)) => path = Some(value.to_owned()),
            None if flag == "conf" => path = words.next().cloned(),
            _ => {}
        }
    }
    match path {
        Some(path) if path.starts_with('/') => path,
        Some(path) => format!("/{path}"),
        None => DEFAULT_PATH.to_owned(),
    }
}

fn mounts(pod: &PodSpec, container: &Container) -> Vec<Mount> {
    let volumes: BTreeMap<_, _> = pod
        .volumes
        .iter()
        .flatten()
        .map(|one| (&one.name, one))
        .collect();
    let mounted = container.volume_mounts.iter().flatten();
    mounted
        .filter_map(|mount| Some((mount, *volumes.get(&mount.name)?)))
        .flat_map(|(mount, volume)| of_volume(mount, volume))
        .collect()
}

/// Returns the ConfigMaps of a volume. A projected volume may have several.
fn of_volume(mount: &VolumeMount, volume: &Volume) -> Vec<Mount> {
    let one = |name: &String, items: &Option<Vec<KeyToPath>>| Mount {
        path: mount.mount_path.trim_end_matches('/').to_owned(),
        config_map: name.clone(),
        items: items.as_ref().filter(|all| !all.is_empty()).map(|all| {
            let named = all.iter().map(|item| (item.key.clone(), item.path.clone()));
            named.collect()
        }),
        sub_path: mount.sub_path.clone().filter(|path| !path.is_empty()),
    };
    let own = volume
        .config_map
        .iter()
        .map(|source| one(&source.name, &source.items));
    let projected = volume
        .projected
        .iter()
        .flat_map(|volume| volume.sources.iter().flatten());
    let projected = projected.filter_map(|source| source.config_map.as_ref());
    own.chain(projected.map(|source| one(&source.name, &source.items)))
        .collect()
}
