//! The agent of a member that reports which clusters answer there.

use kube::api::DynamicObject;

use super::joining::Joining;
use crate::cluster::objects::{self, Run, preview};
use crate::commands::membership::agent;
use crate::commands::membership::member::paths;
use crate::term::exit::Failure;

/// Changes of `join` for reports on paths.
#[derive(Default)]
pub(super) struct Paths {
    /// Objects to apply to the member, in order.
    pub objects: Vec<DynamicObject>,
    /// Objects to delete from the member, in order.
    unwanted: Vec<DynamicObject>,
}

impl Paths {
    /// Makes the objects that `--report-paths` asks for. Changes nothing.
    ///
    /// # Errors
    /// The member has such an agent of somebody else.
    pub(super) async fn prepare(joining: &Joining<'_>) -> Result<Self, Failure> {
        let (member, args) = (joining.member, joining.args);
        let hub_uid = &joining.hub_uid;
        let mut paths = Self::default();
        match args.report_paths {
            Some(true) => {
                paths::check(member, hub_uid).await?;
                let clusters = (joining.hub, Some(member));
                let image = args.agent_image.as_deref();
                let image = agent::image(clusters, paths::DEPLOYMENT, image).await?;
                paths.objects = paths::objects(hub_uid, &image)?;
            }
            Some(false) => paths.unwanted = paths::owned(member, hub_uid).await?,
            None => {}
        }
        Ok(paths)
    }

    /// Checks that applying the objects takes no field from another field manager, unless
    /// `--force-conflicts` is set.
    pub(super) async fn check(&self, joining: &Joining<'_>) -> Result<(), Failure> {
        let force = joining.args.force_conflicts;
        Ok(preview::check(joining.member, self.objects.iter(), force).await?)
    }

    /// Applies or deletes the objects, after [`Self::check`].
    pub(super) async fn apply(&self, joining: &Joining<'_>) -> Result<(), Failure> {
        let (member, force) = (joining.member, joining.args.force_conflicts);
        for object in &self.objects {
            objects::apply_with(member, object, Run::Real, force).await?;
        }
        for object in &self.unwanted {
            objects::remove(member, object).await?;
        }
        Ok(())
    }
}
