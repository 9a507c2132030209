//! Where admin endpoints are, if not in pods of the hub.

use clap::Args;
use http::Uri;

use super::values;

/// How admin endpoints are reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminUrlArgs {
    /// Admin address (--admin-bind) of a process that runs elsewhere; repeatable [default: the pods in the namespace of the Lease]
    #[arg(
        long = "admin-url",
        value_name = "URL",
        value_parser = values::admin_url
    )]
    pub urls: Vec<Uri>,
}
