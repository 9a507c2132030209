//! Plan of `--fix`: the writes into a member, or the reason for a refusal. Pure.
//!
//! CoreDNS with an unknown word in a new Corefile continues with the old one, and fails to start
//! after a restart. Only a replacement of its pods shows the failure. The plan therefore requires
//! proof that the image supports the new Corefile.
//!
//! The plan changes a Corefile only if its place is unambiguous: one CoreDNS, one key of one
//! ConfigMap without imports, no owner that would undo the change. The user gets every other change
//! as text, with its place.

use causeway::api::labels;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

use super::corefile::{Corefile, ZONE, ZoneState, block_by_hand};
use super::diagnosis;
use super::gather::MemberDns;
use super::site::{ConfigMaps, CoreDns, Location, NAMESPACE, Unreadable, text};
use crate::args::Multicluster;
use crate::views::check::{Check, State};

/// Changes that the zone needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DnsPlan {
    /// Account that needs rights.
    pub grant: Option<String>,
    pub zone: ZoneChange,
}

/// Change of the Corefile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ZoneChange {
    /// The Corefile serves the zone.
    #[default]
    None,
    Edit(Edit),
    ByHand(Box<ByHand>),
}

/// Change of one key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub location: Location,
    /// Resource version that the write requires.
    pub resource_version: Option<String>,
    pub before: String,
    pub after: String,
}

/// Change of the Corefile that the command leaves to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByHand {
    /// Reason for a change by hand.
    pub why: String,
    /// Position, ConfigMap and command, as far as they are known.
    pub place: String,
    /// Text that belongs there.
    pub text: String,
}

/// Plans the writes. `given` is the form that the user states for the image.
///
/// # Errors
/// The check that prevents the plan.
pub(super) fn plan(
    member: &MemberDns,
    fix: &str,
    given: Option<Multicluster>,
) -> Result<DnsPlan, Check> {
    let server = diagnosis::server(member)?;
    let maps = diagnosis::maps(server)?;
    let missing = diagnosis::missing_rights(server)?;
    let grant = (!missing.is_empty()).then(|| server.site.account.clone());
    let found = server.site.corefile(maps);
    let answer = found.as_ref().ok().map(|(_, corefile)| corefile.answer());
    let taken = match &answer {
        Some(ZoneState::Served(..)) => {
            let zone = ZoneChange::None;
            return Ok(DnsPlan { grant, zone });
        }
        Some(taken @ ZoneState::Other(_)) => Some(diagnosis::zone(taken, fix)),
        _ => None,
    };
    let imports = diagnosis::imports(&member.imports);
    let needed = [imports, diagnosis::image(server, given, None)];
    let mut checks = taken.into_iter().chain(needed);
    if let Some(check) = checks.find(|check| check.state != State::Healthy) {
        return Err(check);
    }
    let zone = change(
        &server.site,
        maps,
        found,
        given.unwrap_or(Multicluster::Option),
    );
    Ok(DnsPlan { grant, zone })
}

/// Returns the change of a Corefile that does not serve the zone.
fn change(
    site: &CoreDns,
    maps: &ConfigMaps,
    found: Result<(Location, Corefile), Unreadable>,
    form: Multicluster,
) -> ZoneChange {
    let by_hand = |why: String, place: String, text: String| {
        ZoneChange::ByHand(Box::new(ByHand { why, place, text }))
    };
    let (location, corefile) = match found {
        Ok(found) => found,
        Err(Unreadable { location, why }) => {
            let path = format!("the end of {}", site.path);
            let place = location.map_or(path, |location| at("the end of ", maps, &location));
            return by_hand(why, place, block_by_hand(form));
        }
    };
    if let ZoneState::WithoutOption(keys) = corefile.answer() {
        let position = match form {
            Multicluster::Option => format!("plugin kubernetes of server block {keys} in "),
            Multicluster::Plugin => {
                format!("server block {keys}, without {ZONE} at its plugin kubernetes, in ")
            }
        };
        let why = format!("its plugin kubernetes has zone {ZONE} already");
        let place = at(&position, maps, &location);
        return by_hand(why, place, format!("multicluster {ZONE}\n"));
    }
    let (position, location) = match site.import(&corefile) {
        Some(import) => ("", import),
        None => ("the end of ", location),
    };
    let place = at(position, maps, &location);
    let block = match corefile.block(form) {
        Ok(block) => block,
        Err(why) => return by_hand(why.to_string(), place, block_by_hand(form)),
    };
    let map = maps.get(&location.config_map);
    let before = text(maps, &location).unwrap_or_default();
    if let Some(why) = ambiguity(site, map, &corefile, before) {
        return by_hand(why, place, block);
    }
    let newline = match before.ends_with('\n') {
        true => "",
        false => "\n",
    };
    ZoneChange::Edit(Edit {
        resource_version: map.and_then(|map| map.resource_version()),
        before: before.to_owned(),
        after: format!("{before}{newline}{block}"),
        location,
    })
}

/// Returns the reason that the command does not edit a Corefile, if there is one.
fn ambiguity(
    site: &CoreDns,
    map: Option<&ConfigMap>,
    corefile: &Corefile,
    text: &str,
) -> Option<String> {
    if !site.others.is_empty() {
        let others = site.others.join(", ");
        Some(format!("{} is CoreDNS, and {others} too", site.name))
    } else if let Some(owner) = map.and_then(owner_of) {
        Some(format!("{owner} keeps it, and would undo a change"))
    } else if !corefile.imports.is_empty() {
        Some("it imports files".to_owned())
    } else if text.to_ascii_lowercase().contains(ZONE) {
        Some(format!("it mentions {ZONE} already"))
    } else {
        None
    }
}

/// Returns a position in a key of a ConfigMap, and the command that changes the key.
fn at(position: &str, maps: &ConfigMaps, location: &Location) -> String {
    let Location { config_map, key } = location;
    let how = match maps.get(config_map).map(owner_of) {
        Some(Some(owner)) => format!("in the configuration of {owner}"),
        Some(None) => format!("kubectl -n {NAMESPACE} edit configmap {config_map}"),
        None => {
            format!("kubectl -n {NAMESPACE} create configmap {config_map} --from-file={key}=FILE")
        }
    };
    format!("{position}key {key} of ConfigMap {NAMESPACE}/{config_map} ({how})")
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
