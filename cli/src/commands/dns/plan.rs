//! Plan of `--fix`: the writes into a member, or the reason for a refusal. Pure.
//!
//! CoreDNS with an unknown word in a new Corefile continues with the old one, and fails to start
//! after a restart. Only a replacement of its pods shows the failure. The plan therefore requires
//! proof that the image supports the new Corefile.

use causeway::api::labels;
use causeway::api::multicluster::Version;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

use super::corefile::{Corefile, CorefileError, ZONE, ZoneState, with_block};
use super::gather::{MemberDns, Server};
use super::image::Image;
use super::site::{ConfigMaps, CoreDns, Location, NAMESPACE, text};
use crate::args::Multicluster;
use crate::observe::installation::{Forbidden, Readable};

/// Writes of `--fix`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DnsPlan {
    /// Account that needs rights.
    pub grant: Option<String>,
    pub edit: Option<Edit>,
}

/// Change of one key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub location: Location,
    /// Resource version that the write requires. `None` to create the ConfigMap.
    pub resource_version: Option<String>,
    pub before: String,
    pub after: String,
}

/// Reason of a plan without writes.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Forbidden(#[from] Forbidden),
    #[error(
        "no Deployment in {NAMESPACE} is CoreDNS, so this program cannot set it up; docs/clusterset.md says what the zone needs"
    )]
    NoCoreDns,
    #[error(
        "the member does not serve ServiceImport as v1alpha1, which CoreDNS reads: with it in the Corefile CoreDNS would wait for it. First run \
         kubectl mcs join, or apply manifests/crds/member/ there"
    )]
    NoImports,
    #[error(
        "image {image} {why}, and CoreDNS does not start with a Corefile that has a word which it does not know. Bring CoreDNS 1.12.2 or later; \
         or, if the image has the option multicluster of the kubernetes plugin, give --image-has=option; if it is built with the plugin \
         coredns/multicluster, give --image-has=plugin"
    )]
    Image { image: String, why: &'static str },
    #[error("{why}. To serve the zone all the same, add what fits there:\n{block}")]
    Unreadable { why: Unreadable, block: String },
    #[error("{0}. If nobody needs that server block, delete it and run this again")]
    Taken(CorefileError),
    #[error(
        "ConfigMap {NAMESPACE}/{name} is kept by {owner}, which would undo a change of it. Add there, to key {key}:\n{block}"
    )]
    Kept {
        name: String,
        key: String,
        owner: String,
        block: String,
    },
}

/// Corefile that is missing or cannot be followed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("CoreDNS reads {0}, which is in no ConfigMap that it mounts")]
    NoConfigMap(String),
    #[error("the Corefile in ConfigMap {NAMESPACE}/{name} cannot be followed: {why}")]
    Corefile { name: String, why: CorefileError },
}

/// Returns the Corefile of a member and its location.
pub(super) fn corefile(
    site: &CoreDns,
    maps: &ConfigMaps,
) -> Result<(Location, Corefile), Unreadable> {
    let location = site.location(maps);
    let location = location.ok_or_else(|| Unreadable::NoConfigMap(site.path.clone()))?;
    let held = text(maps.get(&location.config_map), &location.key);
    match site.read(held.unwrap_or_default(), maps) {
        Ok(corefile) => Ok((location, corefile)),
        Err(why) => Err(Unreadable::Corefile {
            name: location.config_map,
            why,
        }),
    }
}

/// Plans the writes. `given` is the form that the user states for the image.
///
/// # Errors
/// [`Refusal`] names the reason and the remedy.
pub(super) fn plan(member: &MemberDns, given: Option<Multicluster>) -> Result<DnsPlan, Refusal> {
    let server = known(&member.coredns)?.as_ref().ok_or(Refusal::NoCoreDns)?;
    let maps = known(&server.maps)?;
    let missing = known(&server.missing_rights)?;
    let grant = (!missing.is_empty()).then(|| server.site.account.clone());
    let by_hand = given.unwrap_or(Multicluster::Option);
    let (location, corefile) = corefile(&server.site, maps).map_err(|why| Refusal::Unreadable {
        why,
        block: block_by_hand(by_hand),
    })?;
    if matches!(corefile.answer(), ZoneState::Served(..)) {
        return Ok(DnsPlan { grant, edit: None });
    }
    if !known(&member.imports)?.contains(&Version::V1alpha1) {
        return Err(Refusal::NoImports);
    }
    let form = form(&server.site.image, given)?;
    let edit = edit(server, maps, location, &corefile, form)?;
    Ok(DnsPlan {
        grant,
        edit: Some(edit),
    })
}

fn known<T>(read: &Readable<T>) -> Result<&T, Refusal> {
    read.as_ref().map_err(|why| Refusal::Forbidden(why.clone()))
}

fn form(image: &str, given: Option<Multicluster>) -> Result<Multicluster, Refusal> {
    let found = Image::of(image);
    found.form(given).ok_or_else(|| Refusal::Image {
        image: image.to_owned(),
        why: match found {
            Image::Lacks(_) => "is older than CoreDNS 1.12.2",
            _ => "has no tag that shows the version of CoreDNS",
        },
    })
}

fn edit(
    server: &Server,
    maps: &ConfigMaps,
    location: Location,
    corefile: &Corefile,
    form: Multicluster,
) -> Result<Edit, Refusal> {
    let site = &server.site;
    let failed = |location: &Location, why: CorefileError| match why {
        CorefileError::Taken { .. } => Refusal::Taken(why),
        why => Refusal::Unreadable {
            why: Unreadable::Corefile {
                name: location.config_map.clone(),
                why,
            },
            block: block_by_hand(form),
        },
    };
    // A separate imported file belongs to nobody else, so the plan prefers it to the Corefile.
    let import = site.import(corefile);
    let import = import.filter(|_| corefile.answer() == ZoneState::Nothing);
    let (location, after) = match import {
        Some(import) => {
            let block = corefile.block(form).map_err(|why| failed(&location, why))?;
            let held = text(maps.get(&import.config_map), &import.key);
            let after = with_block(held.unwrap_or_default(), &block);
            if !serves(site, maps, &location, &import, &after) {
                let keys = import.key;
                let why = CorefileError::Incomplete { zone: ZONE, keys };
                return Err(failed(&location, why));
            }
            (import, after)
        }
        None => {
            let held = text(maps.get(&location.config_map), &location.key);
            let held = held.unwrap_or_default();
            let completed = corefile.completed(held, &site.path, &site.files(maps), form);
            let completed = completed.map_err(|why| failed(&location, why))?;
            (location, completed.unwrap_or_else(|| held.to_owned()))
        }
    };
    let map = maps.get(&location.config_map);
    if let Some(owner) = map.and_then(owner_of) {
        return Err(Refusal::Kept {
            name: location.config_map,
            key: location.key,
            owner,
            block: corefile.block(form).unwrap_or_else(|_| block_by_hand(form)),
        });
    }
    Ok(Edit {
        resource_version: map.and_then(|map| map.resource_version()),
        before: text(map, &location.key).unwrap_or_default().to_owned(),
        location,
        after,
    })
}

/// Whether the Corefile serves the zone once the key `import` has the text `after`.
fn serves(
    site: &CoreDns,
    maps: &ConfigMaps,
    corefile: &Location,
    import: &Location,
    after: &str,
) -> bool {
    let mut maps = maps.clone();
    let map = maps.entry(import.config_map.clone()).or_default();
    let data = map.data.get_or_insert_default();
    data.insert(import.key.clone(), after.to_owned());
    let held = text(maps.get(&corefile.config_map), &corefile.key);
    let read = site.read(held.unwrap_or_default(), &maps);
    read.is_ok_and(|read| matches!(read.answer(), ZoneState::Served(..)))
}

/// Returns a server block for a Corefile that cannot be parsed.
fn block_by_hand(form: Multicluster) -> String {
    let plugin = match form {
        Multicluster::Option => {
            format!("    kubernetes {ZONE} {{\n        multicluster {ZONE}\n    }}\n")
        }
        Multicluster::Plugin => format!("    multicluster {ZONE}\n"),
    };
    format!("{ZONE}:53 {{\n    errors\n{plugin}}}")
}

/// Returns the program that overwrites a ConfigMap, as far as labels, annotations and managed
/// fields show it.
fn owner_of(map: &ConfigMap) -> Option<String> {
    let label = |name: &str| map.labels().get(name).map(String::as_str);
    let annotation = |name: &str| map.annotations().get(name).map(String::as_str);
    if let Some(release) = annotation(labels::HELM_RELEASE) {
        return Some(format!("Helm (release {release})"));
    }
    let of_eks = || {
        let mut entries = map.metadata.managed_fields.iter().flatten();
        entries.any(|entry| {
            let fields = entry.fields_v1.as_ref();
            entry.manager.as_deref() == Some("eks")
                && fields.is_some_and(|fields| fields.0.get("f:data").is_some())
        })
    };
    let k3s = |name: &String| name.starts_with("objectset.rio.cattle.io/");
    let marks = [
        (label(labels::MANAGED_BY) == Some(labels::HELM), "Helm"),
        (
            label("addonmanager.kubernetes.io/mode") == Some("Reconcile"),
            "the cluster's addon manager",
        ),
        (map.labels().keys().any(k3s), "k3s"),
        (
            label("argocd.argoproj.io/instance").is_some()
                || annotation("argocd.argoproj.io/tracking-id").is_some(),
            "Argo CD",
        ),
        (label("kustomize.toolkit.fluxcd.io/name").is_some(), "Flux"),
        (of_eks(), "the EKS add-on"),
    ];
    let mut marks = marks.into_iter();
    marks.find_map(|(is_there, owner)| is_there.then(|| owner.to_owned()))
}
