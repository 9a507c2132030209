//! The agent of a member that reports which clusters answer there.

use kube::api::DynamicObject;

use crate::args::JoinArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::{self, Run, preview};
use crate::commands::membership::agent;
use crate::commands::membership::hub::Known;
use crate::commands::membership::member::paths;
use crate::term::exit::Failure;

/// Changes of `join` for reports on paths.
pub(super) struct Paths {
    /// Objects to apply to the member, in order.
    pub objects: Vec<DynamicObject>,
    /// Objects to delete from the member, in order.
    unwanted: Vec<DynamicObject>,
    /// Whether the controller reads reports. `None` leaves it as it is.
    pub are_read: Option<bool>,
}

impl Paths {
    /// Makes the objects that `--report-paths` asks for. Changes nothing.
    ///
    /// # Errors
    /// The member has such an agent of somebody else.
    pub(super) async fn prepare(
        hub: &ApiServer,
        member: &ApiServer,
        hub_uid: &str,
        recorded: Option<&Known>,
        args: &JoinArgs,
    ) -> Result<Self, Failure> {
        let mut paths = Self {
            objects: Vec::new(),
            unwanted: Vec::new(),
            are_read: args
                .report_paths
                .or_else(|| recorded.and_then(|known| known.reports_paths)),
        };
        let Some(reports) = args.report_paths else {
            return Ok(paths);
        };
        if reports {
            paths::check(member, hub_uid).await?;
            let image = agent::image(hub, args.agent_image.as_deref()).await?;
            paths.objects = paths::objects(hub_uid, &image)?;
        } else {
            paths.unwanted = paths::owned(member, hub_uid).await?;
        }
        Ok(paths)
    }

    /// Applies or deletes the objects. Without `force`, a field that another field manager changed
    /// is an error.
    pub(super) async fn apply(&self, member: &ApiServer, force: bool) -> Result<(), Failure> {
        preview::check(member, self.objects.iter(), force).await?;
        for object in &self.objects {
            objects::apply_with(member, object, Run::Real, force).await?;
        }
        for object in &self.unwanted {
            objects::remove(member, object).await?;
        }
        Ok(())
    }
}
