//! Arguments that select a hub, as in kubectl.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use causeway::domain::{ClusterName, MalformedDuration, is_subdomain, parse_duration};
use causeway::target::TunnelFront;
use clap::{Args, ValueEnum, ValueHint};

/// One of the two clusters of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    Hub,
    Member,
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hub => "hub",
            Self::Member => "member",
        })
    }
}

/// Hub of a command, and the user on it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubArgs {
    /// Kubeconfig of the hub [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Cluster of that kubeconfig [default: that of the context]
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// User of that kubeconfig [default: that of the context]
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Namespace [default: that of the context, else default]
    #[arg(short, long, global = true, value_name = "NAMESPACE", value_parser = object_name)]
    pub namespace: Option<String>,
    /// User to impersonate on the hub
    #[arg(long = "as", global = true, value_name = "USER", id = "as_user")]
    pub as_user: Option<String>,
    /// Group to impersonate on the hub; repeatable
    #[arg(long, global = true, value_name = "GROUP", requires = "as_user")]
    pub as_group: Vec<String>,
    /// Maximum time of one request to the hub; 0 for no limit
    #[arg(
        long,
        global = true,
        value_name = "DURATION",
        value_parser = request_timeout,
        default_value = "10s"
    )]
    pub request_timeout: Duration,
    /// Front of causeway-tunnel, for members that the hub cannot dial [default: a port that is
    /// forwarded to its pods on the hub]
    #[arg(long, global = true, value_name = "URL")]
    pub tunnel_front: Option<TunnelFront>,
}

/// Kubeconfigs by which the user reads members.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MembersArgs {
    /// Kubeconfig to read members with, in place of the credentials on the hub: FILE with a context
    /// for each, or MEMBER=FILE of one; repeatable
    #[arg(
        long = "member-kubeconfig",
        value_name = "[MEMBER=]FILE",
        value_parser = member_file,
        value_hint = ValueHint::AnyPath,
        help_heading = "Member"
    )]
    pub files: Vec<MemberFile>,
    /// Context of a member; repeatable [default: the context of the member's name; of MEMBER=FILE
    /// its current one]
    #[arg(long = "member", value_name = "MEMBER=CONTEXT", value_parser = member_context, help_heading = "Member")]
    pub contexts: Vec<(String, String)>,
}

/// Kubeconfig of one member, or with a context for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberFile {
    pub member: Option<String>,
    pub path: PathBuf,
}

/// Parses a file that may be of one member, `MEMBER=FILE`. A path in which something other than a
/// name precedes the `=` is a file for all.
pub(crate) fn member_file(text: &str) -> Result<MemberFile, &'static str> {
    let named = text.split_once('=');
    let named = named.filter(|(member, _)| ClusterName::try_from(*member).is_ok());
    let (member, path) = match named {
        Some((member, path)) => (Some(member.to_owned()), path),
        None => (None, text),
    };
    let path = PathBuf::from(path);
    let is_path = !path.as_os_str().is_empty();
    let file = MemberFile { member, path };
    is_path
        .then_some(file)
        .ok_or("write it as FILE or MEMBER=FILE")
}

/// Parses the context of a member, `MEMBER=CONTEXT`.
fn member_context(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((member, context)) if !member.is_empty() && !context.is_empty() => {
            Ok((member.to_owned(), context.to_owned()))
        }
        _ => Err("write it as MEMBER=CONTEXT"),
    }
}

/// Parses the name of a service or a namespace.
pub(crate) fn object_name(text: &str) -> Result<String, &'static str> {
    match text {
        name if is_subdomain(name) => Ok(name.to_owned()),
        path if path.contains('/') => Err("a slash is not part of a name: use NAME -n NAMESPACE"),
        _ => Err("a name has lower-case letters, digits, dashes and dots"),
    }
}

/// Parses the maximum time of a request as kubectl does: a number alone is of seconds, and 0 is no
/// limit, for which a year stands.
pub(crate) fn request_timeout(text: &str) -> Result<Duration, MalformedDuration> {
    const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3600);
    let seconds = text.parse().map(Duration::from_secs);
    let timeout = seconds.or_else(|_| parse_duration(text))?;
    Ok(match timeout.is_zero() {
        true => UNLIMITED,
        false => timeout.min(UNLIMITED),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_a_slash_is_refused_with_a_remedy() {
        let remedy = "a slash is not part of a name: use NAME -n NAMESPACE";
        assert_eq!(object_name("shop/foo"), Err(remedy));
    }
}
