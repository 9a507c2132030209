//! Where a cluster's CoreDNS is, and which of its files are in which ConfigMaps. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, KeyToPath, PodSpec, Volume, VolumeMount};
use kube::ResourceExt as _;

use super::corefile::{Corefile, CorefileError, Files};

/// Where CoreDNS is, in every distribution that this program knows.
pub(super) const NAMESPACE: &str = "kube-system";
/// The label of the cluster's DNS, whichever it is.
const OF_DNS: (&str, &str) = ("k8s-app", "kube-dns");
const NAME: &str = "coredns";
/// What CoreDNS reads where it is not said otherwise; relative to its working directory, the root.
const DEFAULT_PATH: &str = "/Corefile";

/// A cluster's CoreDNS.
#[derive(Clone, Debug)]
pub(super) struct CoreDns {
    /// The name of its Deployment.
    pub name: String,
    /// The name of its account.
    pub account: String,
    pub image: String,
    /// How many of its replicas are available, and how many there should be.
    pub available: (i32, i32),
    /// The labels of its pods.
    pub selector: BTreeMap<String, String>,
    /// The name of its container.
    pub container: String,
    /// Where its Corefile is.
    pub path: String,
    mounts: Vec<Mount>,
}

/// A ConfigMap that is mounted into CoreDNS.
#[derive(Clone, Debug)]
struct Mount {
    /// The path of the directory, or of the one file.
    path: String,
    config_map: String,
    /// The keys, where not all of them are files, and the name of each.
    items: Option<BTreeMap<String, String>>,
    /// The one file that is mounted.
    sub_path: Option<String>,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub config_map: String,
    pub key: String,
}

/// The ConfigMaps of CoreDNS by name, those that are there.
pub(super) type ConfigMaps = BTreeMap<String, ConfigMap>;

impl CoreDns {
    /// The cluster's CoreDNS among the Deployments of [`NAMESPACE`]: one with its label, else one of its name.
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

    /// The ConfigMaps that it mounts.
    pub(super) fn config_maps(&self) -> BTreeSet<&str> {
        self.mounts.iter().map(|mount| &*mount.config_map).collect()
    }

    /// Where the Corefile is stored; none where it is no file of a ConfigMap.
    pub(super) fn location(&self, maps: &ConfigMaps) -> Option<Location> {
        let all = self.mounts.iter();
        let mut all = all.flat_map(|mount| mount.files(maps.get(&mount.config_map)));
        all.find(|(path, _)| *path == self.path)
            .map(|(_, location)| location)
    }

    /// The files that it can import, by path; a directory ends with a slash.
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

    /// Reads its Corefile, and what that imports.
    pub(super) fn read(&self, text: &str, maps: &ConfigMaps) -> Result<Corefile, CorefileError> {
        Corefile::read(text, &self.path, &self.files(maps))
    }

    /// A key of a ConfigMap from which the Corefile imports server blocks, whatever the key's name: k3s and AKS have one.
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
    /// The files of it that there are, and the key of each.
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

/// What a key of a ConfigMap holds.
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

/// What follows the flag `-conf`.
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

/// The ConfigMaps of a volume; a projected one may have several.
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
