//! Other programs: their output, or the reason why they have none.

use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// A command gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// There is no such program, or it may not be run.
    #[error("{program} cannot be run: {source}")]
    NotRun {
        /// The program.
        program: String,
        /// Cause.
        source: io::Error,
    },
    /// It failed, and said why.
    #[error("{command} failed, {status}: {stderr}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// Status with which it ended.
        status: ExitStatus,
        /// Its standard error, unless a person has seen it.
        stderr: String,
    },
    /// Its output is no text.
    #[error("{command} printed what is no UTF-8")]
    NotText {
        /// The program and its arguments.
        command: String,
    },
}

/// Returns the standard output of a command, without blanks around it.
pub(crate) fn output(command: &mut Command) -> Result<String, CommandError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| not_run(command, source))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(failed(command, output.status, stderr.trim()));
    }
    match String::from_utf8(output.stdout) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(_) => Err(CommandError::NotText {
            command: line(command),
        }),
    }
}

/// Runs a command that a person watches.
pub(crate) fn run(command: &mut Command) -> Result<(), CommandError> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|source| not_run(command, source))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(command, status, "see above"))
    }
}

fn not_run(command: &Command, source: io::Error) -> CommandError {
    CommandError::NotRun {
        program: command.get_program().display().to_string(),
        source,
    }
}

fn failed(command: &Command, status: ExitStatus, stderr: &str) -> CommandError {
    CommandError::Failed {
        command: line(command),
        status,
        stderr: stderr.to_owned(),
    }
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.display().to_string()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_command_is_what_it_printed() {
        let printed = output(Command::new("echo").args(["one", "two"]));
        assert_eq!(printed.expect("a line"), "one two");
    }

    #[test]
    fn a_command_that_fails_is_reported_with_what_it_printed() {
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"]));
        let message = error.expect_err("a failure").to_string();
        assert_eq!(
            message,
            "sh -c echo why >&2; exit 3 failed, exit status: 3: why"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("/nowhere/program")).expect_err("no program");
        let message = error.to_string();
        assert!(
            message.starts_with("/nowhere/program cannot be run: "),
            "{message}"
        );
    }
}
