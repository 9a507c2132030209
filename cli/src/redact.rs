//! Leaves secrets out of what is handed on to others.
//!
//! Three nets, one behind the other. Values that are known to be secret, those of Secrets and of the credentials in use, are left out
//! wherever they stand, in plain text or in base64. Of objects only what is known to be harmless is kept in places where people put secrets:
//! annotations, environments, headers, the data of Secrets and ConfigMaps. In every text what looks like a secret is left out: tokens, private
//! keys, passwords in URLs, values behind such words as password or token.
//!
//! What is secret and looks like nothing of this, a password in a sentence say, is not recognised. Whoever hands something on has to
//! look through it.

mod object;
mod patterns;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use self::patterns::Patterns;

/// What stands where something was left out.
pub(crate) const LEFT_OUT: &str = "[left out]";

/// Shorter values are no secrets, and would be found in innocent words.
const SHORTEST_SECRET: usize = 8;
/// Shorter lines of a longer value, such as a private key, are not looked for.
const SHORTEST_LINE: usize = 16;

/// What was left out, for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Secret {
    /// A value of a Secret or of a kubeconfig.
    Known,
    PrivateKey,
    Token,
    Password,
    Annotation,
    Environment,
    Data,
}

impl Secret {
    /// What these are, as in "3 private keys".
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Known => "values of Secrets and credentials",
            Self::PrivateKey => "private keys",
            Self::Token => "tokens",
            Self::Password => "passwords and the like",
            Self::Annotation => "annotations that are not known to be harmless",
            Self::Environment => "values of environment variables and headers",
            Self::Data => "data of Secrets and ConfigMaps",
        }
    }
}

/// Leaves secrets out of texts and objects, and counts them.
pub(crate) struct Redactor {
    /// The longest first.
    known: Vec<String>,
    patterns: Patterns,
    counts: BTreeMap<Secret, usize>,
}

impl Redactor {
    /// One that knows no secret yet.
    ///
    /// # Errors
    /// Where one of its own patterns makes no sense.
    pub(crate) fn new() -> Result<Self, regex::Error> {
        Ok(Self {
            known: Vec::new(),
            patterns: Patterns::new()?,
            counts: BTreeMap::new(),
        })
    }

    /// Leaves this value out from now on, wherever it stands: as it is, line by line, and in base64.
    pub(crate) fn know(&mut self, value: &str) {
        let value = value.trim();
        if value.len() < SHORTEST_SECRET {
            return;
        }
        self.remember(value.to_owned());
        self.remember(STANDARD.encode(value));
        let lines = value.lines().map(str::trim);
        let lines = lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
        lines.for_each(|line| self.remember(line.to_owned()));
    }

    fn remember(&mut self, value: String) {
        if !self.known.contains(&value) {
            self.known.push(value);
            self.known
                .sort_by_key(|value| std::cmp::Reverse(value.len()));
        }
    }

    /// The text without secrets.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.known {
            let found = text.matches(value.as_str()).count();
            if found > 0 {
                text = text.replace(value.as_str(), LEFT_OUT);
                *self.counts.entry(Secret::Known).or_default() += found;
            }
        }
        let known = &self.known;
        let is_known = |decoded: &str| known.iter().any(|value| decoded.contains(value.as_str()));
        self.patterns.apply(&text, is_known, &mut self.counts)
    }

    /// The object without secrets, and without what only a machine reads (managedFields).
    pub(crate) fn object(&mut self, object: Value) -> Value {
        object::redact(self, object)
    }

    fn leave_out(&mut self, what: Secret) -> Value {
        *self.counts.entry(what).or_default() += 1;
        LEFT_OUT.into()
    }

    /// How many of what were left out.
    pub(crate) fn counts(&self) -> &BTreeMap<Secret, usize> {
        &self.counts
    }
}

/// Whether a value under this name is a secret, by the words in it: of a field, a flag, a variable, a query parameter.
fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 15] = [
        "token",
        "password",
        "passwd",
        "passphrase",
        "secret",
        "apikey",
        "accesskey",
        "privatekey",
        "clientkey",
        "credential",
        "authorization",
        "cookie",
        "sessionid",
        "signature",
        "kubeconfig",
    ];
    // What says where a secret is, is none.
    const HARMLESS: [&str; 14] = [
        "name",
        "names",
        "namespace",
        "namespaces",
        "ref",
        "refs",
        "file",
        "path",
        "dir",
        "seconds",
        "type",
        "kind",
        "count",
        "total",
    ];
    let name: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    WORDS.iter().any(|word| name.contains(word)) && !HARMLESS.iter().any(|end| name.ends_with(end))
}
