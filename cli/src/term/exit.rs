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

/// Error that can end a command.
pub(crate) trait CommandError: std::error::Error + Send + Sync {
    /// Returns the exit code of the program.
    fn exit_code(&self) -> u8 {
        PROBLEM
    }
}

/// Any error that ends a command.
pub(crate) type Failure = Box<dyn CommandError>;

impl<E: CommandError + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Box::new(error)
    }
}
