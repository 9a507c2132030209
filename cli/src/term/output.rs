//! Output for the user: results on stdout, progress on stderr.
//!
//! Members control many of the printed texts. Every function of this module except [`raw`] escapes
//! terminal control characters.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use clap::ValueEnum;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::json;

use crate::term::exit::CommandError;
use crate::term::screen::{Screen, escaped, escaped_json};

/// Format of a result for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Failed output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("output: {0}")]
    Io(#[from] io::Error),
    #[error("output: {0}")]
    Json(#[from] serde_json::Error),
    #[error("output: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

impl CommandError for OutputError {}

/// Writes one line of a result.
pub(crate) fn result(text: impl Display) -> Result<(), OutputError> {
    let text = text.to_string();
    let text = escaped(&text, Screen::PLAIN);
    unless_nobody_reads(writeln!(io::stdout().lock(), "{text}"))
}

/// Writes a text of this program without escaping it.
pub(crate) fn raw(text: &[u8]) -> Result<(), OutputError> {
    unless_nobody_reads(io::stdout().lock().write_all(text))
}

/// State of the process that reads stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Reads,
    Left,
}

/// Writes whole lines of a continuous result without buffering. Returns whether a process still
/// reads them.
pub(crate) fn stream(
    text: &str,
    format: Option<Format>,
    screen: Screen,
) -> Result<Reader, OutputError> {
    let text = safe(text, format, screen);
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Left),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Reader::Reads),
    }
}

/// Writes a result in the requested format, or as text without colours. Omits an empty text.
pub(crate) fn report(
    report: &impl Serialize,
    format: Option<Format>,
    text: impl FnOnce() -> String,
) -> Result<(), OutputError> {
    report_on(Screen::PLAIN, report, format, text)
}

/// Writes a result like [`report`], with the colours of the given screen.
pub(crate) fn report_on(
    screen: Screen,
    report: &impl Serialize,
    format: Option<Format>,
    text: impl FnOnce() -> String,
) -> Result<(), OutputError> {
    let text = match format {
        Some(Format::Json) => serde_json::to_string_pretty(report)?,
        Some(Format::Yaml) => serde_saphyr::to_string(report)?,
        None => text(),
    };
    match text.trim_end() {
        "" => Ok(()),
        text => {
            let text = safe(text, format, screen);
            unless_nobody_reads(writeln!(io::stdout().lock(), "{text}"))
        }
    }
}

/// Escapes a text according to its format.
fn safe(text: &str, format: Option<Format>, screen: Screen) -> Cow<'_, str> {
    match format {
        Some(Format::Json) => escaped_json(text),
        Some(Format::Yaml) => escaped(text, Screen::PLAIN),
        None => escaped(text, screen),
    }
}

/// Returns objects as YAML that kubectl applies, one document each.
pub(crate) fn manifest(objects: &[DynamicObject]) -> Result<String, OutputError> {
    let options = serde_saphyr::ser_options! {
        compact_list_indent: false,
        prefer_block_scalars: false,
    };
    let documents = objects
        .iter()
        .map(|object| serde_saphyr::to_string_with_options(object, options.clone()));
    let documents: Vec<_> = documents.collect::<Result<_, _>>()?;
    Ok(documents.join("---\n").trim_end().to_owned())
}

/// Returns a JSON List, the format in which kubectl prints and applies multiple objects.
pub(crate) fn list(objects: &[DynamicObject]) -> Result<String, OutputError> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    Ok(serde_json::to_string_pretty(&list)?)
}

/// Writes one line of progress to stderr.
pub(crate) fn progress(text: impl Display) -> Result<(), OutputError> {
    let text = text.to_string();
    let text = escaped(&text, Screen::PLAIN);
    unless_nobody_reads(writeln!(io::stderr().lock(), "{text}"))
}

/// Ignores a closed pipe: `kubectl mcs status | head -1` is not a failure.
fn unless_nobody_reads(written: io::Result<()>) -> Result<(), OutputError> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
