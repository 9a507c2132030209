//! Words for the person: results on stdout, progress on stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use kube::api::DynamicObject;
use serde::Serialize;

use crate::args::Format;

/// Something could not be written out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("output: {0}")]
    Io(#[from] io::Error),
    #[error("output: {0}")]
    Json(#[from] serde_json::Error),
    #[error("output: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// Writes a line of result.
pub(crate) fn result(text: impl Display) -> Result<(), OutputError> {
    unless_nobody_reads(writeln!(io::stdout().lock(), "{text}"))
}

/// Whether anybody still reads the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Reads,
    Left,
}

/// Writes more of a result that goes on, whole lines, at once; says whether anybody reads it.
pub(crate) fn stream(text: &str) -> Result<Reader, OutputError> {
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

/// Writes a result in the requested format, or as the text for people; an empty text is not written.
pub(crate) fn report(
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
        text => result(text),
    }
}

/// Objects as YAML that kubectl applies, a document for each.
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

/// Writes a line about what is going on.
pub(crate) fn progress(text: impl Display) -> Result<(), OutputError> {
    unless_nobody_reads(writeln!(io::stderr().lock(), "{text}"))
}

/// `kubectl mcs status | head -1` is no failure.
fn unless_nobody_reads(written: io::Result<()>) -> Result<(), OutputError> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
