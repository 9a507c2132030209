//! Objects that `join` creates in a member: an account with minimal rights, and a token for the
//! hub.

pub(crate) mod agent;
mod ownership;
pub(crate) mod paths;
mod token;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway::api::{Cluster, ClusterSpec, labels};
use causeway::domain::KubernetesVersion;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::target::Target;
use causeway_certs::certificate_pem;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tokio::time::{Instant, sleep};

pub(crate) use self::token::{NewToken, token_names, token_secret};
use crate::cluster::api_server::{ApiServer, RequestError, allowed, root_cause};
use crate::cluster::objects::{self, ObjectError, Run, preview};
use crate::cluster::wait::TimedOut;
use crate::term::exit::{CommandError, Failure, PROBLEM, USAGE};
use crate::term::output;

const RBAC: &str = include_str!("../../../../manifests/member/rbac.yaml");
const NAMESPACE_CREATION: &str =
    include_str!("../../../../manifests/member/namespace-creation.yaml");
const NETWORKS: &str = include_str!("../../../../manifests/member/networks.yaml");
const POLICY: &str = include_str!("../../../../manifests/member/policy.yaml");
const ACCOUNT: &str = "causeway";
/// Maximum time until granted rights take effect. API servers cache authentication and
/// authorization.
const RIGHTS_WITHIN: Duration = Duration::from_secs(10);
const RIGHTS_EVERY: Duration = Duration::from_millis(250);
const UID_SHOWN: usize = 8;

/// Failed preparation of a member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemberError {
    #[error("the member runs Kubernetes {0}; causeway needs 1.21 or later")]
    TooOld(String),
    #[error(
        "the member's controller manager has created no token in Secret {namespace}/{name} within {seconds} s{late}; \
         check that kube-controller-manager is running there, then join again"
    )]
    NoToken {
        namespace: &'static str,
        name: String,
        seconds: u64,
        late: TimedOut,
    },
    #[error("the member has issued no token for Secret {0}; join again")]
    NotIssued(String),
    #[error(
        "the new account cannot use the member at {url}: {why}; give --api-endpoint with an address that the \
         API server's certificate is valid for"
    )]
    Unusable { url: String, why: String },
    #[error(
        "the new account cannot use the member at {url}: {why}; the member's kubeconfig names no \
         certificate authority, and the hub does not have those of your system: add the authority of \
         the API server's certificate as certificate-authority-data to the kubeconfig"
    )]
    UnknownAuthority { url: String, why: String },
    #[error(
        "the member's certificate authority is unknown; add certificate-authority-data to its kubeconfig"
    )]
    NoAuthority,
    #[error(
        "{object} of the member is not of kubectl mcs join or tunnel add of this hub, and the \
         member has one such agent; delete it there, or go on by hand as {page} says. Nothing was \
         changed"
    )]
    ForeignAgent { object: String, page: &'static str },
    #[error("Service default/kubernetes of the member has no address; give --api-endpoint")]
    NoApiService,
    #[error("{flag} {}: {cause}", file.display())]
    Certificates {
        flag: &'static str,
        file: PathBuf,
        cause: io::Error,
    },
}

impl CommandError for MemberError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoToken { late, .. } => late.exit_code(),
            Self::Certificates { .. } => USAGE,
            _ => PROBLEM,
        }
    }
}

/// Identity and version of a member.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// UID of the member's kube-system namespace.
    pub uid: String,
    /// Kubernetes version, for example v1.36.3.
    pub version: String,
}

/// Credentials with which the hub connects to a member.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub token: String,
    /// PEM certificates that verify the member's API server.
    pub ca_bundle: String,
}

/// New credentials that the hub does not have yet.
#[derive(Debug)]
pub(crate) struct Granted {
    pub credentials: Credentials,
    /// Secret of the replaced token, which may not exist.
    old: DynamicObject,
}

impl Granted {
    /// Deletes the Secret of the replaced token, which revokes the token.
    pub(crate) async fn end_old_token(&self, member: &ApiServer) -> Result<(), Failure> {
        Ok(objects::remove(member, &self.old).await?)
    }
}

/// Reads the identity of a member. Rejects a member with an unsupported Kubernetes version.
pub(crate) async fn identify(member: &ApiServer) -> Result<Identity, Failure> {
    let info = member.request(member.client.apiserver_version()).await?;
    let version = KubernetesVersion::of(&info);
    if version.is_some_and(|version| version < KubernetesVersion::OLDEST_MEMBER) {
        return Err(MemberError::TooOld(info.git_version).into());
    }
    Ok(Identity {
        uid: member.uid().await?,
        version: info.git_version,
    })
}

/// Rights that only some hubs need. `true` grants a right, `false` withdraws it, and `None` leaves
/// it unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OptionalRights {
    /// Right to create namespaces.
    pub namespace_creation: Option<bool>,
    /// Right to read Nodes.
    pub nodes: Option<bool>,
}

impl OptionalRights {
    /// Returns the objects of the rights that are granted to a hub, or withdrawn from it.
    fn objects(self, granted: bool, hub_uid: &str) -> Result<Vec<DynamicObject>, ObjectError> {
        let rights = [
            (self.namespace_creation, NAMESPACE_CREATION),
            (self.nodes, NETWORKS),
        ];
        let mut objects = Vec::new();
        for (_, manifest) in rights.iter().filter(|(right, _)| *right == Some(granted)) {
            objects.extend(of_hub(manifest, hub_uid)?);
        }
        Ok(objects)
    }

    /// Returns the objects of all optional rights of one hub.
    fn all(hub_uid: &str) -> Result<Vec<DynamicObject>, ObjectError> {
        let all = Self {
            namespace_creation: Some(true),
            nodes: Some(true),
        };
        all.objects(true, hub_uid)
    }
}

/// Returns the namespace of causeway's objects in a member.
pub(crate) fn namespace() -> Result<DynamicObject, ObjectError> {
    let mut objects = objects::parse(RBAC)?.into_iter();
    let namespace = objects.find(|object| objects::is_a(object, "Namespace"));
    namespace.ok_or(ObjectError::Untyped)
}

/// Returns the account and its rights for the hub with the given UID.
pub(crate) fn account(
    hub_uid: &str,
    rights: OptionalRights,
) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut account = objects::parse(RBAC)?;
    account.extend(rights.objects(true, hub_uid)?);
    Ok(account)
}

/// Returns the admission policy for the account if the member serves ValidatingAdmissionPolicies
/// (Kubernetes 1.30 or later).
pub(crate) async fn policy(member: &ApiServer) -> Result<Vec<DynamicObject>, Failure> {
    match member.serves_kind::<ValidatingAdmissionPolicy>().await? {
        true => Ok(objects::parse(POLICY)?),
        false => Ok(Vec::new()),
    }
}

/// Returns the admission policy for the account, for a member whose version is not known.
pub(crate) fn any_policy() -> Result<Vec<DynamicObject>, ObjectError> {
    objects::parse(POLICY)
}

/// Creates the account and its rights for the hub with the given UID, without a token. Without
/// `force`, a right that another field manager changed is an error. An existing namespace stays as
/// it is: the cluster may be a hub, whose `install` sets more labels as the same field manager.
pub(crate) async fn grant_rights(
    member: &ApiServer,
    hub_uid: &str,
    rights: OptionalRights,
    force: bool,
) -> Result<(), Failure> {
    let mut account = account(hub_uid, rights)?;
    if objects::get(member, &namespace()?).await?.is_some() {
        account.retain(|object| !objects::is_a(object, "Namespace"));
    }
    account.extend(policy(member).await?);
    preview::check(member, account.iter(), force).await?;
    for object in account {
        objects::apply_with(member, &object, Run::Real, force).await?;
    }
    for object in rights.objects(false, hub_uid)?.iter().rev() {
        objects::remove(member, object).await?;
    }
    Ok(())
}

/// Creates the account and a new token for the hub with the given UID. The current token of the hub
/// remains valid until [`Granted::end_old_token`]. Without `force`, a right that another field
/// manager changed is an error.
pub(crate) async fn grant(
    member: &ApiServer,
    hub_uid: &str,
    rights: OptionalRights,
    token: NewToken<'_>,
    force: bool,
) -> Result<Granted, Failure> {
    let [new, old] = token.secrets(hub_uid)?;
    grant_rights(member, hub_uid, rights, force).await?;
    // An earlier join may have left an unused Secret of this name.
    objects::remove(member, &new).await?;
    objects::apply(member, &new, Run::Real).await?;
    let credentials = match token.lifetime {
        None => token::filled(member, &new.name_any()).await?,
        Some(lifetime) => token::requested(member, &new, lifetime).await?,
    };
    Ok(Granted { credentials, old })
}

/// Returns the objects of a right that one hub needs. Their names contain the hub, and other hubs
/// never delete them.
fn of_hub(manifest: &str, hub_uid: &str) -> Result<Vec<DynamicObject>, ObjectError> {
    let suffix = format!("-{}", short(hub_uid));
    let rights = objects::parse(manifest)?.into_iter();
    let rights = rights.map(|object| {
        let mut object = ownership::of_hub(object, hub_uid);
        if let Some(name) = &mut object.metadata.name {
            name.push_str(&suffix);
        }
        if let Some(Value::String(role)) = object.data.pointer_mut("/roleRef/name") {
            role.push_str(&suffix);
        }
        object
    });
    Ok(rights.collect())
}

fn short(hub_uid: &str) -> &str {
    hub_uid.get(..UID_SHOWN).unwrap_or(hub_uid)
}

/// Returns the CA certificates with which the hub will verify the member, before a token provides
/// them.
pub(crate) async fn published_authorities(member: &ApiServer) -> Result<String, Failure> {
    let map = member.get::<ConfigMap>(member.within("kube-system"), "kube-root-ca.crt");
    let map = allowed(map.await)?;
    let data = map.flatten().and_then(|map| map.data);
    let data = data.unwrap_or_default();
    let cluster_ca = data.get("ca.crt").map(String::as_str);
    Ok(authorities(member, cluster_ca.unwrap_or_default())?)
}

fn authorities(member: &ApiServer, cluster_ca: &str) -> Result<String, MemberError> {
    let from_kubeconfig = member.config.root_cert.as_deref();
    match ca_bundle(from_kubeconfig.unwrap_or_default(), cluster_ca) {
        bundle if bundle.is_empty() => Err(MemberError::NoAuthority),
        bundle => Ok(bundle),
    }
}

/// Returns the CA certificates of the kubeconfig, followed by those of the member that differ.
fn ca_bundle(from_kubeconfig: &[Vec<u8>], cluster_ca: &str) -> String {
    let own = CertificateDer::pem_slice_iter(cluster_ca.as_bytes()).filter_map(Result::ok);
    let mut all: Vec<Vec<u8>> = from_kubeconfig.to_vec();
    for certificate in own {
        if !all.iter().any(|known| known == certificate.as_ref()) {
            all.push(certificate.to_vec());
        }
    }
    all.iter().map(|one| certificate_pem(one)).collect()
}

/// Reads the file of PEM certificates that a flag names, if any.
///
/// # Errors
/// [`MemberError::Certificates`] if the file cannot be read or holds no certificate in PEM.
pub(crate) fn certificates(
    flag: &'static str,
    file: Option<&Path>,
) -> Result<Option<String>, MemberError> {
    let Some(file) = file else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(file).and_then(|text| {
        let is_any = CertificateDer::pem_slice_iter(text.as_bytes()).any(|one| one.is_ok());
        let none = || io::Error::other("it holds no certificate in PEM");
        is_any.then_some(text).ok_or_else(none)
    });
    text.map(Some).map_err(|cause| MemberError::Certificates {
        flag,
        file: file.to_owned(),
        cause,
    })
}

/// Connects with the Secret for the hub as the controller will, at the URL of the kubeconfig. Its
/// tls-server-name applies only if the hub has another URL.
/// Retries for [`RIGHTS_WITHIN`] until newly granted rights take effect.
pub(crate) async fn verify(
    member: &ApiServer,
    secret: &DynamicObject,
    has_another_url: bool,
) -> Result<(), Failure> {
    let server_name = member.config.tls_server_name.as_deref();
    let server_name = server_name.filter(|_| has_another_url);
    let as_account = as_account(member, secret, server_name);
    let as_account = as_account.map_err(|why| MemberError::Unusable {
        url: member.url(),
        why,
    })?;
    let one = ListParams::default().limit(1);
    let deadline = Instant::now() + RIGHTS_WITHIN;
    loop {
        let namespaces = as_account.all::<Namespace>();
        match as_account.list_metadata(namespaces, &one).await {
            Ok(_) => return Ok(()),
            Err(RequestError::NotAllowed { .. }) if Instant::now() < deadline => {
                sleep(RIGHTS_EVERY).await;
            }
            Err(RequestError::Unreachable { address, why, .. }) => {
                let has_authority = member.config.root_cert.is_some();
                return Err(unusable(address, why, has_authority).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the error of an account that does not connect to a member. `has_authority` is true if
/// the kubeconfig names a certificate authority.
fn unusable(url: String, why: String, has_authority: bool) -> MemberError {
    match !has_authority && why.contains("UnknownIssuer") {
        true => MemberError::UnknownAuthority { url, why },
        false => MemberError::Unusable { url, why },
    }
}

fn as_account(
    member: &ApiServer,
    secret: &DynamicObject,
    server_name: Option<&str>,
) -> Result<ApiServer, String> {
    let spec = ClusterSpec {
        api_endpoint: Some(member.url()),
        proxy_url: member.config.proxy_url.as_ref().map(ToString::to_string),
        ..ClusterSpec::default()
    };
    let cluster = Cluster::new(&secret.name_any(), spec);
    let secret: Secret = secret.clone().try_parse().map_err(|why| why.to_string())?;
    let read = Target::read(&cluster, &secret, false);
    let (mut target, token) = read.map_err(|why| why.to_string())?;
    if let Some(name) = server_name {
        target = target.named(name).map_err(|why| why.to_string())?;
    }
    ApiServer::of_target(&target, token).map_err(|why| root_cause(&why))
}

/// Deletes all objects that [`grant`] created for the hub with the given UID. The account remains
/// while another hub has a token for it. A dry run changes nothing.
pub(crate) async fn revoke(member: &ApiServer, hub_uid: &str, run: Run) -> Result<(), Failure> {
    let is_shared = is_shared(member, hub_uid).await?;
    for object in revoked(member, hub_uid, is_shared).await? {
        objects::remove_with(member, &object, run).await?;
    }
    if is_shared {
        return Ok(output::result("member: account kept, another hub uses it")?);
    }
    Ok(output::result(format_args!(
        "member: namespace/{DEFAULT_NAMESPACE} kept; delete it if it is empty"
    ))?)
}

/// Whether another hub has a token for the account, or an agent that gives it tokens.
async fn is_shared(member: &ApiServer, hub_uid: &str) -> Result<bool, RequestError> {
    let of_hubs = ListParams::default().labels(labels::HUB);
    let secrets = member.within::<Secret>(DEFAULT_NAMESPACE);
    let tokens = member.list_metadata(secrets, &of_hubs).await?;
    let own = token_names(hub_uid);
    Ok(!tokens.iter().all(|secret| {
        let name = secret.name_any();
        let is_agent = name == agent::AGENT_SECRET;
        own.contains(&name) || (is_agent && ownership::is_of_hub(secret, hub_uid))
    }))
}

/// Returns the objects of a member to delete with one hub, in order of deletion.
async fn revoked(
    member: &ApiServer,
    hub_uid: &str,
    is_shared: bool,
) -> Result<Vec<DynamicObject>, Failure> {
    let mut objects = agent::owned(member, hub_uid).await?;
    objects.extend(paths::owned(member, hub_uid).await?);
    for name in &token_names(hub_uid) {
        objects.push(token_secret(hub_uid, name)?);
    }
    objects.extend(OptionalRights::all(hub_uid)?.into_iter().rev());
    if !is_shared {
        // Rights under the names of the manifests, which versions before 0.2 used too.
        for manifest in [NAMESPACE_CREATION, NETWORKS] {
            objects.extend(objects::parse(manifest)?.into_iter().rev());
        }
        objects.extend(policy(member).await?.into_iter().rev());
        objects.extend(objects::parse(RBAC)?.into_iter().rev());
        objects.retain(|object| !objects::is_a(object, "Namespace"));
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_names_each_authority_once() {
        let (one, two) = (vec![1; 100], vec![2; 100]);
        let both = certificate_pem(&one) + &certificate_pem(&two);
        let bundle = ca_bundle(std::slice::from_ref(&one), &both);
        assert_eq!(bundle, both);
        assert_eq!(ca_bundle(&[], ""), "");
        assert!(bundle.lines().all(|line| line.len() <= 64), "{bundle}");
    }

    #[test]
    fn unknown_authority_is_reported_where_the_kubeconfig_has_none() {
        let (unknown, refused) = ("invalid peer certificate: UnknownIssuer", "refused");
        for (has_authority, why, is_advised) in [
            (false, unknown, true),
            (false, refused, false),
            (true, unknown, false),
        ] {
            let url = "https://192.0.2.1".to_owned();
            let text = unusable(url, why.to_owned(), has_authority).to_string();
            let advice = "certificate-authority-data to the kubeconfig";
            assert_eq!(text.contains(advice), is_advised, "{text}");
        }
    }

    #[test]
    fn the_account_may_neither_read_secrets_nor_make_namespaces_unless_that_is_asked_for() {
        let text = serde_json::to_string(&objects::parse(RBAC).expect("a manifest")).expect("JSON");
        assert!(!text.contains("secrets"), "{text}");
        let namespaces = r#""resources":["namespaces"],"verbs":["get","list","watch"]"#;
        assert!(text.contains(namespaces), "{text}");
        let more = serde_json::to_string(&objects::parse(NAMESPACE_CREATION).expect("a manifest"))
            .expect("JSON");
        assert!(
            more.contains(r#""resources":["namespaces"],"verbs":["create"]"#),
            "{more}"
        );
    }

    #[test]
    fn optional_rights_are_those_of_each_hub() {
        for (manifest, expected) in [
            (
                NAMESPACE_CREATION,
                "causeway-member-namespace-creation-1b4e28ba",
            ),
            (NETWORKS, "causeway-member-networks-1b4e28ba"),
        ] {
            let of = |uid| of_hub(manifest, uid).expect("objects");
            let (one, other) = (of("1b4e28ba-2fa1"), of("2b4e28ba-2fa1"));
            for (one, other) in one.iter().zip(&other) {
                assert_ne!(one.metadata.name, other.metadata.name);
            }
            let of_kind = |kind: &str| one.iter().find(|object| objects::is_a(object, kind));
            let name = of_kind("ClusterRole").and_then(|role| role.metadata.name.as_deref());
            let binding = of_kind("ClusterRoleBinding");
            let referenced = binding.and_then(|binding| binding.data.pointer("/roleRef/name"));
            assert_eq!(name, Some(expected));
            assert_eq!(referenced.and_then(Value::as_str), name);
        }
    }

    #[test]
    fn right_without_a_value_is_neither_granted_nor_withdrawn() {
        let names = |rights: OptionalRights, granted| {
            let objects = rights.objects(granted, "1b4e28ba-2fa1").expect("objects");
            let names = objects.into_iter().filter_map(|one| one.metadata.name);
            names.collect::<Vec<_>>()
        };
        let none = OptionalRights::default();
        assert_eq!(names(none, true).len() + names(none, false).len(), 0);
        let nodes = OptionalRights {
            nodes: Some(true),
            ..none
        };
        assert_eq!(names(nodes, true), ["causeway-member-networks-1b4e28ba"; 2]);
        assert_eq!(names(nodes, false), Vec::<String>::new());
    }

    #[test]
    fn each_hub_has_a_token_of_its_own() {
        let names = token_names("1b4e28ba-2fa1-11d2-883f-0016d3cca427");
        assert_eq!(names, ["causeway-hub-1b4e28ba", "causeway-hub-1b4e28ba-2"]);
        assert_ne!(token_names("1b4e28ba-2fa1"), token_names("2b4e28ba-2fa1"));
    }
}
