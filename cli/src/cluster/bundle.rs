//! Manifests of a hub, embedded at build time, and the selection of objects to apply. Pure.

pub(crate) mod parts;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::api::labels;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use self::parts::{ImageArgs, MissingService, PartArgs};
use crate::cluster::objects::{self, CONTAINERS, ObjectError, preview};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority::{AUTHORITY_SECRET, ENROLMENT_SECRET, UPGRADE, named};
use crate::cluster::tunnel::{
    CONTROLLER_SECRET, CONTROLLER_TLS_DIR, CONTROLLER_TLS_FLAG, FRONT_FLAG, SERVER_SECRET,
};

const RBAC: &str = include_str!("../../../manifests/hub/rbac.yaml");
const WORKLOADS: &str = include_str!("../../../manifests/hub/workloads.yaml");
const BY_SERVICE: &str = include_str!("../../../manifests/hub/webhook-by-service.yaml");
const BY_URL: &str = include_str!("../../../manifests/hub/options/webhook-by-url.yaml");
const TOKENS: &str = include_str!("../../../manifests/hub/options/tokens.yaml");
const KARMADA: &str = include_str!("../../../manifests/hub/options/karmada.yaml");
const CLUSTER_PROFILES: &str = include_str!("../../../manifests/hub/options/cluster-profiles.yaml");
const TUNNEL: &str = include_str!("../../../manifests/hub/options/tunnel.yaml");
/// Beside [`TUNNEL`]: its Deployment takes the place of the one there.
const TUNNEL_UPGRADE: &str =
    include_str!("../../../manifests/hub/options/tunnel-through-api-server.yaml");
const TUNNEL_ENROLMENT: &str = include_str!("../../../manifests/hub/options/tunnel-enrolment.yaml");
const TUNNEL_CLIENTS: &str = include_str!("../../../manifests/hub/options/tunnel-clients.yaml");
const CERT_MANAGER: &str = include_str!("../../../manifests/hub/options/cert-manager.yaml");
const CERT_MANAGER_PATCH: &str =
    include_str!("../../../manifests/hub/options/cert-manager.patch.yaml");

/// Secrets of the tunnel.
const TUNNEL_SECRETS: [&str; 4] = [
    SERVER_SECRET,
    CONTROLLER_SECRET,
    AUTHORITY_SECRET,
    ENROLMENT_SECRET,
];

/// Secret with the key by which the controller recognizes its entries on exports. Without the key
/// exports are in the order of their creation.
const SEAL_SECRET: &str = "causeway-export-seal";

/// Placeholders in options/webhook-by-url.yaml for the webhook's URL and CA bundle.
const URL: &str = "WEBHOOK_URL";
const AUTHORITY: &str = "CA_BUNDLE";

/// Annotation that the manifests' comments recommend for hubs with cert-manager.
const INJECT: (&str, &str) = (
    "cert-manager.io/inject-ca-from",
    "causeway-system/causeway-webhook",
);
/// Controller flag that allows reading the credentials that Karmada stores.
pub(crate) const KARMADA_SECRETS: &str = "--secret-namespace=karmada-cluster";

/// Component label of the objects with which the webhook manages its own certificates.
const CERTIFICATES: &str = "webhook-certificates";

/// Deployments of a hub that runs causeway itself.
pub(crate) const DEPLOYMENTS: [&str; 2] = ["causeway-webhook", "causeway-controller"];

/// Whether a stored Deployment has the front of a tunnel that the chosen one leaves out. A
/// controller that is not stored counts as one with the front: `uninstall --keep-services` deletes
/// it.
pub(crate) fn loses_tunnel(stored: Option<&DynamicObject>, chosen: &DynamicObject) -> bool {
    let has_front = |object| preview::arguments(object).any(|arg| arg == FRONT_FLAG);
    let had_front = match stored {
        Some(stored) => has_front(stored),
        None => is_named(chosen, "causeway-controller"),
    };
    had_front && !has_front(chosen)
}

/// Returns the objects to apply to a hub besides the definitions and the Secrets of the tunnel, in
/// order: RBAC, workloads, and the webhook registration last.
pub(crate) fn chosen(
    parts: &PartArgs,
    images: &ImageArgs,
    authority: Option<&str>,
) -> Result<Vec<DynamicObject>, ObjectError> {
    if parts.crds_only || parts.secrets_only {
        return Ok(Vec::new());
    }
    let mut chosen = objects::parse(RBAC)?;
    let superseded = superseded(parts)?;
    chosen.retain(|object| !superseded.contains(object));
    if parts.karmada {
        chosen.extend(objects::parse(KARMADA)?);
    }
    if parts.external {
        chosen.extend(objects::parse(TOKENS)?);
        if parts.enrolment {
            let account = objects::parse(TUNNEL_ENROLMENT)?.into_iter();
            chosen.extend(account.filter(|one| !is_for_pods(one)));
        }
    } else {
        if parts.cert_manager {
            chosen.extend(objects::parse(CERT_MANAGER)?);
        }
        chosen.extend(workloads(parts, images)?);
    }
    chosen.extend(registration(parts, authority)?);
    Ok(chosen)
}

/// Returns the objects of [`RBAC`] that these parts do not need. If the user provides the caBundle,
/// the webhook gets no right to change webhook configurations, and no Secret.
pub(crate) fn superseded(parts: &PartArgs) -> Result<Vec<DynamicObject>, ObjectError> {
    let is_certified = parts.cert_manager || parts.webhook_ca.is_some();
    selected(RBAC, |object| is_certified && is_of_certificates(object))
}

/// Whether an object is needed only by webhooks that manage their own certificates.
pub(crate) fn is_of_certificates(object: &DynamicObject) -> bool {
    let labels = object.metadata.labels.as_ref();
    let component = labels.and_then(|labels| labels.get("app.kubernetes.io/component"));
    component.is_some_and(|component| component == CERTIFICATES)
}

fn workloads(parts: &PartArgs, images: &ImageArgs) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut workloads = objects::parse(WORKLOADS)?;
    if let Some(address) = &parts.tunnel {
        workloads.extend(tunnel(address, parts)?);
    }
    for deployment in workloads.iter_mut().filter(|one| is_deployment(one)) {
        let [webhook, controller] = DEPLOYMENTS.map(|name| is_named(deployment, name));
        if parts.cert_manager && webhook {
            overlay(
                &mut deployment.data,
                serde_saphyr::from_str(CERT_MANAGER_PATCH)?,
            );
        }
        let karmada = (parts.karmada && controller).then_some(KARMADA_SECRETS);
        let missing = parts.missing_service.filter(|_| webhook).map(flag);
        let front = parts.tunnel.as_ref().filter(|_| controller);
        let [front, tls] = [FRONT_FLAG, CONTROLLER_TLS_FLAG].map(|flag| front.map(|_| flag));
        if front.is_some() {
            overlay(&mut deployment.data, certificate_for_agents());
        }
        let flags = [karmada, missing, front, tls].into_iter().flatten();
        for container in containers(deployment) {
            if let Some(Value::Array(args)) = container.get_mut("args") {
                args.extend(flags.clone().map(Value::from));
            }
        }
        let (registry, tag) = (images.registry.as_deref(), images.image_tag.as_deref());
        place(deployment, registry, tag);
    }
    Ok(workloads)
}

/// Returns what the controller needs beside its manifest to receive tokens from agents.
fn certificate_for_agents() -> Value {
    let mount = json!({ "name": "tunnel", "mountPath": CONTROLLER_TLS_DIR, "readOnly": true });
    let secret = json!({ "secretName": CONTROLLER_SECRET, "defaultMode": 0o440, "optional": true });
    json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "controller", "volumeMounts": [mount] }],
        "volumes": [{ "name": "tunnel", "secret": secret }],
    } } } })
}

/// Whether an object is of no use to programs that run outside the hub.
fn is_for_pods(object: &DynamicObject) -> bool {
    is_deployment(object) || objects::is_a(object, "NetworkPolicy")
}

/// Returns causeway-tunnel with its Services, whose port for agents is that of the address.
fn tunnel(address: &TunnelAddress, parts: &PartArgs) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut tunnel = objects::parse(TUNNEL)?;
    // Enrolment comes last: its account is mounted, and that of the others is not.
    for (is_chosen, option) in [
        (parts.through_api_server, TUNNEL_UPGRADE),
        (parts.enrolment, TUNNEL_ENROLMENT),
    ] {
        if is_chosen {
            tunnel = with_option(tunnel, objects::parse(option)?);
        }
    }
    let ports = tunnel
        .iter_mut()
        .filter_map(|object| object.data.pointer_mut("/spec/ports/0"));
    for port in ports.filter(|port| port["name"] == "agents") {
        port["port"] = json!(address.port);
    }
    Ok(tunnel)
}

/// Adds an option, whose objects come first. They replace those that are there, and keep what other
/// options added to these.
fn with_option(mut there: Vec<DynamicObject>, option: Vec<DynamicObject>) -> Vec<DynamicObject> {
    let mut all = Vec::new();
    for mut object in option {
        if let Some(place) = there.iter().position(|one| id(one) == id(&object)) {
            complete(&mut object.data, there.remove(place).data);
        }
        all.push(object);
    }
    all.extend(there);
    all
}

/// Returns what tells an object from others of an installation.
fn id(object: &DynamicObject) -> (String, Option<String>) {
    (objects::title(object), object.metadata.namespace.clone())
}

/// Whether `uninstall --keep-services` leaves an object: the Secret of the seal, a Secret of the
/// tunnel, or the account of one. Agents in members trust the authority of the tunnel, and have the
/// token of that account.
pub(crate) fn is_kept_with_services(object: &DynamicObject) -> bool {
    let is_secret = objects::is_a(object, "Secret") || objects::is_a(object, "ServiceAccount");
    let mut names = TUNNEL_SECRETS.iter().chain([&UPGRADE, &SEAL_SECRET]);
    is_secret && names.any(|name| is_named(object, name))
}

fn flag(missing: MissingService) -> &'static str {
    match missing {
        MissingService::Deny => "--missing-service=deny",
        MissingService::Warn => "--missing-service=warn",
    }
}

fn registration(
    parts: &PartArgs,
    authority: Option<&str>,
) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut registration = match (&parts.webhook_url, parts.external) {
        (Some(url), _) => by_url(url, authority)?,
        (None, true) => Vec::new(),
        (None, false) => objects::parse(BY_SERVICE)?,
    };
    if parts.cert_manager {
        for configuration in &mut registration {
            let annotations = configuration.metadata.annotations.get_or_insert_default();
            annotations.insert(INJECT.0.to_owned(), INJECT.1.to_owned());
        }
    }
    Ok(registration)
}

/// Returns the registration of the webhook by URL. Without an authority, the webhook publishes its
/// own caBundle.
fn by_url(url: &str, authority: Option<&str>) -> Result<Vec<DynamicObject>, ObjectError> {
    let bundle = authority.map(|pem| STANDARD.encode(pem));
    let manifest = BY_URL.replace(AUTHORITY, bundle.as_deref().unwrap_or("null"));
    let mut registration = objects::parse(&manifest)?;
    for configuration in &mut registration {
        let webhooks = configuration.data.pointer_mut("/webhooks");
        let webhooks = webhooks.and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            let Some(Value::Object(client)) = webhook.get_mut("clientConfig") else {
                continue;
            };
            client.retain(|_, value| !value.is_null());
            if let Some(Value::String(address)) = client.get_mut("url") {
                *address = address.replace(URL, url);
            }
        }
    }
    Ok(registration)
}

/// Returns all objects that a hub may hold besides the definitions and the namespace, in order of
/// deletion.
///
/// The registration of the webhook comes first, then workloads, then RBAC. Objects that the
/// programs write themselves come last, because a running program would recreate them.
pub(crate) fn everything() -> Result<Vec<DynamicObject>, ObjectError> {
    let mut all = objects::parse(BY_SERVICE)?;
    let manifests = [
        WORKLOADS,
        TUNNEL,
        TUNNEL_UPGRADE,
        TUNNEL_CLIENTS,
        CERT_MANAGER,
        TOKENS,
        KARMADA,
        CLUSTER_PROFILES,
        TUNNEL_ENROLMENT,
        RBAC,
    ];
    for manifest in manifests {
        all.extend(objects::parse(manifest)?.into_iter().rev());
    }
    // Several manifests have the Deployment of the tunnel.
    let mut seen = BTreeSet::new();
    all.retain(|object| !objects::is_a(object, "Namespace") && seen.insert(id(object)));
    // Without data: they identify the stored Secrets.
    for name in TUNNEL_SECRETS {
        all.push(named(name, BTreeMap::new())?);
    }
    all.push(objects::object(json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": "causeway-controller", "namespace": DEFAULT_NAMESPACE },
    }))?);
    Ok(all)
}

/// Returns the objects of a manifest that are selected.
fn selected(
    manifest: &str,
    is_selected: impl FnMut(&DynamicObject) -> bool,
) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut objects = objects::parse(manifest)?;
    objects.retain(is_selected);
    Ok(objects)
}

/// Returns the objects of [`RBAC`] without the namespaces. Every installation has them, and
/// `uninstall` deletes them.
pub(crate) fn rights() -> Result<Vec<DynamicObject>, ObjectError> {
    selected(RBAC, |object| !objects::is_a(object, "Namespace"))
}

/// Returns the ClusterRole that allows the controller to read Karmada's Works.
pub(crate) fn karmada_role() -> Result<Vec<DynamicObject>, ObjectError> {
    selected(KARMADA, |object| objects::is_a(object, "ClusterRole"))
}

/// Namespace of ClusterProfiles in the manifests. Users choose their own.
pub(crate) const PROFILE_NAMESPACE: &str = "cluster-inventory";

/// Returns the roles that allow the controller to create Clusters from the ClusterProfiles of
/// [`PROFILE_NAMESPACE`].
pub(crate) fn profile_roles() -> Result<Vec<DynamicObject>, ObjectError> {
    let kinds = ["ClusterRole", "Role"];
    selected(CLUSTER_PROFILES, |object| {
        kinds.iter().any(|kind| objects::is_a(object, kind))
    })
}

/// Whether a stored object with a name from the manifests belongs to causeway. The Lease has no
/// labels and always counts.
pub(crate) fn is_managed(stored: &DynamicObject) -> bool {
    let all = stored.metadata.labels.as_ref();
    let named = all.and_then(|all| all.get(labels::NAME));
    named.is_some_and(|name| name == labels::MANAGER) || objects::is_a(stored, "Lease")
}

pub(crate) fn is_deployment(object: &DynamicObject) -> bool {
    objects::is_a(object, "Deployment")
}

/// Sets the registry and the tag of a Deployment's images.
pub(crate) fn place(deployment: &mut DynamicObject, registry: Option<&str>, tag: Option<&str>) {
    for container in containers(deployment) {
        if let Some(Value::String(image)) = container.get_mut("image") {
            let parsed = Image::parse(image);
            let registry = registry.unwrap_or(parsed.registry);
            let tag = tag.unwrap_or(parsed.tag);
            *image = format!("{registry}/{}:{tag}", parsed.name);
        }
    }
}

/// Returns the registry of a stored Deployment's image, if the image is named like the Deployment.
pub(crate) fn registry(deployment: &DynamicObject) -> Option<&str> {
    own_image(deployment).map(|image| image.registry)
}

/// Returns the registry of a stored Deployment's image with the given name.
pub(crate) fn registry_of<'a>(deployment: &'a DynamicObject, name: &str) -> Option<&'a str> {
    image_of(deployment, name).map(|image| image.registry)
}

/// Returns the tag of a stored Deployment's image, if the image is named like the Deployment.
pub(crate) fn deployed_tag(deployment: &DynamicObject) -> Option<&str> {
    own_image(deployment)?.tag()
}

/// Returns the image of a stored Deployment that is named like the Deployment.
fn own_image(deployment: &DynamicObject) -> Option<Image<'_>> {
    image_of(deployment, deployment.metadata.name.as_deref()?)
}

fn image_of<'a>(deployment: &'a DynamicObject, name: &str) -> Option<Image<'a>> {
    let containers = deployment.data.pointer(CONTAINERS)?.as_array()?.iter();
    let images = containers.filter_map(|container| container.get("image")?.as_str());
    images.map(Image::parse).find(|image| image.name == name)
}

/// Returns the Deployments of a hub that runs causeway itself.
pub(crate) fn deployments() -> Result<Vec<DynamicObject>, ObjectError> {
    selected(WORKLOADS, is_deployment)
}

fn is_named(object: &DynamicObject, name: &str) -> bool {
    object.metadata.name.as_deref() == Some(name)
}

/// Returns the containers of a Deployment.
pub(crate) fn containers(deployment: &mut DynamicObject) -> impl Iterator<Item = &mut Value> {
    let containers = deployment.data.pointer_mut(CONTAINERS);
    let containers = containers.and_then(Value::as_array_mut);
    containers.into_iter().flatten()
}

/// Returns the tag of an image, if the image has one.
pub(crate) fn tag(image: &str) -> Option<&str> {
    Image::parse(image).tag()
}

/// Parts of an image reference: `registry/name:tag`, `registry/name@digest`, or both.
#[derive(Debug, PartialEq, Eq)]
struct Image<'a> {
    registry: &'a str,
    name: &'a str,
    tag: &'a str,
}

impl<'a> Image<'a> {
    fn parse(image: &'a str) -> Self {
        let (image, _) = image.split_once('@').unwrap_or((image, ""));
        let (registry, rest) = image.rsplit_once('/').unwrap_or(("", image));
        let (name, tag) = rest.split_once(':').unwrap_or((rest, ""));
        Self {
            registry,
            name,
            tag,
        }
    }

    fn tag(&self) -> Option<&'a str> {
        (!self.tag.is_empty()).then_some(self.tag)
    }
}

/// Merges a patch into an object as `kubectl patch` does: objects by field, lists of named items by
/// name, and other lists as a whole.
fn overlay(base: &mut Value, patch: Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (key, value) in patch {
                overlay(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(patch))
            if patch.iter().all(|one| one.get("name").is_some()) =>
        {
            for value in patch {
                let same = base.iter_mut().find(|one| one["name"] == value["name"]);
                match same {
                    Some(same) => overlay(same, value),
                    None => base.push(value),
                }
            }
        }
        (base, patch) => *base = patch,
    }
}

/// Adds what an object lacks of another one: fields, items of lists of named items, and texts of
/// lists of texts.
fn complete(base: &mut Value, other: Value) {
    match (base, other) {
        (Value::Object(base), Value::Object(other)) => {
            for (key, value) in other {
                match base.get_mut(&key) {
                    Some(known) => complete(known, value),
                    None => {
                        base.insert(key, value);
                    }
                }
            }
        }
        (Value::Array(base), Value::Array(other)) => {
            for value in other {
                let name = value.get("name").cloned();
                let is_same = |one: &Value| match &name {
                    Some(name) => one.get("name") == Some(name),
                    None => *one == value,
                };
                let place = base.iter().position(is_same);
                match place.and_then(|place| base.get_mut(place)) {
                    Some(same) => complete(same, value),
                    None if name.is_some() || value.is_string() => base.push(value),
                    None => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const CONFIGURATIONS: [&str; 2] = [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ];

    fn titles(objects: &[DynamicObject]) -> Vec<String> {
        objects.iter().map(objects::title).collect()
    }

    /// Returns the objects of an installation with changed parts.
    fn with(change: impl FnOnce(&mut PartArgs)) -> Vec<DynamicObject> {
        let mut parts = PartArgs::default();
        change(&mut parts);
        chosen(&parts, &ImageArgs::default(), None).expect("objects")
    }

    fn plain() -> Vec<DynamicObject> {
        with(|_| {})
    }

    fn kinds(objects: &[DynamicObject]) -> Vec<&str> {
        let types = objects.iter().filter_map(|one| one.types.as_ref());
        types.map(|types| types.kind.as_str()).collect()
    }

    fn find<'a>(objects: &'a [DynamicObject], kind: &str, name: &str) -> &'a DynamicObject {
        let mut found = objects.iter();
        found
            .find(|one| objects::is_a(one, kind) && is_named(one, name))
            .unwrap_or_else(|| panic!("no {kind} {name} in {:?}", titles(objects)))
    }

    #[test]
    fn the_namespace_comes_first_and_the_registration_of_the_webhook_last() {
        let all = plain();
        let kinds = kinds(&all);
        assert_eq!(kinds.first(), Some(&"Namespace"));
        assert_eq!(kinds[kinds.len() - 2..], CONFIGURATIONS);
        let deployments = kinds.iter().filter(|kind| **kind == "Deployment");
        assert_eq!(deployments.count(), 2);
        let documents = [RBAC, WORKLOADS, BY_SERVICE].map(|one| objects::parse(one).unwrap());
        assert_eq!(all, documents.concat(), "as in the manifests");
    }

    #[test]
    fn every_object_bears_the_label_by_which_it_is_known_at_the_end() {
        let inside = with(|parts| {
            (parts.karmada, parts.cert_manager) = (true, true);
            parts.tunnel = "tunnel.example".parse().ok();
        });
        let external = with(|parts| {
            parts.external = true;
            parts.webhook_url = Some("https://a".to_owned());
        });
        let removed = titles(&everything().expect("objects"));
        for object in inside.iter().chain(&external) {
            let title = objects::title(object);
            assert!(is_managed(object), "{title}");
            let stays = objects::is_a(object, "Namespace");
            assert_eq!(removed.contains(&title), !stays, "{title}");
        }
    }

    #[test]
    fn every_object_of_the_manifests_but_namespaces_is_deleted() {
        let deleted: BTreeSet<_> = everything().expect("objects").iter().map(id).collect();
        let hub = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/hub");
        for directory in [hub.join("options"), hub] {
            for file in fs::read_dir(directory).expect("a directory") {
                let file = file.expect("a file").path();
                let name = file.to_string_lossy();
                if !name.ends_with(".yaml") || name.ends_with(".patch.yaml") {
                    continue;
                }
                let manifest = fs::read_to_string(&file).expect("a manifest");
                for object in objects::parse(&manifest).expect("objects") {
                    let stays = objects::is_a(&object, "Namespace");
                    assert_eq!(deleted.contains(&id(&object)), !stays, "{name}: {object:?}");
                }
            }
        }
    }

    #[test]
    fn nobody_asks_the_webhook_before_anything_of_it_goes() {
        let all = everything().expect("objects");
        let kinds = kinds(&all);
        let first = |kind: &str| kinds.iter().position(|one| *one == kind).expect(kind);
        let last = |kind: &str| kinds.iter().rposition(|one| *one == kind).expect(kind);
        assert!(last("ValidatingWebhookConfiguration") < first("Deployment"));
        assert!(last("MutatingWebhookConfiguration") < first("Service"));
        for rights in ["ClusterRole", "Role", "ServiceAccount", "RoleBinding"] {
            assert!(last("Deployment") < first(rights), "{rights}");
        }
        // The webhook recreates its Secret while its RoleBinding exists.
        let tls = all
            .iter()
            .position(|one| is_named(one, "causeway-webhook-tls"));
        assert!(tls > Some(last("RoleBinding")));
    }

    #[test]
    fn a_digest_is_no_tag() {
        for (image, expected) in [
            ("a.example:5000/b/causeway-webhook:1", Some("1")),
            ("a.example:5000/causeway-webhook:1@sha256:0", Some("1")),
            ("a.example:5000/causeway-webhook@sha256:0", None),
            ("causeway-webhook", None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }

    #[test]
    fn the_registry_of_a_deployed_image_is_known_by_the_images_name() {
        for (image, expected) in [
            (
                "a.example:5000/b/causeway-webhook:1",
                Some("a.example:5000/b"),
            ),
            ("a.example/causeway-webhook@sha256:0", Some("a.example")),
            ("a.example/causeway-webhook:1@sha256:0", Some("a.example")),
            ("a.example/causeway-webhook", Some("a.example")),
            ("a.example/mirror-of-causeway:1", None),
        ] {
            let deployment = objects::object(json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": { "name": "causeway-webhook" },
                "spec": { "template": { "spec": { "containers": [
                    { "name": "sidecar", "image": "other.example/sidecar:1" },
                    { "name": "webhook", "image": image },
                ] } } },
            }));
            let deployment = deployment.expect("an object");
            assert_eq!(registry(&deployment), expected, "{image}");
        }
    }

    #[test]
    fn webhook_mounts_the_secret_of_its_certificate() {
        let all = with(|parts| parts.cert_manager = true);
        let pod = &find(&all, "Deployment", "causeway-webhook").data["spec"]["template"]["spec"];
        let certificate = find(&all, "Certificate", "causeway-webhook");
        let mounted = &pod["volumes"][0]["secret"]["secretName"];
        assert_eq!(&certificate.data["spec"]["secretName"], mounted);
    }

    #[test]
    fn controller_without_the_front_loses_the_tunnel() {
        let all = with(|parts| parts.tunnel = "tunnel.example".parse().ok());
        let without = plain();
        let controllers = [&without, &all];
        let [plain, tunnelled] =
            controllers.map(|all| find(all, "Deployment", "causeway-controller"));
        assert!(loses_tunnel(Some(tunnelled), plain));
        assert!(!loses_tunnel(Some(plain), plain) && !loses_tunnel(Some(plain), tunnelled));
        let webhook = find(&without, "Deployment", "causeway-webhook");
        assert!(loses_tunnel(None, plain));
        assert!(!loses_tunnel(None, tunnelled) && !loses_tunnel(None, webhook));
    }

    #[test]
    fn options_of_causeway_tunnel_do_not_replace_each_other() {
        let all = with(|parts| {
            parts.tunnel = "tunnel.example".parse().ok();
            (parts.through_api_server, parts.enrolment) = (true, true);
        });
        let tunnel = find(&all, "Deployment", "causeway-tunnel");
        let args: Vec<_> = preview::arguments(tunnel).collect();
        for flag in [
            "--agents-upgrade-bind=[::]:7082",
            "--enrolment-dir=/etc/causeway/enrolment",
        ] {
            let given = args.iter().filter(|arg| **arg == flag);
            assert_eq!(given.count(), 1, "{args:?}");
        }
        let pod = &tunnel.data["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], true);
        let ports = pod["containers"][0]["ports"].as_array().expect("ports");
        assert!(ports.iter().any(|port| port["name"] == "upgrade"));
        let deployments = all.iter().filter(|one| is_deployment(one));
        let of_tunnel = deployments.filter(|one| is_named(one, "causeway-tunnel"));
        assert_eq!(of_tunnel.count(), 1);
    }

    #[test]
    fn enrolment_beside_external_programs_adds_an_account() {
        let external = with(|parts| {
            parts.tunnel = "tunnel.example".parse().ok();
            (parts.enrolment, parts.external) = (true, true);
        });
        for (name, objects) in [("causeway-tunnel", 3), ("causeway-tunnel-events", 2)] {
            let named = external.iter().filter(|one| is_named(one, name));
            assert_eq!(named.count(), objects, "{name}");
        }
    }

    #[test]
    fn the_definitions_may_be_all() {
        assert_eq!(with(|parts| parts.crds_only = true), []);
    }
}
