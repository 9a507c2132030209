//! The MultiClusterServices of files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use causeway::api::MultiClusterService;
use causeway::domain::ServiceKey;
use kube::Resource as _;
use serde_json::Value;

use crate::output::{self, OutputError};

/// Standard input.
const STDIN: &str = "-";

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("-f {file}: {error}")]
    Read { file: String, error: std::io::Error },
    #[error("-f {file}: not YAML or JSON: {error}")]
    Parse {
        file: String,
        error: Box<serde_saphyr::Error>,
    },
    #[error("-f {file}: a MultiClusterService has no metadata.name; give it that of its Service")]
    Unnamed { file: String },
    #[error(
        "-f {file}: MultiClusterService {name} is in namespace {found}, and --namespace says {given}; leave one of them out"
    )]
    OtherNamespace {
        file: String,
        name: String,
        found: String,
        given: String,
    },
    #[error("-f {file}: contains no {}", MultiClusterService::api_version(&()))]
    Nothing { file: String },
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// A MultiClusterService as a file has it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub file: String,
    pub key: ServiceKey,
    pub object: Value,
}

/// Reads files; what is no MultiClusterService is passed over, and said.
pub(crate) fn read(
    files: &[PathBuf],
    given: Option<&str>,
    default: &str,
) -> Result<Vec<Wanted>, FileError> {
    let mut all = Vec::new();
    for path in files {
        let file = path.display().to_string();
        let text = text(path).map_err(|error| FileError::Read {
            file: file.clone(),
            error,
        })?;
        all.extend(parse(&file, &text, given, default)?);
    }
    Ok(all)
}

fn text(path: &Path) -> std::io::Result<String> {
    if path != Path::new(STDIN) {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

fn parse(
    file: &str,
    text: &str,
    given: Option<&str>,
    default: &str,
) -> Result<Vec<Wanted>, FileError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| FileError::Parse {
            file: file.to_owned(),
            error: Box::new(error),
        })?;
    let mut wanted = Vec::new();
    for document in documents.into_iter().flat_map(items) {
        if !is_mcs(&document) {
            output::progress(format_args!(
                "note: {file}: {} {} is not compared; kubectl diff does that",
                text_of(&document, "/kind").unwrap_or("an object"),
                text_of(&document, "/metadata/name").unwrap_or_default(),
            ))?;
            continue;
        }
        wanted.push(one(file, document, given, default)?);
    }
    if wanted.is_empty() {
        return Err(FileError::Nothing {
            file: file.to_owned(),
        });
    }
    Ok(wanted)
}

/// The objects of a List, or the one object.
fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut fields) if fields.get("kind").is_some_and(|kind| kind == "List") => {
            match fields.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

fn is_mcs(document: &Value) -> bool {
    let (version, kind) = (
        MultiClusterService::api_version(&()),
        MultiClusterService::kind(&()),
    );
    text_of(document, "/apiVersion") == Some(&*version)
        && text_of(document, "/kind") == Some(&*kind)
}

fn one(
    file: &str,
    mut object: Value,
    given: Option<&str>,
    default: &str,
) -> Result<Wanted, FileError> {
    let file = file.to_owned();
    let Some(name) = text_of(&object, "/metadata/name").map(ToOwned::to_owned) else {
        return Err(FileError::Unnamed { file });
    };
    let found = text_of(&object, "/metadata/namespace").map(ToOwned::to_owned);
    if let (Some(found), Some(given)) = (&found, given)
        && found != given
    {
        return Err(FileError::OtherNamespace {
            file,
            name,
            found: found.clone(),
            given: given.to_owned(),
        });
    }
    let namespace = found.as_deref().unwrap_or(default);
    let key = ServiceKey::new(namespace, name.as_str());
    object["metadata"]["namespace"] = namespace.into();
    Ok(Wanted { file, key, object })
}

fn text_of<'a>(document: &'a Value, pointer: &str) -> Option<&'a str> {
    document
        .pointer(pointer)?
        .as_str()
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MCS: &str = "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\n";

    fn parsed(text: &str, given: Option<&str>) -> Result<Vec<String>, String> {
        let wanted = parse("mcs.yaml", text, given, "default");
        let keys = wanted.map(|all| all.iter().map(|one| one.key.to_string()).collect());
        keys.map_err(|error| error.to_string())
    }

    #[test]
    fn the_multi_cluster_services_of_a_file_are_taken_into_the_namespace_that_kubectl_would_take() {
        let named = |metadata: &str| format!("{MCS}metadata: {metadata}\n");
        for (text, given, keys) in [
            (named("{name: foo}"), None, &["default/foo"][..]),
            (named("{name: foo}"), Some("shop"), &["default/foo"]),
            (named("{name: foo, namespace: shop}"), None, &["shop/foo"]),
            (
                named("{name: foo, namespace: shop}"),
                Some("shop"),
                &["shop/foo"],
            ),
            (
                format!(
                    "{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: foo}}\n---\n{}---\n",
                    named("{name: foo}"),
                    named("{name: bar}")
                ),
                None,
                &["default/foo", "default/bar"],
            ),
        ] {
            let keys: Vec<_> = keys.iter().map(|&key| key.to_owned()).collect();
            assert_eq!(parsed(&text, given), Ok(keys), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_reported_with_the_file() {
        for (text, given, said) in [
            ("a: [", None, "-f mcs.yaml: not YAML or JSON"),
            (
                "kind: Pod\nmetadata: {name: a}\n",
                None,
                "contains no networking.karmada.io",
            ),
            (MCS, None, "has no metadata.name"),
            (
                &format!("{MCS}metadata: {{name: foo, namespace: shop}}\n"),
                Some("web"),
                "is in namespace shop, and --namespace says web",
            ),
        ] {
            let error = parsed(text, given).expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }
}
