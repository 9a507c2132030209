//! Errors that `join` and `unjoin` share.

use crate::api_server::RequestError;
use crate::definitions::DefinitionError;
use crate::exit::{CommandError, PROBLEM};
use crate::hub::HubError;
use crate::member::MemberError;
use crate::objects::ObjectError;
use crate::output::OutputError;

/// Error of a step that changes the hub or the member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MembershipError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl CommandError for MembershipError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            Self::Hub(error) => error.exit_code(),
            Self::Member(error) => error.exit_code(),
            Self::Definition(error) => error.exit_code(),
            Self::Object(error) => error.exit_code(),
            Self::Output(_) => PROBLEM,
        }
    }
}
