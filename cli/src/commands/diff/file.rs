//! MultiClusterServices from files and directories, and the Services named like them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use causeway::api::MultiClusterService;
use causeway::domain::ServiceKey;
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use serde_json::Value;

use crate::term::output::{self, OutputError};

/// File name that means standard input.
const STDIN: &str = "-";
/// Extensions of the files that kubectl reads from a directory.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// Maximum number of files read from a directory.
const FILES_MAX: usize = 10_000;
/// Maximum size of a file in bytes.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Invalid or unreadable file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("-f {file}: {error}")]
    Read { file: String, error: std::io::Error },
    #[error("-f {file}: more than {FILES_MAX} files")]
    TooMany { file: String },
    #[error("-f {file}: larger than {} MiB", FILE_BYTES_MAX >> 20)]
    TooLarge { file: String },
    #[error("-f {file}: not YAML or JSON: {error}")]
    Parse {
        file: String,
        error: Box<serde_saphyr::Error>,
    },
    #[error("-f {file}: a MultiClusterService has no metadata.name; give it that of its Service")]
    Unnamed { file: String },
    #[error(
        "-f {file}: {name} is in namespace {found}, and --namespace says {given}; leave one of them out"
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

/// Object in a file.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub file: String,
    pub key: ServiceKey,
    pub object: Value,
}

/// Objects of the given files that `diff` compares.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub multi_cluster_services: Vec<Wanted>,
    /// Services named like one of the MultiClusterServices. They replace the hub's stored Services.
    pub services: BTreeMap<ServiceKey, Wanted>,
}

/// Reads files and directories. Prints the objects that `diff` does not compare on stderr.
pub(crate) fn read(
    files: &[PathBuf],
    given: Option<&str>,
    default: &str,
) -> Result<Objects, FileError> {
    let mut objects = Objects::default();
    let mut others = Vec::new();
    for path in files {
        let before = objects.multi_cluster_services.len();
        for path in expanded(path)? {
            let file = path.display().to_string();
            let text = text(&path)?;
            others.extend(parse(&file, &text, given, default, &mut objects)?);
        }
        if objects.multi_cluster_services.len() == before {
            let file = path.display().to_string();
            return Err(FileError::Nothing { file });
        }
    }
    let wanted = objects.multi_cluster_services.iter();
    let keys: Vec<_> = wanted.map(|one| &one.key).collect();
    let unused = objects
        .services
        .extract_if(.., |key, _| !keys.contains(&key));
    others.extend(
        unused.map(|(_, Wanted { file, key, .. })| format!("{file}: Service {}", key.name)),
    );
    for other in others {
        output::progress(format_args!(
            "note: {other} is not compared; kubectl diff does that"
        ))?;
    }
    Ok(objects)
}

/// Returns the files of a directory in order of their names, as kubectl does. A path to a file
/// returns itself.
fn expanded(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let file = || path.display().to_string();
    if path == Path::new(STDIN) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| FileError::Read {
        file: file(),
        error,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.path();
        let extension = entry.extension().and_then(|one| one.to_str());
        if extension.is_some_and(|one| EXTENSIONS.contains(&one)) && entry.is_file() {
            files.push(entry);
        }
        if files.len() > FILES_MAX {
            return Err(FileError::TooMany { file: file() });
        }
    }
    files.sort();
    Ok(files)
}

fn text(path: &Path) -> Result<String, FileError> {
    let file = path.display().to_string();
    let read = |source: &mut dyn Read| -> io::Result<String> {
        let mut text = String::new();
        source.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = match path == Path::new(STDIN) {
        true => read(&mut io::stdin()),
        false => File::open(path).and_then(|mut file| read(&mut file)),
    };
    match text {
        Ok(text) if u64::try_from(text.len()).is_ok_and(|size| size <= FILE_BYTES_MAX) => Ok(text),
        Ok(_) => Err(FileError::TooLarge { file }),
        Err(error) => Err(FileError::Read { file, error }),
    }
}

/// Adds the objects of a file to `objects`. Returns the file, the kind and the name of each object
/// that `diff` does not compare.
fn parse(
    file: &str,
    text: &str,
    given: Option<&str>,
    default: &str,
    objects: &mut Objects,
) -> Result<Vec<String>, FileError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| FileError::Parse {
            file: file.to_owned(),
            error: Box::new(error),
        })?;
    let mut others = Vec::new();
    for document in documents.into_iter().flat_map(items) {
        if is_a::<MultiClusterService>(&document) {
            let wanted = one(file, document, given, default)?;
            objects.multi_cluster_services.push(wanted);
        } else if is_a::<Service>(&document) && text_of(&document, "/metadata/name").is_some() {
            let service = one(file, document, given, default)?;
            objects.services.insert(service.key.clone(), service);
        } else {
            let kind = text_of(&document, "/kind").unwrap_or("an object");
            let name = text_of(&document, "/metadata/name").unwrap_or_default();
            others.push(format!("{file}: {kind} {name}"));
        }
    }
    Ok(others)
}

/// Returns the items of a List, or the document itself.
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

fn is_a<K: Resource<DynamicType = ()>>(document: &Value) -> bool {
    let (version, kind) = (K::api_version(&()), K::kind(&()));
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
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("mcs.yaml");
        std::fs::write(&file, text).expect("a file");
        keys(&[file], given)
    }

    fn keys(files: &[PathBuf], given: Option<&str>) -> Result<Vec<String>, String> {
        let objects = read(files, given, "default").map_err(|error| error.to_string())?;
        let wanted = objects.multi_cluster_services.iter();
        let wanted = wanted.map(|one| one.key.to_string());
        let services = objects.services.keys();
        Ok(wanted
            .chain(services.map(|key| format!("Service {key}")))
            .collect())
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
                &["default/foo", "default/bar", "Service default/foo"],
            ),
        ] {
            let keys: Vec<_> = keys.iter().map(|&key| key.to_owned()).collect();
            assert_eq!(parsed(&text, given), Ok(keys), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_reported_with_the_file() {
        for (text, given, said) in [
            ("a: [", None, "mcs.yaml: not YAML or JSON"),
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

    #[test]
    fn a_directory_is_read_as_kubectl_reads_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).expect("a file");
        };
        let path = directory.path().to_owned();
        write("a.yaml", "kind: Pod\nmetadata: {name: a}\n");
        let none = keys(std::slice::from_ref(&path), None).expect_err("no MultiClusterService");
        assert!(none.contains("contains no"), "{none}");
        write("c.yml", &format!("{MCS}metadata: {{name: foo}}\n"));
        write(
            "b.json",
            r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo"}}"#,
        );
        write(
            "other.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: other}\n",
        );
        write("README.md", "no YAML: [");
        std::fs::create_dir(path.join("nested.yaml")).expect("a directory");
        assert_eq!(
            keys(&[path], None),
            Ok(vec![
                "default/foo".to_owned(),
                "Service default/foo".to_owned()
            ])
        );
    }
}
