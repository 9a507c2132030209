//! Exit codes: 0 good, 1 a problem was found or the command failed, 2 wrong usage, 3 unknown.

use crate::api_server::RequestError;
use crate::bug_report::BugReportError;
use crate::check::CheckError;
use crate::confirm_deletions::ConfirmDeletionsError;
use crate::definitions::DefinitionError;
use crate::diff::DiffError;
use crate::dns::DnsError;
use crate::drain::DrainError;
use crate::explain::ExplainError;
use crate::hub::HubError;
use crate::install::InstallError;
use crate::join::JoinError;
use crate::karmada::moving::MoveError;
use crate::member::MemberError;
use crate::objects::ObjectError;
use crate::output::OutputError;
use crate::snapshot::gather::GatherError;
use crate::status::StatusError;
use crate::top::TopError;
use crate::ui::{RightsError, UiError};
use crate::uninstall::UninstallError;
use crate::unjoin::UnjoinError;
use crate::version::VersionError;

/// A problem was found, or the command failed.
pub(crate) const PROBLEM: u8 = 1;
/// The command line, or a kubeconfig that it names, makes no sense.
pub(crate) const USAGE: u8 = 2;
/// Something that the answer needs could not be read: unreachable, forbidden, not compared.
pub(crate) const UNKNOWN: u8 = 3;

/// Exit state of a command that reports a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitState {
    Good,
    Problem,
    /// No problem was found in the part that could be read.
    Unknown,
}

impl ExitState {
    /// Combines a result with whether all of its inputs could be read. A problem that was found
    /// remains one, whatever else is unknown.
    pub(crate) fn new(is_good: bool, is_complete: bool) -> Self {
        match (is_good, is_complete) {
            (false, _) => Self::Problem,
            (true, false) => Self::Unknown,
            (true, true) => Self::Good,
        }
    }

    /// Exit code of this state.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Problem => PROBLEM,
            Self::Unknown => UNKNOWN,
        }
    }
}

/// Why a command ended badly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Uninstall(#[from] UninstallError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Unjoin(#[from] UnjoinError),
    #[error(transparent)]
    Status(#[from] StatusError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error(transparent)]
    Ui(#[from] UiError),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    BugReport(#[from] BugReportError),
    #[error(transparent)]
    Diff(#[from] DiffError),
    #[error(transparent)]
    Dns(#[from] DnsError),
    #[error(transparent)]
    Drain(#[from] DrainError),
    #[error(transparent)]
    Move(#[from] MoveError),
    #[error(transparent)]
    ConfirmDeletions(#[from] ConfirmDeletionsError),
    #[error(transparent)]
    Top(#[from] TopError),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    #[error("cannot start: no cryptography for TLS")]
    Cryptography,
}

impl Failure {
    /// The exit code of this end.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Install(error) => install(error),
            Self::Uninstall(error) => uninstall(error),
            Self::Join(error) => join(error),
            Self::Unjoin(error) => unjoin(error),
            Self::Diff(error) => diff(error),
            Self::Ui(error) => ui(error),
            Self::Dns(error) => dns(error),
            Self::Drain(error) => drain(error),
            Self::Move(error) => moving(error),
            Self::ConfirmDeletions(error) => confirm_deletions(error),
            Self::Status(StatusError::Request(error))
            | Self::Explain(
                ExplainError::Request(error) | ExplainError::Gather(GatherError::Request(error)),
            )
            | Self::Check(CheckError::Request(error))
            | Self::BugReport(BugReportError::Request(error))
            | Self::Top(TopError::Request(error))
            | Self::Version(VersionError::Request(error)) => request(error),
            Self::Status(StatusError::NotKnown { .. }) => UNKNOWN,
            Self::Status(StatusError::NotFound { unread, .. }) if !unread.is_empty() => UNKNOWN,
            Self::Status(_)
            | Self::Explain(_)
            | Self::Check(_)
            | Self::BugReport(_)
            | Self::Top(_)
            | Self::Version(_) => PROBLEM,
            Self::Output(_) => PROBLEM,
            Self::Runtime(_) | Self::Cryptography => UNKNOWN,
        }
    }
}

fn request(error: &RequestError) -> u8 {
    match error {
        RequestError::Kubeconfig { .. } => USAGE,
        RequestError::NoKubeconfig(_)
        | RequestError::Unreachable { .. }
        | RequestError::NotAllowed { .. }
        | RequestError::Busy { .. } => UNKNOWN,
        RequestError::NotFound { .. }
        | RequestError::Conflict { .. }
        | RequestError::Refused { .. } => PROBLEM,
    }
}

fn object(error: &ObjectError) -> u8 {
    match error {
        ObjectError::Request(error) => request(error),
        _ => PROBLEM,
    }
}

fn hub(error: &HubError) -> u8 {
    match error {
        HubError::Request(error) => request(error),
        HubError::NoClusterApi | HubError::Karmada | HubError::NoNamespace => PROBLEM,
    }
}

fn member(error: &MemberError) -> u8 {
    match error {
        MemberError::Request(error) => request(error),
        MemberError::Object(error) => object(error),
        _ => PROBLEM,
    }
}

fn definition(error: &DefinitionError) -> u8 {
    match error {
        DefinitionError::Request(error) => request(error),
        DefinitionError::Object(error) => object(error),
        DefinitionError::Output(_) | DefinitionError::NotEstablished { .. } => PROBLEM,
    }
}

fn install(error: &InstallError) -> u8 {
    match error {
        InstallError::Authority { .. } => USAGE,
        InstallError::Request(error) => request(error),
        InstallError::Object(error) => object(error),
        InstallError::Definition(error) => definition(error),
        InstallError::NotReady(_)
        | InstallError::Output(_)
        | InstallError::TooOld(_)
        | InstallError::Older { .. }
        | InstallError::Lacks { .. }
        | InstallError::OfHelm { .. }
        | InstallError::NamespaceEnds(_)
        | InstallError::NoKarmada
        | InstallError::NoCertManager => PROBLEM,
    }
}

fn uninstall(error: &UninstallError) -> u8 {
    match error {
        UninstallError::NotConfirmed => USAGE,
        UninstallError::WorksForbidden | UninstallError::LeaseForbidden(_) => UNKNOWN,
        UninstallError::Request(error) => request(error),
        UninstallError::Object(error) => object(error),
        UninstallError::Definition(error) => definition(error),
        UninstallError::Output(_)
        | UninstallError::Input(_)
        | UninstallError::Serving { .. }
        | UninstallError::ManagedByKarmada { .. }
        | UninstallError::StillRuns { .. }
        | UninstallError::FinalizersLeft { .. }
        | UninstallError::OfHelm { .. }
        | UninstallError::Declined
        | UninstallError::NotCleaned { .. }
        | UninstallError::NotGone { .. } => PROBLEM,
    }
}

fn moving(error: &MoveError) -> u8 {
    match error {
        MoveError::Request(error) | MoveError::Gather(GatherError::Request(error)) => {
            request(error)
        }
        MoveError::WorksForbidden | MoveError::HubForbidden => UNKNOWN,
        _ => PROBLEM,
    }
}

fn join(error: &JoinError) -> u8 {
    match error {
        JoinError::Name { .. }
        | JoinError::Endpoint(_)
        | JoinError::Insecure { .. }
        | JoinError::ProxyUser => USAGE,
        JoinError::Request(error) => request(error),
        JoinError::Hub(error) => hub(error),
        JoinError::Member(error) => member(error),
        JoinError::Definition(error) => definition(error),
        JoinError::Object(error) => object(error),
        JoinError::Output(_)
        | JoinError::JoinedAs(_)
        | JoinError::AnotherCluster { .. }
        | JoinError::NotSynced { .. } => PROBLEM,
    }
}

fn unjoin(error: &UnjoinError) -> u8 {
    match error {
        UnjoinError::Name(error) => join(error),
        UnjoinError::Request(error) => request(error),
        UnjoinError::Hub(error) => hub(error),
        UnjoinError::Member(error) => member(error),
        UnjoinError::Definition(error) => definition(error),
        UnjoinError::Object(error) => object(error),
        UnjoinError::Output(_)
        | UnjoinError::NotJoined(_)
        | UnjoinError::UnknownName(_)
        | UnjoinError::JoinedAs { .. }
        | UnjoinError::NoController { .. }
        | UnjoinError::AnotherCluster { .. }
        | UnjoinError::NotCleaned { .. } => PROBLEM,
    }
}

/// As `kubectl diff` has it, more than 1: that is said of differences.
fn diff(error: &DiffError) -> u8 {
    match error {
        DiffError::File(_) | DiffError::Refused { .. } => USAGE,
        DiffError::Request(error) | DiffError::Gather(GatherError::Request(error))
            if request(error) == USAGE =>
        {
            USAGE
        }
        _ => UNKNOWN,
    }
}

fn ui(error: &UiError) -> u8 {
    match error {
        UiError::Request(error) | UiError::Rights(RightsError::Request(error)) => request(error),
        UiError::Rights(RightsError::Forbidden { .. }) => UNKNOWN,
        _ => PROBLEM,
    }
}

fn dns(error: &DnsError) -> u8 {
    match error {
        DnsError::NotConfirmed => USAGE,
        DnsError::Name(error) => join(error),
        DnsError::Request(error) => request(error),
        DnsError::Object(error) => object(error),
        DnsError::Output(_)
        | DnsError::NotJoined(_)
        | DnsError::AnotherCluster { .. }
        | DnsError::Input(_)
        | DnsError::Declined
        | DnsError::Refused(_)
        | DnsError::NoRights { .. } => PROBLEM,
    }
}

fn drain(error: &DrainError) -> u8 {
    match error {
        DrainError::Name(error) => join(error),
        DrainError::Request(error) => request(error),
        DrainError::Hub(error) => hub(error),
        DrainError::Output(_)
        | DrainError::NotJoined(_)
        | DrainError::Removed(_)
        | DrainError::NotWithdrawn { .. } => PROBLEM,
        DrainError::NotKnown { .. } => UNKNOWN,
    }
}

fn confirm_deletions(error: &ConfirmDeletionsError) -> u8 {
    match error {
        ConfirmDeletionsError::Name(error) => join(error),
        ConfirmDeletionsError::Request(error) => request(error),
        ConfirmDeletionsError::Hub(error) => hub(error),
        ConfirmDeletionsError::Output(_)
        | ConfirmDeletionsError::NotJoined(_)
        | ConfirmDeletionsError::Suspended { .. } => PROBLEM,
        ConfirmDeletionsError::NotKnown(_) => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Side;

    fn unreachable() -> RequestError {
        RequestError::Unreachable {
            side: Side::Hub,
            url: "https://a".to_owned(),
            why: "refused".to_owned(),
        }
    }

    fn refused() -> RequestError {
        RequestError::Refused {
            side: Side::Hub,
            message: "no".to_owned(),
        }
    }

    fn kubeconfig() -> RequestError {
        RequestError::Kubeconfig {
            side: Side::Hub,
            why: "no such file".to_owned(),
        }
    }

    #[test]
    fn the_same_cause_has_the_same_code_wherever_it_strikes() {
        for (cause, code) in [
            (unreachable as fn() -> RequestError, UNKNOWN),
            (refused, PROBLEM),
            (kubeconfig, USAGE),
        ] {
            let ends = [
                Failure::from(JoinError::from(cause())),
                InstallError::from(cause()).into(),
                InstallError::from(ObjectError::from(cause())).into(),
                InstallError::from(DefinitionError::from(cause())).into(),
                UninstallError::from(cause()).into(),
                UninstallError::from(ObjectError::from(cause())).into(),
                UninstallError::from(DefinitionError::from(cause())).into(),
                JoinError::from(HubError::from(cause())).into(),
                JoinError::from(MemberError::from(cause())).into(),
                JoinError::from(MemberError::from(ObjectError::from(cause()))).into(),
                JoinError::from(ObjectError::from(cause())).into(),
                JoinError::from(DefinitionError::from(cause())).into(),
                UnjoinError::from(DefinitionError::from(ObjectError::from(cause()))).into(),
                UnjoinError::from(cause()).into(),
                UnjoinError::from(MemberError::from(cause())).into(),
                StatusError::from(cause()).into(),
                UiError::from(cause()).into(),
                UiError::from(RightsError::Request(cause())).into(),
                ExplainError::from(cause()).into(),
                DnsError::from(cause()).into(),
                DnsError::from(ObjectError::from(cause())).into(),
                DrainError::from(cause()).into(),
                DrainError::from(HubError::from(cause())).into(),
                ConfirmDeletionsError::from(cause()).into(),
                ConfirmDeletionsError::from(HubError::from(cause())).into(),
                VersionError::from(cause()).into(),
                BugReportError::from(cause()).into(),
                TopError::from(cause()).into(),
            ];
            for end in ends {
                assert_eq!(end.code(), code, "{end:?}");
            }
        }
    }

    #[test]
    fn unknown_is_never_success() {
        assert_eq!(ExitState::new(true, true).code(), 0);
        assert_eq!(ExitState::new(false, true).code(), PROBLEM);
        assert_eq!(
            ExitState::new(false, false).code(),
            PROBLEM,
            "a problem was found"
        );
        assert_eq!(ExitState::new(true, false).code(), UNKNOWN);
        let not_found = |unread: &str| StatusError::NotFound {
            name: "foo".to_owned(),
            place: String::new(),
            unread: unread.to_owned(),
        };
        assert_eq!(Failure::from(not_found("")).code(), PROBLEM);
        assert_eq!(Failure::from(not_found(", not read: a")).code(), UNKNOWN);
        let not_known = StatusError::NotKnown {
            seconds: 1,
            what: String::new(),
        };
        assert_eq!(Failure::from(not_known).code(), UNKNOWN);
    }

    #[test]
    fn what_is_not_well_and_what_is_wrong_usage_are_reported_apart() {
        assert_eq!(Failure::from(StatusError::NoApi).code(), PROBLEM);
        assert_eq!(
            Failure::from(JoinError::JoinedAs("a".to_owned())).code(),
            PROBLEM
        );
        assert_eq!(
            Failure::from(JoinError::Endpoint("x".to_owned())).code(),
            USAGE
        );
        assert_eq!(Failure::from(InstallError::NoCertManager).code(), PROBLEM);
        assert_eq!(Failure::from(UninstallError::Declined).code(), PROBLEM);
        assert_eq!(Failure::from(UninstallError::NotConfirmed).code(), USAGE);
        assert_eq!(Failure::from(DnsError::NotConfirmed).code(), USAGE);
    }
}
