//! Connections that kubeconfigs describe (`k8s.io/client-go/tools/clientcmd`).
//!
//! The loader of kube compares NO_PROXY with the address of the proxy, drops `proxy-url` if they
//! match, and refuses lists that client-go accepts. This module applies the proxy variables like
//! client-go: only without `proxy-url`, and by the address of the API server.

mod proxy;

use std::env;

use http::Uri;
use kube::Config;
use kube::config::{
    Cluster, Context, ExecAuthCluster, KubeConfigOptions, Kubeconfig, KubeconfigError,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, pem};

/// Connection to one API server.
#[derive(Debug)]
pub struct Access {
    /// Address and credentials, with the proxy of the kubeconfig or of the environment.
    pub config: Config,
    /// `proxy-url` of the kubeconfig. Excludes a proxy of the environment, which only `config`
    /// contains.
    pub proxy_url: Option<String>,
}

/// Reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The authorities of the API server are no PEM.
    #[error("failed to parse PEM-encoded certificates: {0}")]
    Certificates(#[from] pem::Error),
    /// A variable of the environment names no proxy.
    #[error("{0} is not a URL")]
    Proxy(&'static str),
}

/// Returns the connection of the current context, or of the context, cluster and user in `options`.
///
/// # Errors
/// [`AccessError`].
pub fn access(kubeconfig: &Kubeconfig, options: &KubeConfigOptions) -> Result<Access, AccessError> {
    access_in(kubeconfig, options, |name| env::var(name).ok())
}

/// [`access`] in an environment with these variables.
fn access_in(
    kubeconfig: &Kubeconfig,
    options: &KubeConfigOptions,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Access, AccessError> {
    let (context, cluster) = selected(kubeconfig, options)?;
    let url = cluster.server.as_ref();
    let url = url.ok_or(KubeconfigError::MissingClusterUrl)?;
    let url = url.parse::<Uri>();
    let mut config = Config::new(url.map_err(KubeconfigError::ParseClusterUrl)?);
    if let Some(namespace) = &context.namespace {
        config.default_namespace.clone_from(namespace);
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    // Like client-go, an unknown user has no credentials.
    let user = options.user.as_ref().or(context.user.as_ref());
    let mut users = kubeconfig.auth_infos.iter();
    let user = users.find(|one| Some(&one.name) == user);
    let user = user.and_then(|one| one.auth_info.clone());
    config.auth_info = user.unwrap_or_default();
    let described = ExecAuthCluster::try_from(cluster)?;
    let authorities = described.certificate_authority_data.as_deref();
    config.root_cert = authorities.map(certificates).transpose()?;
    if let Some(exec) = &mut config.auth_info.exec
        && exec.provide_cluster_info
    {
        exec.cluster = Some(described);
    }
    let proxy_url = cluster.proxy_url.clone().filter(|url| !url.is_empty());
    config.proxy_url = match &proxy_url {
        Some(url) => {
            let url = url.parse::<Uri>();
            Some(url.map_err(KubeconfigError::ParseProxyUrl)?)
        }
        None => proxy::of_environment(&config.cluster_url, variable)?,
    };
    Ok(Access { config, proxy_url })
}

/// Returns the selected context and its cluster.
fn selected<'a>(
    kubeconfig: &'a Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<(&'a Context, &'a Cluster), KubeconfigError> {
    let name = options.context.as_ref();
    let name = name.or(kubeconfig.current_context.as_ref());
    let name = name.ok_or(KubeconfigError::CurrentContextNotSet)?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|one| one.name == *name);
    let context = context.and_then(|one| one.context.as_ref());
    let context = context.ok_or_else(|| KubeconfigError::LoadContext(name.clone()))?;
    let name = options.cluster.as_ref().unwrap_or(&context.cluster);
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|one| one.name == *name);
    let cluster = cluster.and_then(|one| one.cluster.as_ref());
    let cluster = cluster.ok_or_else(|| KubeconfigError::LoadClusterOfContext(name.clone()))?;
    Ok((context, cluster))
}

/// Returns the certificates in PEM as DER.
fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, pem::Error> {
    let all = CertificateDer::pem_slice_iter(text);
    all.map(|one| one.map(|one| one.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOCKS: &str = "socks5://127.0.0.1:1080";

    fn proxy(of_kubeconfig: &str, environment: &[(&str, &str)]) -> Result<Option<Uri>, String> {
        let kubeconfig = json!({
            "current-context": "hub",
            "contexts": [{"name": "hub", "context": {"cluster": "hub"}}],
            "clusters": [{
                "name": "hub",
                "cluster": {"server": "https://hub.example:6443", "proxy-url": of_kubeconfig},
            }],
        });
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).expect("a kubeconfig");
        let variable = |name: &str| {
            let mut all = environment.iter();
            let found = all.find(|(one, _)| *one == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let access = access_in(&kubeconfig, &KubeConfigOptions::default(), variable);
        let access = access.map_err(|error| error.to_string())?;
        assert_eq!(access.proxy_url.is_some(), !of_kubeconfig.is_empty());
        Ok(access.config.proxy_url)
    }

    #[test]
    fn proxy_is_that_of_the_kubeconfig_else_of_the_environment() {
        let set = ("HTTPS_PROXY", "http://proxy.example:1");
        let exempt = |list| ("NO_PROXY", list);
        for (of_kubeconfig, environment, expected) in [
            (SOCKS, vec![], Some(SOCKS)),
            (SOCKS, vec![exempt("localhost,127.0.0.1")], Some(SOCKS)),
            (SOCKS, vec![set, exempt("hub.example,,")], Some(SOCKS)),
            ("", vec![], None),
            ("", vec![set], Some(set.1)),
            ("", vec![set, exempt("proxy.example")], Some(set.1)),
            ("", vec![set, exempt("a,b,")], Some(set.1)),
            ("", vec![set, exempt("no/host")], Some(set.1)),
            ("", vec![set, exempt("a,.example")], None),
            ("", vec![("https_proxy", "proxy.example:1")], Some(set.1)),
            ("", vec![("HTTP_PROXY", set.1)], None),
        ] {
            let expected = expected.map(|url| url.parse::<Uri>().expect("a URL"));
            let proxy = proxy(of_kubeconfig, &environment);
            assert_eq!(proxy, Ok(expected), "{of_kubeconfig} {environment:?}");
        }
        let refused = proxy("", &[("HTTPS_PROXY", "http://a b")]);
        assert_eq!(refused, Err("HTTPS_PROXY is not a URL".to_owned()));
    }
}
