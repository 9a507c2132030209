//! Objects of a membership on the hub and in the member, which `join`, `unjoin` and `tunnel` share.

pub(crate) mod agent;
pub(crate) mod hub;
pub(crate) mod leftovers;
pub(crate) mod location;
pub(crate) mod member;

use std::fmt::Display;

use crate::cluster::api_server::ApiServer;
pub(crate) use crate::cluster::cleanup::{cleaning, is_kept, surrender};
use crate::term::output::{self, OutputError};

/// Prints the commands that delete the objects that the controller could not clean up.
pub(crate) async fn report_left(
    hub: &ApiServer,
    name: impl Display,
    why: &str,
) -> Result<(), OutputError> {
    output::result(format_args!(
        "note: {name} could not be cleaned up{why}; what causeway wrote there remains. When it can be reached, join and unjoin it again, or \
         run there: {}",
        hub::leftovers_command(hub).await
    ))
}
