//! Join of a member that is reached from here.

use causeway::domain::ClusterName;
use kube::api::DynamicObject;

use super::checks::{check_identity, check_tunnelled};
use super::{networking, recorded};
use crate::args::{JoinArgs, TokenFrom};
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::ObjectError;
use crate::commands::membership::hub::{self, Known};
use crate::commands::membership::location::{Located, Location};
use crate::commands::membership::member::{self, Identity, agent};
use crate::term::exit::Failure;
use crate::term::output;

/// Both clusters and the arguments of a join, with the facts that it depends on.
pub(super) struct Joining<'a> {
    pub hub: &'a ApiServer,
    pub member: &'a ApiServer,
    pub name: &'a ClusterName,
    pub args: &'a JoinArgs,
    pub identity: Identity,
    /// Record of the member, if it has joined before.
    pub recorded: Option<Known>,
    pub hub_uid: String,
    /// URL at which the hub reaches the member's API server.
    pub endpoint: String,
}

impl<'a> Joining<'a> {
    /// Reads the facts, and checks that the member may be joined under this name.
    pub(super) async fn read(
        hub: &'a ApiServer,
        member: &'a ApiServer,
        name: &'a ClusterName,
        args: &'a JoinArgs,
    ) -> Result<Self, Failure> {
        let identity = member::identify(member).await?;
        let known = hub::known(hub).await?;
        check_identity(&known, name, &identity.uid)?;
        let recorded = recorded(&known, name).cloned();
        check_tunnelled(recorded.as_ref(), name, args)?;
        let endpoint = match (&args.api_endpoint, &args.tunnel) {
            (Some(given), _) => given.clone(),
            (None, Some(_)) => agent::api_endpoint(member).await?,
            (None, None) => member.url(),
        };
        Ok(Self {
            hub,
            member,
            name,
            args,
            identity,
            recorded,
            hub_uid: hub.uid().await?,
            endpoint,
        })
    }

    /// Whether the agent gave the controller the token before this join.
    pub(super) fn gave_credentials(&self) -> bool {
        let recorded = self.recorded.as_ref();
        recorded.is_some_and(|known| known.has_agent_credentials)
    }

    /// Whether the agent gives the controller the token, as the flags say or as it is.
    pub(super) fn gives_credentials(&self) -> bool {
        let from = self.args.token_from;
        from.map_or(self.gave_credentials(), |from| from == TokenFrom::Agent)
    }

    /// Finds the region and zones of the member. Prints a note for each value that it cannot find.
    pub(super) async fn location(&self) -> Result<Located, Failure> {
        let given = Location::new(self.args.region.clone(), self.args.zones.clone());
        let recorded = self.recorded.as_ref();
        let recorded = recorded.map(|cluster| cluster.location.clone());
        let located = Located::find(self.member, given, recorded.unwrap_or_default()).await?;
        for note in &located.notes {
            output::progress(format_args!("note: {note}"))?;
        }
        Ok(located)
    }

    /// Returns the Cluster of the member.
    pub(super) fn cluster(&self, location: &Location) -> Result<DynamicObject, ObjectError> {
        let is_tunnelled = self.args.tunnel.is_some();
        let proxy = self.member.proxy_url.as_deref();
        let reports_paths = self.args.report_paths;
        let fields = hub::MemberFields {
            id: Some(&self.identity.uid),
            endpoint: Some(&self.endpoint),
            proxy: proxy.filter(|_| !is_tunnelled),
            location,
            networking: &networking(self.recorded.as_ref(), self.args),
            is_tunnelled,
            has_agent_credentials: self.gives_credentials(),
            reports_paths: reports_paths.or_else(|| self.recorded.as_ref()?.reports_paths),
        };
        hub::cluster(self.name, &fields)
    }
}
