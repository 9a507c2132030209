//! Confirmation prompts.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal as _, Write as _};

/// Answer of the user to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// No answer is possible because standard input is not a terminal.
    Nobody,
}

/// Prompts for yes or no. Any other input counts as no.
pub(crate) fn ask(question: impl Display) -> io::Result<Answer> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Ok(Answer::Nobody);
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    Ok(match agrees(&mut input.lock())? {
        true => Answer::Yes,
        false => Answer::No,
    })
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
