//! The account whose tokens an agent issues.

use std::fmt;
use std::str::FromStr;

/// Maximum length of a name or a namespace.
const NAME_MAX: usize = 253;

/// Namespace and name of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Error of a text that is no account.
#[derive(Debug, thiserror::Error)]
#[error("it is not NAMESPACE/NAME of a service account")]
pub struct AccountError;

impl FromStr for Account {
    type Err = AccountError;

    fn from_str(text: &str) -> Result<Self, AccountError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let is_name =
            |part: &str| !part.is_empty() && part.len() <= NAME_MAX && part.chars().all(is_plain);
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(AccountError),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_is_a_namespace_and_a_name() {
        let account: Account = "causeway-system/causeway".parse().unwrap();
        assert_eq!(account.to_string(), "causeway-system/causeway");
        for text in [
            "",
            "causeway",
            "/causeway",
            "a/",
            "a/b/c",
            "a/../b",
            "A/b",
            "a/b?x",
        ] {
            assert!(text.parse::<Account>().is_err(), "{text}");
        }
    }
}
