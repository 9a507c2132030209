//! Exit codes: 0 good, 1 problem found or command failed, 2 invalid usage, 3 unknown.

/// Exit code of a found problem or a failed command.
pub(crate) const PROBLEM: u8 = 1;
/// Exit code of an invalid command line or kubeconfig.
pub(crate) const USAGE: u8 = 2;
/// Exit code of a result whose input could not be read: unreachable, forbidden, or not compared.
pub(crate) const UNKNOWN: u8 = 3;

/// Exit state of a command that reports a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitState {
    Good,
    Problem,
    /// The readable part has no problem, and another part could not be read.
    Unknown,
}

impl ExitState {
    /// Combines the result of the readable input with its completeness. A found problem takes
    /// precedence over unknown input.
    pub(crate) fn new(is_good: bool, is_complete: bool) -> Self {
        match (is_good, is_complete) {
            (false, _) => Self::Problem,
            (true, false) => Self::Unknown,
            (true, true) => Self::Good,
        }
    }

    /// Returns the exit code of this state.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Problem => PROBLEM,
            Self::Unknown => UNKNOWN,
        }
    }
}

/// Error that ends a command.
pub(crate) trait CommandError: std::error::Error {
    /// Returns the exit code of the program.
    fn exit_code(&self) -> u8 {
        PROBLEM
    }
}

impl<E: CommandError + 'static> From<E> for Box<dyn CommandError> {
    fn from(error: E) -> Self {
        Box::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_server::RequestError;
    use crate::args::Side;
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
    use crate::member::MemberError;
    use crate::moving::MoveError;
    use crate::objects::ObjectError;
    use crate::observe::once::GatherError;
    use crate::status::StatusError;
    use crate::top::TopError;
    use crate::ui::{RightsError, UiError};
    use crate::uninstall::UninstallError;
    use crate::unjoin::UnjoinError;
    use crate::verify::VerifyError;
    use crate::version::VersionError;

    fn unreachable() -> RequestError {
        RequestError::Unreachable {
            side: Side::Hub,
            address: "https://a".to_owned(),
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
    fn one_cause_has_one_exit_code_in_every_command() {
        for (cause, code) in [
            (unreachable as fn() -> RequestError, UNKNOWN),
            (refused, PROBLEM),
            (kubeconfig, USAGE),
        ] {
            let ends: [Box<dyn CommandError>; _] = [
                JoinError::from(cause()).into(),
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
                VerifyError::from(cause()).into(),
                VerifyError::from(ObjectError::from(cause())).into(),
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
                CheckError::from(cause()).into(),
                ExplainError::from(GatherError::from(cause())).into(),
                MoveError::from(cause()).into(),
                MoveError::from(GatherError::from(cause())).into(),
            ];
            for end in ends {
                assert_eq!(end.exit_code(), code, "{end:?}");
            }
        }
    }

    #[test]
    fn diff_reports_failures_by_more_than_1() {
        for (cause, code) in [
            (unreachable as fn() -> RequestError, UNKNOWN),
            (refused, UNKNOWN),
            (kubeconfig, USAGE),
        ] {
            assert_eq!(DiffError::from(cause()).exit_code(), code);
            let gathered = DiffError::from(GatherError::from(cause()));
            assert_eq!(gathered.exit_code(), code);
        }
    }

    #[test]
    fn unknown_state_is_never_success() {
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
        assert_eq!(not_found("").exit_code(), PROBLEM);
        assert_eq!(not_found(", not read: a").exit_code(), UNKNOWN);
        let not_known = StatusError::NotKnown {
            seconds: 1,
            what: String::new(),
        };
        assert_eq!(not_known.exit_code(), UNKNOWN);
    }

    #[test]
    fn problems_and_wrong_usage_have_different_exit_codes() {
        assert_eq!(
            StatusError::from(GatherError::NoApi("Cluster")).exit_code(),
            PROBLEM
        );
        assert_eq!(JoinError::JoinedAs("a".to_owned()).exit_code(), PROBLEM);
        assert_eq!(JoinError::Endpoint("x".to_owned()).exit_code(), USAGE);
        assert_eq!(InstallError::NoCertManager.exit_code(), PROBLEM);
        assert_eq!(UninstallError::Declined.exit_code(), PROBLEM);
        assert_eq!(UninstallError::NotConfirmed.exit_code(), USAGE);
        assert_eq!(DnsError::NotConfirmed.exit_code(), USAGE);
    }
}
