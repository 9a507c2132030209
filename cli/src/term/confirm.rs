//! Confirmation prompts.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal as _, Write as _};

use crate::term::exit::{CommandError, PROBLEM, USAGE};

/// Missing agreement of the user. Holds the word for what the command did not do, such as
/// "removed".
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfirmError {
    #[error("the answer cannot be read: {0}")]
    Input(io::Error),
    #[error(
        "cannot ask for confirmation: standard input is not a terminal. Nothing was {0}; to go on, give --yes"
    )]
    NotConfirmed(&'static str),
    #[error("nothing was {0}")]
    Declined(&'static str),
}

impl CommandError for ConfirmError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotConfirmed(_) => USAGE,
            _ => PROBLEM,
        }
    }
}

/// Prompts for yes or no. Any input except yes is an error.
pub(crate) fn ask(question: impl Display, done: &'static str) -> Result<(), ConfirmError> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(ConfirmError::NotConfirmed(done));
    }
    let asked = write!(io::stderr(), "{question} [y/N] ");
    let agrees = asked.and_then(|()| agrees(&mut input.lock()));
    match agrees.map_err(ConfirmError::Input)? {
        true => Ok(()),
        false => Err(ConfirmError::Declined(done)),
    }
}

fn agrees(input: &mut impl BufRead) -> io::Result<bool> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let answer = line.trim();
    Ok(["y", "yes"]
        .iter()
        .any(|yes| answer.eq_ignore_ascii_case(yes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for (answer, expected) in [
            ("y\n", true),
            ("YES\n", true),
            ("yes", true),
            ("\n", false),
            ("", false),
            ("n\n", false),
            ("yesterday\n", false),
        ] {
            assert_eq!(
                agrees(&mut answer.as_bytes()).unwrap(),
                expected,
                "{answer:?}"
            );
        }
    }
}
