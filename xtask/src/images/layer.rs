//! The layer of an image: an archive of files that is the same for the same files.

use std::collections::BTreeMap;
use std::io;

use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

/// A file in an image or in an archive.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Its mode: 0o755 for a program.
    pub mode: u32,
    /// Its content.
    pub content: Vec<u8>,
}

/// Files by their paths, which do not begin with a slash.
pub(crate) type Files = BTreeMap<String, File>;

/// An archive of these files and the directories above them: in the order of their paths, root's,
/// of no time.
pub(crate) fn archive(files: &Files) -> io::Result<Vec<u8>> {
    let mut entries: BTreeMap<String, Option<&File>> = BTreeMap::new();
    for (path, file) in files {
        let slashes = path.match_indices('/');
        entries.extend(slashes.map(|(slash, _)| (path[..=slash].to_owned(), None)));
        entries.insert(path.clone(), Some(file));
    }
    let mut archive = tar::Builder::new(Vec::new());
    for (path, file) in entries {
        let mut header = Header::new_ustar();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let (kind, mode, content) = match file {
            Some(file) => (EntryType::Regular, file.mode, file.content.as_slice()),
            None => (EntryType::Directory, 0o755, [].as_slice()),
        };
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content)?;
    }
    archive.into_inner()
}

/// Compressed with gzip, without a name and a time.
pub(crate) fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = GzBuilder::new().write(Vec::new(), Compression::best());
    io::Write::write_all(&mut writer, bytes)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn file(mode: u32, content: &str) -> File {
        File {
            mode,
            content: content.into(),
        }
    }

    #[test]
    fn an_archive_holds_the_files_and_the_directories_above_them_in_order() {
        let files = Files::from([
            ("program".to_owned(), file(0o755, "#!")),
            ("etc/ssl/roots".to_owned(), file(0o644, "roots")),
        ]);
        let bytes = archive(&files).expect("an archive");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().expect("entries").map(|entry| {
            let mut entry = entry.expect("an entry");
            let mut content = String::new();
            entry.read_to_string(&mut content).expect("text");
            let header = entry.header();
            let owner = (
                header.uid().expect("a user"),
                header.gid().expect("a group"),
            );
            assert_eq!(
                (owner, header.mtime().expect("a time")),
                ((0, 0), 0),
                "nobody's time and machine are in it"
            );
            let path = entry.path().expect("a path").display().to_string();
            let mode = header.mode().expect("a mode");
            (path, mode, content)
        });
        let entries: Vec<_> = entries.collect();
        let expected = [
            ("etc/", 0o755, ""),
            ("etc/ssl/", 0o755, ""),
            ("etc/ssl/roots", 0o644, "roots"),
            ("program", 0o755, "#!"),
        ];
        let expected = expected.map(|(path, mode, text)| (path.to_owned(), mode, text.to_owned()));
        assert_eq!(entries, expected);
    }

    #[test]
    fn what_is_compressed_has_neither_a_name_nor_a_time() {
        let bytes = compressed(b"content").expect("bytes");
        // RFC 1952: magic, method, flags, four bytes of time.
        assert_eq!(bytes[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes.as_slice())
            .read_to_string(&mut text)
            .expect("text");
        assert_eq!(text, "content");
    }
}
