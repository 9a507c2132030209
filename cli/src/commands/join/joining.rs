//! Join of a member that is reached from here.

use causeway::api::{Cluster, ClusterSpec, SecretReference, SyncMode};
use causeway::domain::ClusterName;
use causeway::domain::protected::MEMBERS_NAMESPACE;
use causeway::target::is_tunnelled;
use kube::api::DynamicObject;

use super::checks::{check_identity, check_tunnelled};
use super::{annotations, recorded};
use crate::args::{JoinArgs, TokenFrom};
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::ObjectError;
use crate::commands::membership::hub;
use crate::commands::membership::location::{Located, Location};
use crate::commands::membership::member::{self, Identity, agent};
use crate::observe::once;
use crate::term::exit::Failure;
use crate::term::output::{self, OutputError};

/// Both clusters and the arguments of a join, with the facts that it depends on.
pub(super) struct Joining<'a> {
    pub hub: &'a ApiServer,
    pub member: &'a ApiServer,
    pub name: &'a ClusterName,
    pub args: &'a JoinArgs,
    pub identity: Identity,
    /// Cluster of the member, if it has joined before.
    pub recorded: Option<Cluster>,
    pub hub_uid: String,
    /// URL at which the hub reaches the member's API server.
    pub endpoint: String,
    /// Proxy through which the hub reaches it.
    proxy: Option<String>,
}

impl<'a> Joining<'a> {
    /// Reads the facts, and checks that the member may be joined under this name. A recorded
    /// address and a recorded proxy stay unless the user gives others.
    pub(super) async fn read(
        hub: &'a ApiServer,
        member: &'a ApiServer,
        name: &'a ClusterName,
        args: &'a JoinArgs,
    ) -> Result<Self, Failure> {
        let identity = member::identify(member).await?;
        let known = once::clusters(hub).await?.unwrap_or_default();
        check_identity(&known, name, &identity.uid)?;
        let recorded = recorded(&known, name).cloned();
        check_tunnelled(recorded.as_ref(), name, args)?;
        let has_tunnel = args.tunnel.is_some();
        let kept = recorded.as_ref();
        let kept = kept.filter(|cluster| is_tunnelled(*cluster) == has_tunnel);
        let kept = kept.map(|cluster| &cluster.spec);
        let endpoint = kept.and_then(|spec| spec.api_endpoint.clone());
        let endpoint = endpoint.filter(|endpoint| !endpoint.is_empty());
        let endpoint = match args.api_endpoint.clone().or(endpoint) {
            Some(endpoint) => endpoint,
            None if has_tunnel => agent::api_endpoint(member).await?,
            None => member.url(),
        };
        let proxy = member.proxy_url.clone();
        let proxy = proxy.or_else(|| kept?.proxy_url.clone());
        let proxy = proxy.filter(|url| !has_tunnel && !url.is_empty());
        Ok(Self {
            hub,
            member,
            name,
            args,
            identity,
            recorded,
            hub_uid: hub.uid().await?,
            endpoint,
            proxy,
        })
    }

    /// Whether the agent gave the controller the token before this join.
    pub(super) fn gave_credentials(&self) -> bool {
        let recorded = self.recorded.as_ref();
        recorded.is_some_and(Cluster::has_agent_credentials)
    }

    /// Whether the agent gives the controller the token, as the flags say or as it is.
    pub(super) fn gives_credentials(&self) -> bool {
        let from = self.args.token_from;
        from.map_or(self.gave_credentials(), |from| from == TokenFrom::Agent)
    }

    /// Finds the region and zones of the member. Prints a note for each value that it cannot find.
    pub(super) async fn location(&self) -> Result<Located, Failure> {
        let given = Location::new(self.args.region.clone(), self.args.zones.clone());
        let recorded = self.recorded.as_ref().map(Location::recorded);
        let located = Located::find(self.member, given, recorded.unwrap_or_default()).await?;
        for note in &located.notes {
            output::progress(format_args!("note: {note}"))?;
        }
        Ok(located)
    }

    /// Prints a note for the recorded address and the recorded proxy if the kubeconfig has others.
    pub(super) fn note_kept(&self) -> Result<(), OutputError> {
        let (name, endpoint, url) = (self.name, &self.endpoint, self.member.url());
        let is_dialled = self.args.tunnel.is_none();
        if is_dialled && self.args.api_endpoint.is_none() && !is_address_of(endpoint, &url) {
            output::progress(format_args!(
                "note: the hub reaches {name} at {endpoint}, as recorded, not at {url} of the \
                 kubeconfig; to change that, give --api-endpoint"
            ))?;
        }
        if self.proxy.is_some() && self.member.proxy_url.is_none() {
            output::progress(format_args!(
                "note: the hub reaches {name} through the proxy of spec.proxyURL, as recorded, and \
                 the kubeconfig has no proxy-url; to remove it: kubectl patch cluster {name} \
                 --type=merge -p '{{\"spec\":{{\"proxyURL\":null}}}}'"
            ))?;
        }
        Ok(())
    }

    /// Returns the Cluster of the member.
    pub(super) fn cluster(&self, location: &Location) -> Result<DynamicObject, ObjectError> {
        let sync_mode = match self.args.tunnel {
            Some(_) => SyncMode::Pull,
            None => SyncMode::Push,
        };
        let secret = SecretReference {
            namespace: MEMBERS_NAMESPACE.to_owned(),
            name: self.name.to_string(),
        };
        let spec = ClusterSpec {
            id: Some(self.identity.uid.clone()),
            sync_mode: Some(sync_mode),
            api_endpoint: Some(self.endpoint.clone()),
            secret_ref: (!self.gives_credentials()).then_some(secret),
            proxy_url: self.proxy.clone(),
            region: location.region.clone(),
            zones: location.zones.clone(),
            ..ClusterSpec::default()
        };
        let annotations = annotations(self.recorded.as_ref(), self.args);
        hub::cluster(self.name, annotations, &spec)
    }
}

/// Whether a recorded address is this URL. The address may lack `https://` and end with a slash.
pub(super) fn is_address_of(recorded: &str, url: &str) -> bool {
    let recorded = recorded.trim().trim_end_matches('/');
    recorded == url || url.strip_prefix("https://") == Some(recorded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_address_may_lack_the_scheme() {
        for (recorded, is_same) in [
            ("https://10.0.0.2:6443", true),
            ("https://10.0.0.2:6443/", true),
            ("10.0.0.2:6443", true),
            ("http://10.0.0.2:6443", false),
            ("10.0.0.3:6443", false),
        ] {
            let is_found = is_address_of(recorded, "https://10.0.0.2:6443");
            assert_eq!(is_found, is_same, "{recorded}");
        }
    }
}
