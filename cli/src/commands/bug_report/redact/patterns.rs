//! Patterns of secrets in texts.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex::{Captures, Regex};

use super::{LEFT_OUT, Secret, is_secret_name};

/// Minimum length of a credential without digits after a scheme such as Bearer. Shorter strings are
/// ordinary words.
const LONG: usize = 20;

/// Compiled patterns.
pub(super) struct Patterns {
    private_key: Regex,
    jwt: Regex,
    scheme: Regex,
    user_info: Regex,
    vendor: Regex,
    pair: Regex,
    flag: Regex,
    base64: Regex,
}

impl Patterns {
    pub(super) fn new() -> Result<Self, regex::Error> {
        let name = "[A-Za-z0-9_.-]+";
        Ok(Self {
            // A truncated key extends to the end of the text.
            private_key: Regex::new(
                r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
            )?,
            // RFC 7519: two or three parts in base64url. The first part is a JSON header.
            jwt: Regex::new(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?")?,
            // RFC 9110, "Authorization".
            scheme: Regex::new(
                r"(?i)\b(bearer|basic|digest|negotiate)(\s+)([A-Za-z0-9._~+/=:-]{6,})",
            )?,
            user_info: Regex::new(r#"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"<>]+@"#)?,
            // AWS, GitHub, GitLab, Slack, Google, and Kubernetes bootstrap tokens.
            vendor: Regex::new(
                r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{35}|[a-z0-9]{6}\.[a-z0-9]{16})\b",
            )?,
            pair: Regex::new(&format!(
                r#"({name})(\\*["']?[ \t]*[=:][ \t]*)("(?:[^"\\]|\\.)*"|\\*"[^"\\]*\\*"|'[^']*'|[^\s,;&"'\\(){{}}\[\]]+)"#
            ))?,
            flag: Regex::new(&format!(r#"(--{name})(\s+)([^\s-]\S*)"#))?,
            base64: Regex::new(r"[A-Za-z0-9+/]{16,}={0,2}")?,
        })
    }

    /// Returns the text without strings that resemble secrets. `is_known` returns whether decoded
    /// base64 contains a known secret. `depth` is the nesting of base64 that is decoded.
    pub(super) fn apply(
        &self,
        text: &str,
        is_known: &dyn Fn(&str) -> bool,
        counts: &mut BTreeMap<Secret, usize>,
        depth: usize,
    ) -> String {
        let mut count = |what| *counts.entry(what).or_default() += 1;
        let text = self.private_key.replace_all(text, |_: &Captures<'_>| {
            count(Secret::PrivateKey);
            LEFT_OUT
        });
        let text = self.jwt.replace_all(&text, |_: &Captures<'_>| {
            count(Secret::Token);
            LEFT_OUT
        });
        let text = self.vendor.replace_all(&text, |_: &Captures<'_>| {
            count(Secret::Token);
            LEFT_OUT
        });
        let text = self.scheme.replace_all(&text, |found: &Captures<'_>| {
            let is_word = found[3].len() < LONG && !found[3].contains(|c: char| c.is_ascii_digit());
            if is_word {
                return found[0].to_owned();
            }
            count(Secret::Token);
            format!("{}{}{LEFT_OUT}", &found[1], &found[2])
        });
        let text = self.user_info.replace_all(&text, |found: &Captures<'_>| {
            count(Secret::Password);
            format!("{}{LEFT_OUT}@", &found[1])
        });
        let text = without_values(&self.pair, &text, &mut count);
        let text = without_values(&self.flag, &text, &mut count);
        if depth == 0 {
            return text;
        }
        let text = self.base64.replace_all(&text, |found: &Captures<'_>| {
            let decoded = STANDARD_NO_PAD.decode(found[0].trim_end_matches('='));
            let decoded = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let hides = decoded.is_some_and(|decoded| {
                let mut within = BTreeMap::new();
                self.apply(&decoded, is_known, &mut within, depth - 1);
                !within.is_empty() || is_known(&decoded)
            });
            if hides {
                *counts.entry(Secret::Known).or_default() += 1;
                return LEFT_OUT.to_owned();
            }
            found[0].to_owned()
        });
        text.into_owned()
    }
}

/// Removes the values (third group) of secret names (first group). Searches the value of another
/// name for secret names too.
fn without_values(pattern: &Regex, text: &str, count: &mut impl FnMut(Secret)) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut at, mut from) = (0, 0);
    while let Some(found) = pattern.captures_at(text, at) {
        let (Some(name), Some(value)) = (found.get(1), found.get(3)) else {
            break;
        };
        at = value.start();
        if is_secret_name(name.as_str()) && !value.as_str().starts_with(LEFT_OUT) {
            kept.push_str(text.get(from..value.start()).unwrap_or_default());
            kept.push_str(LEFT_OUT);
            count(Secret::Password);
            at = value.end();
            from = value.end();
        }
    }
    kept.push_str(text.get(from..).unwrap_or_default());
    kept
}
