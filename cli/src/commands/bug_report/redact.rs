//! Redaction of secrets in texts and objects that users share.
//!
//! Redaction has three stages. Known values, from Secrets and from the credentials in use, are
//! removed everywhere, in plain text and in base64. Objects retain only values known to be harmless
//! in fields that often hold secrets: annotations, environments, headers, the data of Secrets and
//! ConfigMaps. All texts lose strings that resemble secrets: tokens, private keys, passwords in
//! URLs, values after words such as password or token.
//!
//! A secret that matches none of these, for example a password in a sentence, is not recognized.
//! Users must review the result before they share it.

mod object;
mod patterns;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use self::patterns::Patterns;

/// Replacement for redacted values.
pub(crate) const LEFT_OUT: &str = "[left out]";

/// Maximum nesting of base64 that is decoded.
const DEPTH: usize = 2;
/// Minimum length in bytes of a known secret. Shorter values occur in ordinary words.
const SHORTEST_SECRET: usize = 8;
/// Minimum length in bytes of a single line of a known multi-line secret, such as a private key.
const SHORTEST_LINE: usize = 16;

/// Category of a redacted value, for the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Secret {
    /// Value of a Secret or of a kubeconfig.
    Known,
    PrivateKey,
    Token,
    Password,
    Annotation,
    Environment,
    Data,
}

impl Secret {
    /// Returns the plural name of the category, as in "3 private keys".
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

/// Returns the text as a string in JSON has it, without the quotes.
fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Redacts texts and objects, and counts the redacted values.
pub(crate) struct Redactor {
    /// Known secrets, longest first.
    known: Vec<String>,
    patterns: Patterns,
    counts: BTreeMap<Secret, usize>,
}

impl Redactor {
    /// Creates a redactor without known secrets.
    ///
    /// # Errors
    /// [`regex::Error`] if a built-in pattern is invalid.
    pub(crate) fn new() -> Result<Self, regex::Error> {
        Ok(Self {
            known: Vec::new(),
            patterns: Patterns::new()?,
            counts: BTreeMap::new(),
        })
    }

    /// Adds a known secret. The redactor removes it from later texts as a whole, line by line, in
    /// base64, and in JSON, also in JSON that is a string of JSON.
    pub(crate) fn know(&mut self, value: &str) {
        let value = value.trim();
        if value.len() < SHORTEST_SECRET {
            return;
        }
        self.remember(value.to_owned());
        self.remember(STANDARD.encode(value));
        let once = in_json(value);
        self.remember(in_json(&once));
        self.remember(once);
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

    /// Returns the text without secrets.
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
        self.patterns
            .apply(&text, &is_known, &mut self.counts, DEPTH)
    }

    /// Returns the object without secrets and without managedFields.
    pub(crate) fn object(&mut self, object: Value) -> Value {
        object::redact(self, object)
    }

    fn leave_out(&mut self, what: Secret) -> Value {
        *self.counts.entry(what).or_default() += 1;
        LEFT_OUT.into()
    }

    /// Returns the number of redacted values by category.
    pub(crate) fn counts(&self) -> &BTreeMap<Secret, usize> {
        &self.counts
    }
}

/// Whether the name of a field, flag, variable or query parameter contains a word that marks its
/// value as secret.
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
    // Words that mark a value as harmless, for example as the location of a secret.
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
