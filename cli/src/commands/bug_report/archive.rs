//! Archive of redacted files, and the record of failed reads.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::jiff::Timestamp;
use kube::Config;
use serde_json::Value;

use crate::commands::bug_report::redact::Redactor;
use crate::term::screen::{Screen, escaped};

/// Mode of the archive: only its owner may read and write it.
const MODE: u32 = 0o600;

/// Failed read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Missing {
    pub what: String,
    pub why: String,
}

/// Files by path, in memory until the archive is written. Logs and lists are bounded.
pub(super) struct Archive {
    redactor: Redactor,
    files: BTreeMap<String, String>,
    missing: Vec<Missing>,
}

impl Archive {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            files: BTreeMap::new(),
            missing: Vec::new(),
        }
    }

    /// Registers a value that the redactor removes from all later content.
    pub(super) fn know(&mut self, secret: &str) {
        self.redactor.know(secret);
    }

    /// Registers the user's credentials with the redactor.
    pub(super) fn know_credentials(&mut self, config: &Config) {
        let auth = serde_json::to_value(&config.auth_info).unwrap_or_default();
        let text = |name: &str| auth.get(name).and_then(Value::as_str);
        let given = ["token", "password", "client-key-data"].map(text);
        for secret in given.into_iter().flatten() {
            self.redactor.know(secret);
            let decoded = STANDARD.decode(secret).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            decoded.iter().for_each(|secret| self.redactor.know(secret));
        }
        for file in ["tokenFile", "client-key"].into_iter().filter_map(text) {
            // An unreadable file cannot leak into the archive either.
            let secret = std::fs::read_to_string(file).unwrap_or_default();
            self.redactor.know(&secret);
        }
    }

    /// Adds a redacted text file.
    pub(super) fn text(&mut self, path: impl Into<String>, text: &str) {
        let text = self.redactor.text(text);
        let text = escaped(&text, Screen::PLAIN).into_owned();
        self.files.insert(safe(&path.into()), text);
    }

    /// Adds redacted objects as YAML, a document for each. Without objects no file is added.
    pub(super) fn objects(&mut self, path: impl Into<String>, objects: Vec<Value>) {
        if objects.is_empty() {
            return;
        }
        let mut text = String::new();
        for object in objects {
            let object = self.redactor.object(object);
            match serde_saphyr::to_string(&object) {
                Ok(yaml) => {
                    let yaml = escaped(yaml.trim_end(), Screen::PLAIN);
                    text.push_str(&format!("---\n{yaml}\n"));
                }
                Err(error) => text.push_str(&format!("---\n# not shown: {error}\n")),
            }
        }
        self.files.insert(safe(&path.into()), text);
    }

    /// Records a failed read.
    pub(super) fn missing(&mut self, what: impl Into<String>, why: impl Display) {
        let why = self.redactor.text(&why.to_string());
        let what = what.into();
        self.missing.push(Missing { what, why });
    }

    /// Returns the failed reads.
    pub(super) fn all_missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Returns the redactor with its record of redactions.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns the paths of all files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Writes a gzipped tar file with all files below the directory `title`. Returns the size in
    /// bytes.
    ///
    /// # Errors
    /// `file` exists, or cannot be written: then it is removed.
    pub(super) fn write(&self, file: &Path, title: &str, now: Timestamp) -> io::Result<u64> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(MODE);
        }
        let written = options.open(file)?;
        // A partial file would make the next attempt fail, which creates a new one.
        let archived = self.write_to(written, title, now);
        archived.inspect_err(|_| {
            std::fs::remove_file(file).ok();
        })
    }

    fn write_to(&self, file: File, title: &str, now: Timestamp) -> io::Result<u64> {
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        for (path, text) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(text.len()).map_err(io::Error::other)?);
            header.set_mode(MODE);
            header.set_mtime(u64::try_from(now.as_second()).unwrap_or_default());
            archive.append_data(&mut header, format!("{title}/{path}"), text.as_bytes())?;
        }
        let written = archive.into_inner()?.finish()?;
        written.sync_all()?;
        Ok(written.metadata()?.len())
    }
}

/// Returns a path that stays within the archive for any names of objects.
fn safe(path: &str) -> String {
    let is_unsafe = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    let parts = path.split('/').map(|part| {
        let part = part.replace(is_unsafe, "_");
        match part.trim_matches('.') {
            "" => "_".to_owned(),
            _ => part,
        }
    });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use serde_json::json;

    use super::*;

    fn archive() -> Archive {
        Archive::new(Redactor::new().expect("patterns"))
    }

    #[test]
    fn what_is_added_comes_out_without_secrets_below_one_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("a.tar.gz");
        let mut archive = archive();
        archive.know("canary-in-a-secret");
        archive.text("logs/a.log", "said canary-in-a-secret\n");
        archive.objects(
            "objects/b.yaml",
            vec![json!({"kind": "Secret", "data": {"a": "Yg=="}})],
        );
        archive.objects("objects/none.yaml", Vec::new());
        archive.missing("c", "because of canary-in-a-secret");
        archive
            .write(&file, "report", Timestamp::UNIX_EPOCH)
            .expect("written");
        let reader = std::fs::File::open(&file).expect("a file");
        let mut entries = tar::Archive::new(GzDecoder::new(reader));
        let mut found = Vec::new();
        for entry in entries.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("a text");
            found.push((path, text));
        }
        let expected = [
            ("report/logs/a.log", "said [left out]\n"),
            (
                "report/objects/b.yaml",
                "---\ndata:\n  a: \"[left out]\"\nkind: Secret\n",
            ),
        ];
        let expected = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(found, expected);
        assert_eq!(archive.all_missing()[0].why, "because of [left out]");
        let again = archive.write(&file, "report", Timestamp::UNIX_EPOCH);
        assert!(again.is_err(), "what is there is not written over");
    }

    #[test]
    fn no_name_leads_out_of_the_archive() {
        for (path, expected) in [
            ("members/a/logs.txt", "members/a/logs.txt"),
            ("explain/shop/foo.txt", "explain/shop/foo.txt"),
            ("members/../../etc/passwd", "members/_/_/etc/passwd"),
            ("a//b\n", "a/_/b_"),
        ] {
            assert_eq!(safe(path), expected);
        }
    }
}
