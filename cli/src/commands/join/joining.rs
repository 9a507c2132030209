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
    pub known: Vec<Known>,
    pub hub_uid: String,
    /// URL at which the hub reaches the member's API server.
    pub endpoint: String,
}

impl<'a> Joining<'a> {
    /// Reads the facts, and checks that the member may be joined under this name. `endpoint` is the
    /// one that the user gives.
    pub(super) async fn read(
        hub: &'a ApiServer,
        member: &'a ApiServer,
        name: &'a ClusterName,
        endpoint: Option<String>,
        args: &'a JoinArgs,
    ) -> Result<Self, Failure> {
        let identity = member::identify(member).await?;
        let known = hub::known(hub).await?;
        check_identity(&known, name, &identity.uid)?;
        check_tunnelled(&known, name, args)?;
        let endpoint = match (endpoint, &args.tunnel) {
            (Some(given), _) => given,
            (None, Some(_)) => agent::api_endpoint(member).await?,
            (None, None) => member.url(),
        };
        Ok(Self {
            hub,
            member,
            name,
            args,
            identity,
            known,
            hub_uid: hub.uid().await?,
            endpoint,
        })
    }

    /// Returns the record of the member.
    pub(super) fn recorded(&self) -> Option<&Known> {
        recorded(&self.known, self.name)
    }

    /// Whether the agent gives the controller the token, as the flags say or as it is.
    pub(super) fn gives_credentials(&self) -> bool {
        let recorded = self.recorded();
        let recorded = recorded.is_some_and(|known| known.has_agent_credentials);
        let from = self.args.token_from;
        from.map_or(recorded, |from| from == TokenFrom::Agent)
    }

    /// Finds the region and zones of the member. Prints a note for each value that it cannot find.
    pub(super) async fn location(&self) -> Result<Located, Failure> {
        let given = Location::new(self.args.region.clone(), self.args.zones.clone());
        let recorded = self.recorded().map(|cluster| cluster.location.clone());
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
        let fields = hub::MemberFields {
            id: Some(&self.identity.uid),
            endpoint: Some(&self.endpoint),
            proxy: proxy.filter(|_| !is_tunnelled),
            location,
            networking: &networking(&self.known, self.name, self.args),
            is_tunnelled,
            has_agent_credentials: self.gives_credentials(),
            reports_paths: self
                .args
                .report_paths
                .or_else(|| self.recorded()?.reports_paths),
        };
        hub::cluster(self.name, &fields)
    }
}
