//! Other programs: their output, or the reason why they have none.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Returns the standard output of a command, without blanks around it.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| not_run(command))?;
    let (status, stderr) = (output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(
        status.success(),
        "{} failed, {status}: {}",
        line(command),
        stderr.trim()
    );
    let text = String::from_utf8(output.stdout);
    let text = text.with_context(|| format!("{} printed what is no UTF-8", line(command)))?;
    Ok(text.trim().to_owned())
}

/// Runs a command that a person watches.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| not_run(command))?;
    ensure!(
        status.success(),
        "{} failed, {status}: see above",
        line(command)
    );
    Ok(())
}

fn not_run(command: &Command) -> String {
    format!("{} cannot be run", command.get_program().display())
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
        let message = format!("{error:#}");
        assert!(
            message.starts_with("/nowhere/program cannot be run: "),
            "{message}"
        );
    }
}
