//! `kubectl mcs explain`: locates each endpoint of a service, and explains missing ones.

use causeway::domain::ServiceKey;

use crate::args::ExplainArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::lease::{self, Controller};
use crate::observe::kubeconfigs;
use crate::observe::once;
use crate::observe::verification::Verification;
use crate::term::exit::{ExitState, Failure};
use crate::term::output;
use crate::views::explain::{Answer, explained_with};

/// Explains a service. Returns [`ExitState::Good`] if every consumer has every ready endpoint, and
/// [`ExitState::Unknown`] if the only problems are members that could not be read.
pub(crate) async fn run(hub: &HubArgs, args: &ExplainArgs) -> Result<ExitState, Failure> {
    let hub = kubeconfigs::hub(hub, &args.members).await?;
    let key = ServiceKey::new(hub.config.default_namespace.as_str(), args.name.as_str());
    let snapshot = once::read(&hub, &key, args.insecure.allow_insecure_members).await?;
    let controller = Controller::read(&hub, &args.controller.lease).await?;
    let explanation = explained_with(&snapshot, &controller, lease::now(&hub).await);
    let verified = Verification::read(&hub, &key).await;
    let answer = Answer::new(&explanation, &verified);
    output::report(&answer, args.output.format, || {
        answer.render(args.endpoints)
    })?;
    let only_unread = explanation.is_wrong_only_where_unread();
    Ok(ExitState::new(
        explanation.ready || only_unread,
        !only_unread,
    ))
}
