//! Exit codes: 0 good, 1 what was asked about is not well, 2 wrong usage, 3 the API server could not be asked.

use crate::ask::AskError;
use crate::check::CheckError;
use crate::confirm_deletions::ConfirmDeletionsError;
use crate::definitions::DefinitionError;
use crate::diff::DiffError;
use crate::drain::DrainError;
use crate::explain::ExplainError;
use crate::hub::HubError;
use crate::install::InstallError;
use crate::join::JoinError;
use crate::karmada::moving::MoveError;
use crate::member::MemberError;
use crate::objects::ObjectError;
use crate::snapshot::gather::GatherError;
use crate::status::StatusError;
use crate::uninstall::UninstallError;
use crate::unjoin::UnjoinError;
use crate::version::VersionError;

/// What was asked about is not well.
pub(crate) const NOT_WELL: u8 = 1;
/// The command line, or a kubeconfig that it names, makes no sense.
pub(crate) const USAGE: u8 = 2;
/// The API server could not be asked.
pub(crate) const NOT_ASKED: u8 = 3;

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
    Check(#[from] CheckError),
    #[error(transparent)]
    Diff(#[from] DiffError),
    #[error(transparent)]
    Drain(#[from] DrainError),
    #[error(transparent)]
    Move(#[from] MoveError),
    #[error(transparent)]
    ConfirmDeletions(#[from] ConfirmDeletionsError),
    #[error(transparent)]
    Version(#[from] VersionError),
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
            Self::Drain(error) => drain(error),
            Self::Move(error) => moving(error),
            Self::ConfirmDeletions(error) => confirm_deletions(error),
            Self::Status(StatusError::Ask(error))
            | Self::Explain(
                ExplainError::Ask(error) | ExplainError::Gather(GatherError::Ask(error)),
            )
            | Self::Check(CheckError::Ask(error))
            | Self::Version(VersionError::Ask(error)) => ask(error),
            Self::Status(_) | Self::Explain(_) | Self::Check(_) | Self::Version(_) => NOT_WELL,
            Self::Runtime(_) | Self::Cryptography => NOT_ASKED,
        }
    }
}

fn ask(error: &AskError) -> u8 {
    match error {
        AskError::Kubeconfig { .. } => USAGE,
        AskError::NoKubeconfig(_)
        | AskError::Unreachable { .. }
        | AskError::NotAllowed { .. }
        | AskError::Busy { .. } => NOT_ASKED,
        AskError::NotFound { .. } | AskError::Conflict { .. } | AskError::Refused { .. } => {
            NOT_WELL
        }
    }
}

fn object(error: &ObjectError) -> u8 {
    match error {
        ObjectError::Ask(error) => ask(error),
        _ => NOT_WELL,
    }
}

fn hub(error: &HubError) -> u8 {
    match error {
        HubError::Ask(error) => ask(error),
        HubError::NoClusterApi | HubError::Karmada | HubError::NoNamespace => NOT_WELL,
    }
}

fn member(error: &MemberError) -> u8 {
    match error {
        MemberError::Ask(error) => ask(error),
        MemberError::Object(error) => object(error),
        _ => NOT_WELL,
    }
}

fn definition(error: &DefinitionError) -> u8 {
    match error {
        DefinitionError::Ask(error) => ask(error),
        DefinitionError::Object(error) => object(error),
        DefinitionError::Output(_) | DefinitionError::NotEstablished { .. } => NOT_WELL,
    }
}

fn install(error: &InstallError) -> u8 {
    match error {
        InstallError::Authority { .. } => USAGE,
        InstallError::Ask(error) => ask(error),
        InstallError::Object(error) => object(error),
        InstallError::Definition(error) => definition(error),
        InstallError::NotReady(_)
        | InstallError::Output(_)
        | InstallError::Yaml(_)
        | InstallError::TooOld(_)
        | InstallError::Lacks { .. }
        | InstallError::NamespaceEnds(_)
        | InstallError::NoKarmada
        | InstallError::NoCertManager => NOT_WELL,
    }
}

fn uninstall(error: &UninstallError) -> u8 {
    match error {
        UninstallError::Unasked => USAGE,
        UninstallError::Ask(error) => ask(error),
        UninstallError::Object(error) => object(error),
        UninstallError::Definition(error) => definition(error),
        UninstallError::Output(_)
        | UninstallError::Input(_)
        | UninstallError::Serving { .. }
        | UninstallError::Carried { .. }
        | UninstallError::StillRuns { .. }
        | UninstallError::NotLetGo { .. }
        | UninstallError::Declined
        | UninstallError::NotCleaned { .. }
        | UninstallError::NotGone { .. } => NOT_WELL,
    }
}

fn moving(error: &MoveError) -> u8 {
    match error {
        MoveError::Ask(error) | MoveError::Gather(GatherError::Ask(error)) => ask(error),
        MoveError::WorksHidden | MoveError::HubHidden => NOT_ASKED,
        _ => NOT_WELL,
    }
}

fn join(error: &JoinError) -> u8 {
    match error {
        JoinError::Name { .. } | JoinError::Endpoint(_) => USAGE,
        JoinError::Ask(error) => ask(error),
        JoinError::Hub(error) => hub(error),
        JoinError::Member(error) => member(error),
        JoinError::Definition(error) => definition(error),
        JoinError::Object(error) => object(error),
        JoinError::Output(_)
        | JoinError::JoinedAs(_)
        | JoinError::AnotherCluster { .. }
        | JoinError::NotSynced { .. } => NOT_WELL,
    }
}

fn unjoin(error: &UnjoinError) -> u8 {
    match error {
        UnjoinError::Name(error) => join(error),
        UnjoinError::Ask(error) => ask(error),
        UnjoinError::Hub(error) => hub(error),
        UnjoinError::Member(error) => member(error),
        UnjoinError::Definition(error) => definition(error),
        UnjoinError::Object(error) => object(error),
        UnjoinError::Output(_)
        | UnjoinError::NotJoined(_)
        | UnjoinError::AnotherCluster { .. }
        | UnjoinError::NotCleaned { .. } => NOT_WELL,
    }
}

/// As `kubectl diff` has it, more than 1: that is said of differences.
fn diff(error: &DiffError) -> u8 {
    match error {
        DiffError::File(_) | DiffError::Refused { .. } => USAGE,
        DiffError::Ask(error) | DiffError::Gather(GatherError::Ask(error))
            if ask(error) == USAGE =>
        {
            USAGE
        }
        _ => NOT_ASKED,
    }
}

fn drain(error: &DrainError) -> u8 {
    match error {
        DrainError::Name(error) => join(error),
        DrainError::Ask(error) => ask(error),
        DrainError::Hub(error) => hub(error),
        DrainError::Output(_)
        | DrainError::NotJoined(_)
        | DrainError::Removed(_)
        | DrainError::NotWithdrawn { .. } => NOT_WELL,
    }
}

fn confirm_deletions(error: &ConfirmDeletionsError) -> u8 {
    match error {
        ConfirmDeletionsError::Name(error) => join(error),
        ConfirmDeletionsError::Ask(error) => ask(error),
        ConfirmDeletionsError::Hub(error) => hub(error),
        ConfirmDeletionsError::Output(_)
        | ConfirmDeletionsError::NotJoined(_)
        | ConfirmDeletionsError::Suspended { .. } => NOT_WELL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Side;

    fn unreachable() -> AskError {
        AskError::Unreachable {
            side: Side::Hub,
            url: "https://a".to_owned(),
            why: "refused".to_owned(),
        }
    }

    fn refused() -> AskError {
        AskError::Refused {
            side: Side::Hub,
            message: "no".to_owned(),
        }
    }

    fn kubeconfig() -> AskError {
        AskError::Kubeconfig {
            side: Side::Hub,
            why: "no such file".to_owned(),
        }
    }

    #[test]
    fn the_same_cause_has_the_same_code_wherever_it_strikes() {
        for (cause, code) in [
            (unreachable as fn() -> AskError, NOT_ASKED),
            (refused, NOT_WELL),
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
                ExplainError::from(cause()).into(),
                DrainError::from(cause()).into(),
                DrainError::from(HubError::from(cause())).into(),
                ConfirmDeletionsError::from(cause()).into(),
                ConfirmDeletionsError::from(HubError::from(cause())).into(),
                VersionError::from(cause()).into(),
            ];
            for end in ends {
                assert_eq!(end.code(), code, "{end:?}");
            }
        }
    }

    #[test]
    fn what_is_not_well_and_what_is_wrong_usage_are_told_apart() {
        assert_eq!(Failure::from(StatusError::NoApi).code(), NOT_WELL);
        assert_eq!(
            Failure::from(JoinError::JoinedAs("a".to_owned())).code(),
            NOT_WELL
        );
        assert_eq!(
            Failure::from(JoinError::Endpoint("x".to_owned())).code(),
            USAGE
        );
        assert_eq!(Failure::from(InstallError::NoCertManager).code(), NOT_WELL);
        assert_eq!(Failure::from(UninstallError::Declined).code(), NOT_WELL);
        assert_eq!(Failure::from(UninstallError::Unasked).code(), USAGE);
    }
}
