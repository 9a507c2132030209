//! Requests to an API server, each within a deadline, and what it means when there is no answer.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::multicluster::Version;
use causeway::target::{ProxyError, Target, Token, Transport, TransportError};
use k8s_openapi::api::core::v1::Namespace;
use kube::client::retry::RetryPolicy;
use kube::core::{DynamicResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Config, Resource};
use tokio::sync::{OnceCell, watch};
use tower::Layer as _;
use tower::retry::RetryLayer;

use crate::args::{HubArgs, Side};
use crate::exit::{CommandError, PROBLEM, UNKNOWN, USAGE};
use crate::kubeconfig::{self, Access, Choice, LoadError, describe_plugin_failure};
use crate::screen::printable;

/// How long one request may take, unless the person says otherwise.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A request failed: no answer, or a refusal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The kubeconfig that was given cannot be used.
    #[error("invalid kubeconfig of the {side}: {why}")]
    Kubeconfig { side: Side, why: String },
    /// No kubeconfig was given and none was found.
    #[error("no kubeconfig for the hub was found ({0}); set KUBECONFIG or give --kubeconfig")]
    NoKubeconfig(String),
    /// No answer came.
    #[error(
        "cannot reach the {side} at {address}: {why}; check that it is running and that {flag} names the right cluster",
        flag = kubeconfig_flag(side)
    )]
    Unreachable {
        side: Side,
        address: String,
        why: String,
    },
    /// The answer was that the person is not known, or may not do this.
    #[error("forbidden by the {side}: {message}; use a kubeconfig with administrator rights")]
    NotAllowed { side: Side, message: String },
    /// There is no such object, or no such API.
    #[error("the {side} answered: {message}")]
    NotFound { side: Side, message: String },
    /// The object is not, or no longer, as the request says.
    #[error("the {side} refused: {message}")]
    Conflict { side: Side, message: String },
    /// Another refusal.
    #[error("the {side} refused: {message}")]
    Refused { side: Side, message: String },
    /// The API server is there and cannot serve.
    #[error("the {side} is unavailable: {message}; try again")]
    Busy { side: Side, message: String },
}

impl CommandError for RequestError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Kubeconfig { .. } => USAGE,
            Self::NoKubeconfig(_)
            | Self::Unreachable { .. }
            | Self::NotAllowed { .. }
            | Self::Busy { .. } => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

fn kubeconfig_flag(side: &Side) -> &'static str {
    match side {
        Side::Hub => "--kubeconfig",
        Side::Member => "--member-kubeconfig",
    }
}

/// An API server, and how requests reach it.
#[derive(Clone)]
pub(crate) struct ApiServer {
    pub side: Side,
    pub client: Client,
    pub config: Config,
    /// Namespaces of the hub that hold the members' credentials; read where needed.
    pub secret_namespaces: Arc<OnceCell<BTreeSet<String>>>,
    /// `proxy-url` of the kubeconfig, without the proxy of the environment.
    pub proxy_url: Option<String>,
    /// Maximum time of one request.
    pub answer_within: Duration,
}

impl ApiServer {
    /// Connects to the hub of the given kubeconfig, else of the one that kubectl would use.
    pub(crate) async fn hub(args: &HubArgs) -> Result<Self, RequestError> {
        let choice = Choice {
            context: args.context.as_deref(),
            cluster: args.cluster.as_deref(),
            user: args.user.as_deref(),
        };
        let mut access = match kubeconfig::load(args.kubeconfig.as_deref()) {
            Err(LoadError::Absent {
                why,
                in_cluster: true,
            }) if choice.is_empty() => Access {
                config: Config::incluster().map_err(|_| RequestError::NoKubeconfig(why))?,
                proxy_url: None,
            },
            Err(LoadError::Absent { why, .. }) => return Err(RequestError::NoKubeconfig(why)),
            loaded => access(Side::Hub, loaded, choice).await?,
        };
        let user = &mut access.config.auth_info;
        if args.as_user.is_some() {
            user.impersonate.clone_from(&args.as_user);
            user.impersonate_groups = Some(args.as_group.clone());
        }
        if let Some(namespace) = &args.namespace {
            access.config.default_namespace.clone_from(namespace);
        }
        let hub = Self::of(Side::Hub, access)?;
        Ok(Self {
            answer_within: args.request_timeout,
            ..hub
        })
    }

    /// Connects to the member of that kubeconfig.
    pub(crate) async fn member(path: &Path, context: Option<&str>) -> Result<Self, RequestError> {
        let choice = Choice {
            context,
            ..Choice::default()
        };
        let access = access(Side::Member, kubeconfig::load(Some(path)), choice).await?;
        Self::of(Side::Member, access)
    }

    /// Connects to a member by a context of the given kubeconfig, else of the one that kubectl would
    /// use.
    pub(crate) async fn member_by_context(
        path: Option<&Path>,
        context: &str,
    ) -> Result<Self, RequestError> {
        let choice = Choice {
            context: Some(context),
            ..Choice::default()
        };
        let access = access(Side::Member, kubeconfig::load(path), choice).await?;
        Self::of(Side::Member, access)
    }

    fn of(side: Side, access: Access) -> Result<Self, RequestError> {
        let mut server = Self::new(side, access.config)?;
        server.proxy_url = access.proxy_url;
        Ok(server)
    }

    /// One with that configuration. A server that is busy for a moment (429, 503, 504) gets the request again.
    pub(crate) fn new(side: Side, mut config: Config) -> Result<Self, RequestError> {
        config.connect_timeout = Some(CONNECT_WITHIN);
        let client =
            Client::try_from(config.clone()).map_err(|error| RequestError::Kubeconfig {
                side,
                why: describe_plugin_failure(&error, config.auth_info.exec.as_ref())
                    .unwrap_or_else(|| root_cause(&error)),
            })?;
        Ok(Self {
            side,
            client,
            config,
            secret_namespaces: Arc::default(),
            proxy_url: None,
            answer_within: ANSWER_WITHIN,
        })
    }

    /// Connects to a member as causeway-controller does. A server that is busy for a moment gets the
    /// request again.
    pub(crate) fn of_target(target: &Target, token: Token) -> Result<Self, TransportError> {
        let mut config = target.config();
        config.connect_timeout = Some(CONNECT_WITHIN);
        let transport = Transport::new(target, config.clone())?;
        let (_, token) = watch::channel(token);
        let requests = transport.requests(&token).map_err(TransportError::Member)?;
        let requests = RetryLayer::new(RetryPolicy::server_retry()).layer(requests);
        Ok(Self {
            side: Side::Member,
            client: Client::new(requests, config.default_namespace.clone()),
            config,
            secret_namespaces: Arc::default(),
            proxy_url: None,
            answer_within: ANSWER_WITHIN,
        })
    }

    /// Its address, without a trailing slash.
    pub(crate) fn url(&self) -> String {
        self.config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned()
    }

    /// Its address for messages, with the proxy of the kubeconfig or of the environment. A user of the
    /// proxy is left out.
    fn address(&self) -> String {
        let proxy = self.config.proxy_url.as_ref();
        let proxy = proxy.and_then(|proxy| proxy.scheme_str().zip(proxy.authority()));
        let Some((scheme, authority)) = proxy else {
            return self.url();
        };
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        format!("{} through the proxy {scheme}://{host}", self.url())
    }

    /// Sends one request and waits for the answer, 10 seconds at most unless the person says otherwise.
    pub(crate) async fn request<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        match tokio::time::timeout(self.answer_within, request).await {
            Ok(answer) => answer.map_err(|error| self.failure(&error)),
            Err(_) => Err(self.late()),
        }
    }

    /// Sends one request; `None` where there is no such object, or no such API.
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

    /// Whether it serves a kind, of that plural, in that version of its API.
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

    /// No answer came in time.
    pub(crate) fn late(&self) -> RequestError {
        self.unreachable(format!(
            "no answer within {} s, or only that it is busy",
            self.answer_within.as_secs()
        ))
    }

    /// No answer came, for that reason.
    pub(crate) fn unreachable(&self, why: String) -> RequestError {
        RequestError::Unreachable {
            side: self.side,
            address: self.address(),
            why,
        }
    }

    /// What an error of a request means.
    pub(crate) fn failure(&self, error: &kube::Error) -> RequestError {
        let side = self.side;
        let kube::Error::Api(status) = error else {
            let exec = self.config.auth_info.exec.as_ref();
            let of_plugin = describe_plugin_failure(error, exec);
            return self.unreachable(of_plugin.unwrap_or_else(|| root_cause(error)));
        };
        let message = printable(&status.message).into_owned();
        match status.code {
            401 | 403 => RequestError::NotAllowed { side, message },
            404 => RequestError::NotFound { side, message },
            409 => RequestError::Conflict { side, message },
            429 | 500.. => RequestError::Busy { side, message },
            _ => RequestError::Refused { side, message },
        }
    }

    /// A namespaced kind, in that namespace, or in all.
    pub(crate) fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let client = self.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }

    /// The same of the Multi-Cluster Services API, in that version.
    pub(crate) fn api_in<K>(&self, version: Version, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = Version, Scope = DynamicResourceScope>,
    {
        let client = self.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &version),
            None => Api::all_with(client, &version),
        }
    }

    /// The identity of the cluster: the UID of its kube-system namespace.
    pub(crate) async fn uid(&self) -> Result<String, RequestError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let kube_system = self.request(namespaces.get_metadata("kube-system")).await?;
        Ok(kube_system.metadata.uid.unwrap_or_default())
    }
}

async fn access(
    side: Side,
    loaded: Result<kubeconfig::Loaded, LoadError>,
    choice: Choice<'_>,
) -> Result<Access, RequestError> {
    let unusable = |error: LoadError| RequestError::Kubeconfig {
        side,
        why: error.to_string(),
    };
    loaded
        .map_err(unusable)?
        .access(choice)
        .await
        .map_err(unusable)
}

/// The innermost error: "connection refused" says more than "client error". That of a proxy names it.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    let mut proxy = String::new();
    while let Some(source) = innermost.source() {
        if let Some(ProxyError::Unusable { proxy: at, .. }) = innermost.downcast_ref() {
            proxy = format!("its proxy {at}: ");
        }
        innermost = source;
    }
    printable(&format!("{proxy}{innermost}")).into_owned()
}

/// Returns `None` where the person, or the credentials, may not do what was requested.
pub(crate) fn allowed<T>(answer: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(RequestError::NotAllowed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ApiServer {
        let config = Config::new("https://127.0.0.1:1/".parse().expect("a URL"));
        ApiServer::new(Side::Hub, config).expect("a client")
    }

    fn answered(code: u16) -> RequestError {
        let status = kube::core::Status::failure("no", "Reason").with_code(code);
        server().failure(&kube::Error::Api(status.boxed()))
    }

    #[tokio::test]
    async fn an_answer_says_whether_the_server_could_be_asked() {
        assert!(matches!(answered(401), RequestError::NotAllowed { .. }));
        assert!(matches!(answered(403), RequestError::NotAllowed { .. }));
        assert!(matches!(answered(404), RequestError::NotFound { .. }));
        assert!(matches!(answered(409), RequestError::Conflict { .. }));
        assert!(matches!(answered(422), RequestError::Refused { .. }));
        assert!(matches!(answered(429), RequestError::Busy { .. }));
        assert!(matches!(answered(503), RequestError::Busy { .. }));
    }

    #[tokio::test]
    async fn a_closed_port_reads_as_connection_refused() {
        let error = server().uid().await.expect_err("nothing listens there");
        let text = error.to_string();
        assert!(
            text.starts_with("cannot reach the hub at https://127.0.0.1:1: "),
            "{text}"
        );
        assert!(text.contains("refused"), "{text}");
        assert!(text.contains("--kubeconfig"), "{text}");
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
