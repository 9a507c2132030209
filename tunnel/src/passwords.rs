//! Passwords of clients of the authenticated front.
//!
//! A file has one password a line: the members that it opens, and the SHA-256 of the password.
//!
//! ```text
//! # Karmada
//! edge1,edge2 sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//! *           sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
//! ```
//!
//! A fast hash suffices for passwords that are random. Short ones are refused, because whoever
//! reads the file could guess them.

use std::fs::File;
use std::future::pending;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway::domain::ClusterName;
use causeway::process::reload::reload;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::digest::Digest;
use crate::member::Credentials;

/// Maximum size of the file, in bytes.
const FILE_MAX: u64 = 256 * 1024;
/// Maximum number of passwords.
const PASSWORDS_MAX: usize = 2048;
/// Minimum length of a password, in bytes.
pub const PASSWORD_MIN: usize = 16;

/// Reason why passwords cannot be used. It has nothing of the file but numbers of lines.
#[derive(Debug, thiserror::Error)]
pub enum PasswordsError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is too long.
    #[error("it has more than {FILE_MAX} bytes")]
    TooLong,
    /// The file has too many lines.
    #[error("it has more than {PASSWORDS_MAX} passwords")]
    TooMany,
    /// The file is no text.
    #[error("it is not UTF-8")]
    NoText,
    /// A line is not of the form.
    #[error("line {0} is not of the form MEMBER[,MEMBER...] sha256:HEX, or * sha256:HEX")]
    Line(usize),
}

/// Members that a password opens.
#[derive(Debug, PartialEq, Eq)]
enum Members {
    All,
    Named(Vec<ClusterName>),
}

/// A member, and the password by which a client was admitted to it.
#[derive(Debug)]
pub struct Admission {
    /// The member.
    pub member: ClusterName,
    digest: Digest,
}

/// All passwords.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Passwords(Vec<(Digest, Members)>);

impl Passwords {
    /// Parses the contents of the file.
    ///
    /// # Errors
    /// [`PasswordsError`].
    pub fn parse(content: &[u8]) -> Result<Self, PasswordsError> {
        let text = std::str::from_utf8(content).map_err(|_| PasswordsError::NoText)?;
        let lines = text.lines().map(str::trim).zip(1..);
        let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let passwords = lines.map(|(line, number)| entry(line).ok_or(PasswordsError::Line(number)));
        let passwords = passwords.collect::<Result<Vec<_>, _>>()?;
        match passwords.len() > PASSWORDS_MAX {
            true => Err(PasswordsError::TooMany),
            false => Ok(Self(passwords)),
        }
    }

    /// Returns whether a password opens its member. The time that it takes depends on no digest.
    fn admit(&self, admission: &Admission) -> bool {
        self.0.iter().fold(false, |is_admitted, (digest, members)| {
            let is_same = *digest == admission.digest;
            let opens = match members {
                Members::All => true,
                Members::Named(names) => names.contains(&admission.member),
            };
            is_admitted | (opens & is_same)
        })
    }
}

fn entry(line: &str) -> Option<(Digest, Members)> {
    let (members, hash) = line.split_once(char::is_whitespace)?;
    let members = match members {
        "*" => Members::All,
        names => {
            let names = names.split(',').map(ClusterName::try_from);
            Members::Named(names.collect::<Result<_, _>>().ok()?)
        }
    };
    let hex = hash.trim_start().strip_prefix("sha256:")?;
    Some((Digest::parse(hex)?, members))
}

/// The passwords of a file, which may change.
pub struct PasswordFile {
    path: PathBuf,
    first: Vec<u8>,
    current: watch::Sender<Passwords>,
}

impl PasswordFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`PasswordsError`].
    pub fn read(path: &Path) -> Result<Arc<Self>, PasswordsError> {
        let first = content(path)?;
        Ok(Arc::new(Self {
            path: path.to_owned(),
            current: watch::Sender::new(Passwords::parse(&first)?),
            first,
        }))
    }

    /// Admits a client by its credentials.
    pub fn admit(&self, credentials: Credentials) -> Option<Admission> {
        let Credentials { member, password } = credentials;
        if password.len() < PASSWORD_MIN {
            return None;
        }
        let digest = Digest::of(&password);
        let admission = Admission { member, digest };
        self.current.borrow().admit(&admission).then_some(admission)
    }

    /// Waits until a password no longer opens its member.
    pub async fn revoked(&self, admission: &Admission) {
        let mut current = self.current.subscribe();
        let revoked = current.wait_for(|passwords| !passwords.admit(admission));
        if revoked.await.is_err() {
            // Nothing changes any more.
            pending::<()>().await;
        }
    }

    /// Loads the changed file until the shutdown.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let read = || content(&self.path);
        let apply = |content: &Vec<u8>| {
            self.current.send_replace(Passwords::parse(content)?);
            tracing::info!("passwords reloaded");
            Ok(())
        };
        reload("passwords", self.first.clone(), read, apply, shutdown).await;
    }
}

fn content(path: &Path) -> Result<Vec<u8>, PasswordsError> {
    let read = || {
        let mut content = Vec::new();
        let mut file = File::open(path)?.take(FILE_MAX + 1);
        file.read_to_end(&mut content)?;
        Ok(content)
    };
    let content = read().map_err(|source| PasswordsError::Read {
        path: path.to_owned(),
        source,
    })?;
    match content.len() as u64 > FILE_MAX {
        true => Err(PasswordsError::TooLong),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef";

    fn hash(password: &[u8]) -> String {
        format!("sha256:{}", Digest::of(password).hex())
    }

    fn file(content: &str) -> Result<PasswordFile, PasswordsError> {
        Ok(PasswordFile {
            path: PathBuf::new(),
            first: Vec::new(),
            current: watch::Sender::new(Passwords::parse(content.as_bytes())?),
        })
    }

    fn admits(file: &PasswordFile, member: &str, password: &[u8]) -> bool {
        let member = ClusterName::try_from(member).expect("a name");
        let password = password.to_vec();
        file.admit(Credentials { member, password }).is_some()
    }

    #[test]
    fn password_opens_the_members_of_its_line() {
        let of_all = b"fedcba9876543210";
        let content = format!(
            "# Karmada\n\nedge1,edge2 {}\r\n  *\t {}  \n",
            hash(SECRET),
            hash(of_all)
        );
        let file = file(&content).expect("passwords");
        for (member, password, is_admitted) in [
            ("edge1", SECRET, true),
            ("edge2", SECRET, true),
            ("edge3", SECRET, false),
            ("edge3", of_all, true),
            ("edge1", &SECRET[1..], false),
            ("edge1", b"", false),
            ("edge1", b"0123456789abcdeg", false),
        ] {
            assert_eq!(
                admits(&file, member, password),
                is_admitted,
                "{member} {password:?}"
            );
        }
    }

    #[test]
    fn short_password_is_refused() {
        let short = &SECRET[..PASSWORD_MIN - 1];
        let file = file(&format!("* {}", hash(short))).expect("passwords");
        assert!(!admits(&file, "edge1", short));
    }

    #[test]
    fn file_without_passwords_refuses_all() {
        let file = file("# none\n").expect("no passwords");
        assert!(!admits(&file, "edge1", SECRET));
    }

    #[test]
    fn error_names_the_line_and_nothing_of_it() {
        let hash = hash(SECRET);
        for line in [
            "edge1",
            "edge1 secret",
            "edge1 sha256:",
            &format!("edge1 {}", &hash[..hash.len() - 1]),
            &format!("edge1 {}g", &hash[..hash.len() - 1]),
            &format!("edge1 {}+1", &hash[..hash.len() - 2]),
            &format!("edge1 {hash} more"),
            &format!("edge1, {hash}"),
            &format!("Edge1 {hash}"),
            &format!("edge1,* {hash}"),
            &hash,
        ] {
            let error = file(&format!("# one\n{line}\n")).err().expect(line);
            assert!(matches!(error, PasswordsError::Line(2)), "{line}: {error}");
        }
        let many = format!("* {hash}\n").repeat(PASSWORDS_MAX + 1);
        assert!(matches!(file(&many), Err(PasswordsError::TooMany)));
        let binary = Passwords::parse(&[0xff]);
        assert!(matches!(binary, Err(PasswordsError::NoText)));
    }

    #[test]
    fn file_is_read_to_its_maximum() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let length = usize::try_from(FILE_MAX).expect("a length");
        std::fs::write(file.path(), vec![b'\n'; length]).expect("written");
        assert!(PasswordFile::read(file.path()).is_ok());
        std::fs::write(file.path(), vec![b'\n'; length + 1]).expect("written");
        let error = PasswordFile::read(file.path()).err();
        assert!(matches!(error, Some(PasswordsError::TooLong)), "{error:?}");
    }
}
