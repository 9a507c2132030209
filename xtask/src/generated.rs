//! Files below `manifests/` that are generated.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

/// Generated files: their paths below `manifests/`, and their texts.
pub(crate) struct Generated {
    pub files: BTreeMap<String, String>,
    /// Directories that hold generated files and no others.
    pub directories: Vec<&'static str>,
}

impl Generated {
    /// Writes the files, or with `check` fails if the written ones differ.
    pub(crate) fn settle(&self, root: &Path, check: bool) -> anyhow::Result<()> {
        if !check {
            return self.write(root);
        }
        let stale = self.drift(root)?.join(", ");
        ensure!(
            stale.is_empty(),
            "not as the sources say: {stale}; run `make manifests`"
        );
        Ok(())
    }

    fn write(&self, root: &Path) -> anyhow::Result<()> {
        for (name, text) in &self.files {
            let path = root.join(name);
            let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = directory.and_then(|()| fs::write(&path, text));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Returns the files that are missing, different, or generated from nothing.
    fn drift(&self, root: &Path) -> anyhow::Result<Vec<String>> {
        let files = self.files.iter();
        let differs = |(name, text): &(&String, &String)| {
            fs::read_to_string(root.join(name)).ok().as_ref() != Some(*text)
        };
        let mut stale: Vec<_> = files
            .filter(differs)
            .map(|(name, _)| name.clone())
            .collect();
        for directory in &self.directories {
            let unreadable = || format!("cannot read {directory}");
            for entry in fs::read_dir(root.join(directory)).with_context(unreadable)? {
                let name = entry.with_context(unreadable)?.file_name();
                let name = format!("{directory}/{}", name.to_string_lossy());
                if !self.files.contains_key(&name) {
                    stale.push(name);
                }
            }
        }
        Ok(stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_stray_files_are_drift() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let files = ["crds/a.yaml", "crds/b.yaml", "rules.yaml"];
        let mut generated = Generated {
            files: files.map(|name| (name.to_owned(), name.to_owned())).into(),
            directories: vec!["crds"],
        };
        generated.settle(root, false).expect("written");
        generated.settle(root, true).expect("nothing differs");

        fs::write(root.join("crds/a.yaml"), "changed").expect("written");
        fs::write(root.join("crds/stray.yaml"), "").expect("written");
        fs::write(root.join("beside.yaml"), "").expect("written");
        let missing = ("missing.yaml".to_owned(), String::new());
        generated.files.extend([missing]);
        let error = generated.settle(root, true).expect_err("drift");
        assert_eq!(
            error.to_string(),
            "not as the sources say: crds/a.yaml, missing.yaml, crds/stray.yaml; run `make manifests`"
        );
    }
}
