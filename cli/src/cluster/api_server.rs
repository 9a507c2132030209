//! Requests to an API server, each with a deadline, and the classification of their failures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use causeway::target::{ProxyError, Target, Token, Transport, TransportError, TunnelFront};
use futures::future::{BoxFuture, Shared};
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PartialObjectMeta};
use kube::client::ClientBuilder;
use kube::client::retry::RetryPolicy;
use kube::config::KubeConfigOptions;
use kube::core::{DynamicResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tower::Layer as _;
use tower::layer::layer_fn;
use tower::retry::RetryLayer;

use crate::cluster::access::{HubArgs, Side};
use crate::cluster::bounded::{BoundAnswers, Overlong};
use crate::cluster::kubeconfig::{
    self, Access, LoadError, MemberKubeconfigs, describe_plugin_failure,
};
use crate::term::exit::{CommandError, PROBLEM, UNKNOWN, USAGE};
use crate::term::screen::printable;

/// Commands that apply the definitions on a hub, for messages.
pub(crate) const DEFINE: &str =
    "kubectl mcs install --crds-only, or kubectl apply -f manifests/crds/hub/";

/// Default timeout of one request.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Name that `kubectl mcs` has in the audit logs of API servers.
const AGENT: &str = concat!("kubectl-mcs/", env!("CARGO_PKG_VERSION"));

/// Sets what all requests of a configuration have in common.
fn prepare(config: &mut Config) {
    config.connect_timeout = Some(CONNECT_WITHIN);
    let agent = HeaderValue::from_static(AGENT);
    config.headers.push((USER_AGENT, agent));
}

/// Failed or rejected request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The given kubeconfig is invalid.
    #[error("invalid kubeconfig of the {side}: {why}")]
    Kubeconfig { side: Side, why: String },
    /// The user gave no kubeconfig and none was found.
    #[error("no kubeconfig for the hub was found ({0}); set KUBECONFIG or give --kubeconfig")]
    NoKubeconfig(String),
    /// The user gives a kubeconfig or context of a name without a Cluster.
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(String),
    /// The hub does not serve a kind. It may be another cluster than the user means.
    #[error(
        "the hub at {url} serves no {kind}; install the CRD: {DEFINE}; or name another hub: --context"
    )]
    NotServed { kind: &'static str, url: String },
    /// The API server did not respond.
    #[error(
        "cannot reach the {side} at {address}: {why}; check that it is running and that {flag} names the right cluster",
        flag = kubeconfig_flag(side)
    )]
    Unreachable {
        side: Side,
        address: String,
        why: String,
    },
    /// The API server rejected the credentials (401) or the permissions (403).
    #[error(
        "forbidden by the {side}: {message}; {remedy}",
        remedy = remedy_of_rights(*unauthenticated)
    )]
    NotAllowed {
        side: Side,
        message: String,
        /// Whether the API server rejected the credentials.
        unauthenticated: bool,
    },
    /// The object or the API does not exist.
    #[error("the {side} answered: {message}")]
    NotFound { side: Side, message: String },
    /// The stored object differs from the one that the request assumes.
    #[error("the {side} refused: {message}")]
    Conflict { side: Side, message: String },
    /// Admission denied the object, or the API server rejected the request for another reason.
    #[error("the {side} refused: {message}")]
    Refused { side: Side, message: String },
    /// The client cannot build the request: no object can have the name.
    #[error("cannot send this request to the {side}: {message}")]
    Unsendable { side: Side, message: String },
    /// The API server has more objects of one kind, or a longer answer, than are read.
    #[error("too much in the {side}: {message}")]
    TooMany { side: Side, message: String },
    /// The API server is reachable and cannot serve the request now.
    #[error("the {side} is unavailable: {message}; try again")]
    Busy { side: Side, message: String },
}

impl CommandError for RequestError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Kubeconfig { .. } | Self::NotJoined(_) => USAGE,
            Self::NoKubeconfig(_)
            | Self::Unreachable { .. }
            | Self::NotAllowed { .. }
            | Self::TooMany { .. }
            | Self::Busy { .. } => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

impl RequestError {
    /// Whether the user lacks a right. Rejected credentials show nothing about rights.
    pub(crate) fn is_missing_right(&self) -> bool {
        match self {
            Self::NotAllowed {
                unauthenticated, ..
            } => !unauthenticated,
            _ => false,
        }
    }
}

/// Kubeconfig that does not verify the server's identity.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kubeconfig of the {side} {what}, so anybody could answer for it and take {taken}; add \
     certificate-authority-data and an https:// server to it"
)]
pub(crate) struct Insecure {
    side: Side,
    what: &'static str,
    taken: &'static str,
}

impl CommandError for Insecure {
    fn exit_code(&self) -> u8 {
        USAGE
    }
}

/// Whether a message of status 403 is that of an admission plugin, such as a webhook or a
/// ValidatingAdmissionPolicy, and not of missing rights. The text of an authorizer follows the user
/// and does not count.
pub(crate) fn is_denial(message: &str) -> bool {
    const BY_ADMISSION: [&str; 5] = [
        "denied the request",
        "denied request",
        "exceeded quota",
        "failed quota",
        "violates PodSecurity",
    ];
    let mut parts = message.split("forbidden: User \"");
    let message = parts.next().unwrap_or_default();
    BY_ADMISSION.iter().any(|one| message.contains(one))
}

/// Returns the remedy of rejected credentials, or of missing rights.
fn remedy_of_rights(unauthenticated: bool) -> &'static str {
    match unauthenticated {
        true => "log in again, or use another kubeconfig",
        false => "use a kubeconfig with administrator rights",
    }
}

fn kubeconfig_flag(side: &Side) -> &'static str {
    match side {
        Side::Hub => "--kubeconfig",
        Side::Member => "--member-kubeconfig",
    }
}

/// Time and result of an attempt to reach the front of causeway-tunnel.
pub(crate) type FrontAttempt = (Instant, Result<TunnelFront, String>);

/// Client of a member by the user's kubeconfig with the time of its creation, or its creation in
/// progress.
pub(crate) type MemberClient = Shared<BoxFuture<'static, Result<(Instant, ApiServer), String>>>;

/// API server with the client and configuration that reach it.
#[derive(Clone)]
pub(crate) struct ApiServer {
    pub side: Side,
    pub client: Client,
    pub config: Config,
    /// Namespaces of the hub that hold the members' credentials, read on first use.
    pub secret_namespaces: Arc<OnceLock<BTreeSet<String>>>,
    /// Front of causeway-tunnel on the hub that the user gives, or the last attempt to reach it.
    pub tunnel_front: Arc<Mutex<Option<FrontAttempt>>>,
    /// Kubeconfigs of members that the user gives, of the hub.
    pub members: Arc<MemberKubeconfigs>,
    /// Clients by these kubeconfigs, of the hub. The key is the name of the member, and whether the
    /// client connects through causeway-tunnel.
    pub member_clients: Arc<Mutex<BTreeMap<(String, bool), MemberClient>>>,
    /// `proxy-url` of the kubeconfig. Excludes the proxy of the environment.
    pub proxy_url: Option<String>,
    /// Timeout of one request.
    pub answer_within: Duration,
}

impl ApiServer {
    /// Connects to the hub of the given kubeconfig, or of kubectl's default kubeconfig.
    pub(crate) async fn hub(args: &HubArgs) -> Result<Self, RequestError> {
        // Like kubectl's flags of these names.
        let options = KubeConfigOptions {
            context: args.context.clone(),
            cluster: args.cluster.clone(),
            user: args.user.clone(),
        };
        let is_chosen = [&args.context, &args.cluster, &args.user];
        let is_chosen = is_chosen.into_iter().any(Option::is_some);
        let mut access = match kubeconfig::load(args.kubeconfig.as_deref()) {
            Err(LoadError::Absent {
                why,
                in_cluster: true,
            }) if !is_chosen => Access {
                config: Config::incluster().map_err(|_| RequestError::NoKubeconfig(why))?,
                proxy_url: None,
            },
            Err(LoadError::Absent { why, .. }) => return Err(RequestError::NoKubeconfig(why)),
            loaded => access(Side::Hub, loaded, &options)?,
        };
        let user = &mut access.config.auth_info;
        if args.as_user.is_some() {
            user.impersonate.clone_from(&args.as_user);
            user.impersonate_groups = Some(args.as_group.clone());
        }
        if let Some(namespace) = &args.namespace {
            access.config.default_namespace.clone_from(namespace);
        }
        let hub = Self::new(Side::Hub, access.config)?;
        let front = args.tunnel_front.clone();
        let front = front.map(|front| (Instant::now(), Ok(front)));
        Ok(Self {
            proxy_url: access.proxy_url,
            answer_within: args.request_timeout,
            tunnel_front: Arc::new(Mutex::new(front)),
            ..hub
        })
    }

    /// Connects to the member of the given kubeconfig, or of kubectl's default kubeconfig.
    pub(crate) async fn member(
        path: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, RequestError> {
        let options = KubeConfigOptions {
            context: context.map(ToOwned::to_owned),
            ..KubeConfigOptions::default()
        };
        let access = access(Side::Member, kubeconfig::load(path), &options)?;
        Ok(Self {
            proxy_url: access.proxy_url,
            ..Self::member_of(access.config).await?
        })
    }

    /// Connects to the member of a configuration. The client is created on another thread: a
    /// credential plugin blocks it until it ends.
    pub(crate) async fn member_of(config: Config) -> Result<Self, RequestError> {
        let side = Side::Member;
        let created = spawn_blocking(move || Self::new(side, config)).await;
        created.unwrap_or_else(|error| {
            let why = error.to_string();
            Err(RequestError::Kubeconfig { side, why })
        })
    }

    /// Creates a client for a configuration. The client retries requests that a busy server rejects
    /// (429, 503, 504).
    pub(crate) fn new(side: Side, mut config: Config) -> Result<Self, RequestError> {
        prepare(&mut config);
        let client = ClientBuilder::try_from(config.clone());
        let client = client.map_err(|error| RequestError::Kubeconfig {
            side,
            why: describe_plugin_failure(&error, config.auth_info.exec.as_ref())
                .unwrap_or_else(|| root_cause(&error)),
        })?;
        let client = client.with_layer(&layer_fn(BoundAnswers)).build();
        Ok(Self::by(side, client, config))
    }

    fn by(side: Side, client: Client, config: Config) -> Self {
        Self {
            side,
            client,
            config,
            secret_namespaces: Arc::default(),
            tunnel_front: Arc::default(),
            members: Arc::default(),
            member_clients: Arc::default(),
            proxy_url: None,
            answer_within: ANSWER_WITHIN,
        }
    }

    /// Connects to a member with the same transport as causeway-controller. The client retries
    /// requests that a busy server rejects (429, 503, 504).
    pub(crate) fn of_target(target: &Target, token: Token) -> Result<Self, TransportError> {
        let mut config = target.config();
        prepare(&mut config);
        let transport = Transport::new(target, config.clone())?;
        let (_, token) = watch::channel(token);
        let requests = transport.requests(&token).map_err(TransportError::Member)?;
        let requests = RetryLayer::new(RetryPolicy::server_retry()).layer(requests);
        let namespace = config.default_namespace.clone();
        let client = Client::new(BoundAnswers(requests), namespace);
        Ok(Self::by(Side::Member, client, config))
    }

    /// Checks that the kubeconfig verifies the server's identity. `taken` names what a server that
    /// answers in its place would get.
    pub(crate) fn check_verified(&self, taken: &'static str) -> Result<(), Insecure> {
        let what = match self.config.cluster_url.scheme_str() {
            _ if self.config.accept_invalid_certs => "sets insecure-skip-tls-verify",
            Some("http") => "names a server without TLS",
            _ => return Ok(()),
        };
        let side = self.side;
        Err(Insecure { side, what, taken })
    }

    /// Returns the URL of the API server without a trailing slash.
    pub(crate) fn url(&self) -> String {
        self.config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned()
    }

    /// Returns the URL for messages, with the proxy of the kubeconfig or of the environment.
    /// Credentials of the proxy are omitted.
    fn address(&self) -> String {
        let proxy = self.config.proxy_url.as_ref();
        let proxy = proxy.and_then(|proxy| proxy.scheme_str().zip(proxy.authority()));
        let Some((scheme, authority)) = proxy else {
            return self.url();
        };
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        format!("{} through the proxy {scheme}://{host}", self.url())
    }

    /// Sends one request and waits for the response. The timeout is 10 seconds unless the user sets
    /// another.
    pub(crate) async fn request<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        match tokio::time::timeout(self.answer_within, request).await {
            Ok(answer) => answer.map_err(|error| self.failure(&error)),
            Err(_) => Err(self.late()),
        }
    }

    /// Sends one request. Returns `None` if the object or the API does not exist.
    pub(crate) async fn found<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<Option<T>, RequestError> {
        match self.request(request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(RequestError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the server serves a resource, named by its plural, in an API version.
    pub(crate) async fn serves(
        &self,
        api_version: &str,
        plural: &str,
    ) -> Result<bool, RequestError> {
        let resources = self.client.list_api_group_resources(api_version);
        let served = self.found(resources).await?;
        let mut served = served.iter().flat_map(|list| &list.resources);
        Ok(served.any(|one| one.name == plural))
    }

    /// Whether the server serves a kind.
    pub(crate) async fn serves_kind<K>(&self) -> Result<bool, RequestError>
    where
        K: Resource<DynamicType = ()>,
    {
        self.serves(&K::api_version(&()), &K::plural(&())).await
    }

    /// Returns the error of a hub that does not serve a kind.
    pub(crate) fn not_served(&self, kind: &'static str) -> RequestError {
        let url = self.url();
        RequestError::NotServed { kind, url }
    }

    /// Returns the error of a request that timed out.
    pub(crate) fn late(&self) -> RequestError {
        self.unreachable(format!(
            "no answer within {} s, or only that it is busy",
            self.answer_within.as_secs()
        ))
    }

    /// Returns [`RequestError::Unreachable`] with a reason.
    pub(crate) fn unreachable(&self, why: String) -> RequestError {
        RequestError::Unreachable {
            side: self.side,
            address: self.address(),
            why,
        }
    }

    /// Converts a client error into a [`RequestError`].
    pub(crate) fn failure(&self, error: &kube::Error) -> RequestError {
        let side = self.side;
        let kube::Error::Api(status) = error else {
            if let Some(message) = overlong(error) {
                return RequestError::TooMany { side, message };
            }
            if let kube::Error::BuildRequest(why) = error {
                let message = root_cause(why);
                return RequestError::Unsendable { side, message };
            }
            let exec = self.config.auth_info.exec.as_ref();
            let of_plugin = describe_plugin_failure(error, exec);
            return self.unreachable(of_plugin.unwrap_or_else(|| root_cause(error)));
        };
        let message = printable(&status.message).into_owned();
        match status.code {
            403 if is_denial(&message) => RequestError::Refused { side, message },
            code @ (401 | 403) => RequestError::NotAllowed {
                side,
                message,
                unauthenticated: code == 401,
            },
            404 => RequestError::NotFound { side, message },
            409 => RequestError::Conflict { side, message },
            429 | 500.. => RequestError::Busy { side, message },
            _ => RequestError::Refused { side, message },
        }
    }

    /// Reads an object. Returns `None` if it does not exist.
    pub(crate) async fn get<K>(&self, api: Api<K>, name: &str) -> Result<Option<K>, RequestError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        self.request(api.get_opt(name)).await
    }

    /// Reads the metadata of an object. Returns `None` if it does not exist.
    pub(crate) async fn get_metadata<K>(
        &self,
        api: Api<K>,
        name: &str,
    ) -> Result<Option<PartialObjectMeta<K>>, RequestError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        self.request(api.get_metadata_opt(name)).await
    }

    /// Lists objects.
    pub(crate) async fn list<K>(
        &self,
        api: Api<K>,
        parameters: &ListParams,
    ) -> Result<Vec<K>, RequestError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        Ok(self.request(api.list(parameters)).await?.items)
    }

    /// Lists the metadata of objects.
    pub(crate) async fn list_metadata<K>(
        &self,
        api: Api<K>,
        parameters: &ListParams,
    ) -> Result<Vec<PartialObjectMeta<K>>, RequestError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        Ok(self.request(api.list_metadata(parameters)).await?.items)
    }

    /// Returns the API of a kind in the whole cluster.
    pub(crate) fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// Returns the API of a namespaced kind in one namespace.
    pub(crate) fn within<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Returns the API of a namespaced kind in one namespace, or in all.
    pub(crate) fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match namespace {
            Some(namespace) => self.within(namespace),
            None => self.all(),
        }
    }

    /// Returns the API of a kind that `kind` describes, in one namespace or in all.
    pub(crate) fn api_of<K>(&self, kind: &K::DynamicType, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        let client = self.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, kind),
            None => Api::all_with(client, kind),
        }
    }

    /// Returns the identity of the cluster: the UID of its kube-system namespace.
    pub(crate) async fn uid(&self) -> Result<String, RequestError> {
        let namespaces = self.all::<Namespace>();
        let kube_system = self.request(namespaces.get_metadata("kube-system")).await?;
        Ok(kube_system.metadata.uid.unwrap_or_default())
    }

    /// Reads the metadata of a namespace. Returns `None` if it does not exist.
    pub(crate) async fn namespace(
        &self,
        name: &str,
    ) -> Result<Option<PartialObjectMeta<Namespace>>, RequestError> {
        self.get_metadata(self.all(), name).await
    }
}

fn access(
    side: Side,
    loaded: Result<kubeconfig::Loaded, LoadError>,
    options: &KubeConfigOptions,
) -> Result<Access, RequestError> {
    let unusable = |error: LoadError| RequestError::Kubeconfig {
        side,
        why: error.to_string(),
    };
    loaded.map_err(unusable)?.access(options).map_err(unusable)
}

/// Returns the message of the innermost error: "connection refused" is more useful than "client
/// error". The message of a proxy error names the proxy.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    let mut proxy = String::new();
    while let Some(source) = innermost.source() {
        if let Some(ProxyError::Unusable { proxy: at, .. }) = innermost.downcast_ref() {
            proxy = format!("{at}: ");
        }
        innermost = source;
    }
    printable(&format!("{proxy}{innermost}")).into_owned()
}

/// Returns the message of an [`Overlong`] answer, if one is the cause of the error.
fn overlong(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let overlong = causes.find_map(|cause| {
        let wrapped = cause.downcast_ref().and_then(io::Error::get_ref);
        let wrapped = wrapped.and_then(|wrapped| wrapped.downcast_ref());
        wrapped.or_else(|| cause.downcast_ref::<Overlong>())
    });
    overlong.map(ToString::to_string)
}

/// Converts a missing right to `None`.
pub(crate) fn allowed<T>(answer: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    Ok(or_refused(answer, drop)?.ok())
}

/// Converts a missing right to a value. Rejected credentials remain an error.
pub(crate) fn or_refused<T, E>(
    answer: Result<T, RequestError>,
    refusal: impl FnOnce(RequestError) -> E,
) -> Result<Result<T, E>, RequestError> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(why) if why.is_missing_right() => Ok(Err(refusal(why))),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::StreamExt as _;
    use http_body_util::Full;
    use k8s_openapi::api::core::v1::Service;
    use kube::api::WatchParams;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::fixtures::unreachable;

    fn answered(code: u16) -> RequestError {
        answered_with(code, "no")
    }

    fn answered_with(code: u16, message: &str) -> RequestError {
        let status = kube::core::Status::failure(message, "Reason").with_code(code);
        unreachable(Side::Hub).failure(&kube::Error::Api(status.boxed()))
    }

    #[tokio::test]
    async fn an_answer_says_whether_the_server_could_be_asked() {
        assert!(matches!(answered(401), RequestError::NotAllowed { .. }));
        assert!(!answered(401).is_missing_right());
        assert!(matches!(answered(403), RequestError::NotAllowed { .. }));
        assert!(answered(403).is_missing_right());
        assert!(matches!(answered(404), RequestError::NotFound { .. }));
        assert!(matches!(answered(409), RequestError::Conflict { .. }));
        assert!(matches!(answered(422), RequestError::Refused { .. }));
        assert!(matches!(answered(429), RequestError::Busy { .. }));
        assert!(matches!(answered(503), RequestError::Busy { .. }));
    }

    #[tokio::test]
    async fn rejected_credentials_are_no_refusal() {
        assert!(matches!(allowed::<()>(Err(answered(403))), Ok(None)));
        assert!(allowed::<()>(Err(answered(401))).is_err());
    }

    #[tokio::test]
    async fn denial_by_admission_is_no_missing_right() {
        const FORBIDDEN: &str = "forbidden by the hub";
        const REFUSED: &str = "the hub refused";
        for (code, message, exit_code, outcome, remedy) in [
            (
                401,
                "Unauthorized",
                UNKNOWN,
                FORBIDDEN,
                "; log in again, or use another kubeconfig",
            ),
            (
                403,
                "no right",
                UNKNOWN,
                FORBIDDEN,
                "; use a kubeconfig with administrator rights",
            ),
            (
                403,
                "admission webhook \"a\" denied the request: no",
                PROBLEM,
                REFUSED,
                "",
            ),
            (
                403,
                "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no",
                PROBLEM,
                REFUSED,
                "",
            ),
            (403, "exceeded quota: a", PROBLEM, REFUSED, ""),
            (
                403,
                "a is forbidden: User \"b\" cannot list resource \"a\": denied the request",
                UNKNOWN,
                FORBIDDEN,
                "; use a kubeconfig with administrator rights",
            ),
        ] {
            let error = answered_with(code, message);
            assert_eq!(error.exit_code(), exit_code, "{error}");
            assert_eq!(error.to_string(), format!("{outcome}: {message}{remedy}"));
        }
    }

    #[tokio::test]
    async fn request_that_cannot_be_built_is_not_blamed_on_the_hub() {
        for (name, why) in [
            (
                "",
                "failed to validate request: A non-empty name is required",
            ),
            ("my svc", "invalid uri character"),
        ] {
            let services = unreachable(Side::Hub).within::<Service>("shop");
            let error = unreachable(Side::Hub).request(services.get(name)).await;
            let error = error.expect_err("no request");
            assert_eq!(error.exit_code(), PROBLEM, "{error}");
            let text = format!("cannot send this request to the hub: {why}");
            assert_eq!(error.to_string(), text);
        }
    }

    #[tokio::test]
    async fn endless_event_of_a_watch_is_too_many() {
        let endless = service_fn(async |_: http::Request<kube::client::Body>| {
            let body = vec![b' '; 9 * 1024 * 1024];
            Ok::<_, BoxError>(http::Response::new(Full::new(Bytes::from(body))))
        });
        let client = Client::new(BoundAnswers(endless), "default");
        let server = ApiServer::by(Side::Member, client, unreachable(Side::Hub).config);
        let services = server.all::<Service>();
        let parameters = WatchParams::default();
        let events = server.request(services.watch(&parameters, "0")).await;
        let mut events = std::pin::pin!(events.expect("a watch"));
        let event = events.next().await.expect("an event");
        let why = server.failure(&event.expect_err("an endless event"));
        assert_eq!(why.exit_code(), UNKNOWN);
        let said = "too much in the member: an event of a watch has more than 8 MiB";
        assert_eq!(why.to_string(), said);
    }

    #[tokio::test]
    async fn a_closed_port_reads_as_connection_refused() {
        let server = unreachable(Side::Hub);
        let error = server.uid().await.expect_err("nothing listens there");
        let text = error.to_string();
        assert!(
            text.starts_with("cannot reach the hub at https://127.0.0.1:1: "),
            "{text}"
        );
        assert!(text.contains("refused"), "{text}");
        assert!(text.contains("--kubeconfig"), "{text}");
    }

    #[tokio::test]
    async fn unverified_servers_are_refused() {
        let check = |url: &str, accept_invalid_certs| {
            let mut config = kube::Config::new(url.parse().expect("a URL"));
            config.accept_invalid_certs = accept_invalid_certs;
            let server = ApiServer::new(Side::Member, config).expect("a client");
            let checked = server.check_verified("the tokens of join");
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check("https://a", false), Ok(()));
        for (url, insecure) in [("https://a", true), ("http://a", false)] {
            let error = check(url, insecure).expect_err(url);
            assert!(error.contains("of the member"), "{error}");
        }
    }

    #[tokio::test]
    async fn unreachable_server_is_named_with_its_proxy_without_user() {
        let mut config = Config::new("https://127.0.0.1:1/".parse().expect("a URL"));
        config.proxy_url = Some("http://me:hunter2@127.0.0.1:2".parse().expect("a URL"));
        let server = ApiServer::new(Side::Member, config).expect("a client");
        let error = server.uid().await.expect_err("nothing listens there");
        let named =
            "cannot reach the member at https://127.0.0.1:1 through the proxy http://127.0.0.1:2: ";
        assert!(error.to_string().starts_with(named), "{error}");
    }
}
