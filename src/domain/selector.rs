//! Selectors of clusters by their properties (KEP-5939, "Property Selector").
//!
//! Exports have them in `spec.clusterSelectors`, and [`labels::PREFER`] has them as words, such as
//! `same(continent)&property(gpu)=high|mid`. Both say the same, so one evaluator serves both.

use std::fmt;

use super::field::{FieldError, quoted};
use super::name::{is_qualified, is_subdomain};
use crate::api::multicluster as api;

/// Selector of clusters: all its requirements hold for a cluster that it selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterSelector(Box<[Requirement]>);

/// Requirement of one property of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: Box<str>,
    operator: Operator,
}

/// Condition on the value of a property, with its meaning in a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Operator {
    In(Box<[Box<str>]>),
    NotIn(Box<[Box<str>]>),
    Exists,
    DoesNotExist,
}

/// Value that stands for that of the importing cluster.
pub const SAME_AS_IMPORTER: &str = "@SameAsImporter@";

/// Maximum number of selectors of an export (KEP-5939, "API Overview").
pub const SELECTORS_MAX: usize = 16;
/// Maximum number of requirements of a selector, and of values of a requirement.
const ENTRIES_MAX: usize = 64;

const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];
const SAME: &str = "same(";
const PROPERTY: &str = "property(";
const ABSENT: &str = "!property(";
/// Characters that a value has in its encoded form alone.
const ENCODED: &[char] = &['%', ',', '&', '|'];

impl ClusterSelector {
    /// Reads the selectors of an export.
    ///
    /// # Errors
    /// The fields that break a rule of the KEP; the selectors are then ignored as a whole.
    pub fn read_all(all: &[api::ClusterSelector]) -> Result<Vec<Self>, Vec<FieldError>> {
        if all.len() > SELECTORS_MAX {
            return Err(vec![FieldError::too_many(Self::PATH, SELECTORS_MAX)]);
        }
        let mut errors = Vec::new();
        let mut selectors = Vec::new();
        for (place, selector) in all.iter().enumerate() {
            let path = format!("{}[{place}].propertySelector", Self::PATH);
            match Self::read(&path, selector.property_selector.as_ref()) {
                Ok(selector) => selectors.push(selector),
                Err(error) => errors.push(error),
            }
        }
        let words: Vec<_> = selectors.iter().map(ToString::to_string).collect();
        errors.extend(FieldError::of_recorded(Self::PATH, &words.join(", ")));
        match errors.is_empty() {
            true => Ok(selectors),
            false => Err(errors),
        }
    }

    /// Returns the selectors that an import copies: none if one breaks a rule.
    pub fn copied(all: &[api::ClusterSelector]) -> &[api::ClusterSelector] {
        match Self::read_all(all) {
            Ok(_) => all,
            Err(_) => &[],
        }
    }

    /// Path of the selectors in an export.
    pub const PATH: &str = "spec.clusterSelectors";

    fn read(path: &str, selector: Option<&api::PropertySelector>) -> Result<Self, FieldError> {
        let needs_one = || FieldError::required(path, "name at least one property");
        let selector = selector.ok_or_else(needs_one)?;
        let (equal, expressions) = (&selector.match_properties, &selector.match_expressions);
        if equal.is_empty() && expressions.is_empty() {
            return Err(needs_one());
        }
        if equal.len() + expressions.len() > ENTRIES_MAX {
            return Err(FieldError::too_many(path, ENTRIES_MAX));
        }
        let mut requirements = Vec::new();
        for (key, value) in equal {
            let path = format!("{path}.matchProperties");
            requirements.push(Requirement {
                key: property_name(&path, key)?,
                operator: Operator::In([value.as_str().into()].into()),
            });
        }
        for (place, expression) in expressions.iter().enumerate() {
            let path = format!("{path}.matchExpressions[{place}]");
            requirements.push(Requirement {
                key: property_name(&format!("{path}.key"), &expression.key)?,
                operator: Operator::read(&path, expression)?,
            });
        }
        Ok(Self(requirements.into()))
    }

    /// Reads a word of a preference, such as `same(continent)&property(gpu)=high`; `None` for a
    /// text that begins as none.
    ///
    /// # Errors
    /// A sentence with the rule that the word breaks.
    pub fn read_word(word: &str) -> Option<Result<Self, String>> {
        let begins = |prefix: &&str| word.starts_with(*prefix);
        if ![SAME, PROPERTY, ABSENT].iter().any(begins) {
            return None;
        }
        if word.split('&').nth(ENTRIES_MAX).is_some() {
            return Some(Err(format!("has more than {ENTRIES_MAX} parts")));
        }
        let parts = word.split('&').map(|part| Requirement::read(part.trim()));
        Some(parts.collect::<Result<Box<[_]>, _>>().map(Self))
    }

    /// Whether it selects a cluster for an importing one. A property that is to be the same as the
    /// importer's, and that the importer lacks, selects nothing.
    pub fn selects<'a>(
        &self,
        importer: impl Fn(&str) -> Option<&'a str>,
        cluster: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let mut requirements = self.0.iter();
        requirements.all(|one| one.holds(importer(&one.key), cluster(&one.key)))
    }

    /// Lists the properties that are to be the same as the importer's.
    pub fn same(&self) -> impl Iterator<Item = &str> {
        let same = self.0.iter().filter(|one| one.values().any(is_placeholder));
        same.map(|one| &*one.key)
    }
}

impl Requirement {
    fn read(part: &str) -> Result<Self, String> {
        let shown = quoted(part);
        let (prefix, rest) = [SAME, PROPERTY, ABSENT]
            .into_iter()
            .find_map(|prefix| Some((prefix, part.strip_prefix(prefix)?)))
            .ok_or_else(|| format!("{shown} is neither same(KEY) nor property(KEY)=VALUE"))?;
        let (key, rest) = rest
            .split_once(')')
            .ok_or_else(|| format!("{shown} lacks its closing parenthesis"))?;
        let key = key.trim();
        if !is_qualified(key) && !is_subdomain(key) {
            return Err(format!(
                "{:?} is no name of a property or label",
                quoted(key)
            ));
        }
        let rest = rest.trim();
        let operator = match (prefix, rest) {
            (SAME, "") => Operator::In([SAME_AS_IMPORTER.into()].into()),
            (PROPERTY, "") => Operator::Exists,
            (ABSENT, "") => Operator::DoesNotExist,
            (PROPERTY, rest) => match (rest.strip_prefix("!="), rest.strip_prefix('=')) {
                (Some(values), _) => Operator::NotIn(decoded(values)?),
                (_, Some(values)) => Operator::In(decoded(values)?),
                _ => return Err(format!("{shown} has neither = nor != after its key")),
            },
            _ => return Err(format!("{shown} takes no value")),
        };
        Ok(Self {
            key: key.into(),
            operator,
        })
    }

    fn values(&self) -> impl Iterator<Item = &str> {
        let values = match &self.operator {
            Operator::In(values) | Operator::NotIn(values) => &values[..],
            Operator::Exists | Operator::DoesNotExist => &[],
        };
        values.iter().map(|value| &**value)
    }

    fn holds(&self, importer: Option<&str>, value: Option<&str>) -> bool {
        if importer.is_none() && self.values().any(is_placeholder) {
            return false;
        }
        let has = |value: &str| {
            let mut values = self.values();
            values.any(|one| match is_placeholder(one) {
                true => importer == Some(value),
                false => one == value,
            })
        };
        match &self.operator {
            Operator::In(_) => value.is_some_and(has),
            Operator::NotIn(_) => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl Operator {
    fn read(path: &str, expression: &api::PropertyRequirement) -> Result<Self, FieldError> {
        let path_of_values = format!("{path}.values");
        let values = &expression.values;
        if values.len() > ENTRIES_MAX {
            return Err(FieldError::too_many(path_of_values, ENTRIES_MAX));
        }
        let boxed = || values.iter().map(|value| value.as_str().into()).collect();
        match (expression.operator.as_str(), values.is_empty()) {
            ("In" | "NotIn", true) => {
                let detail = "In and NotIn need at least one value";
                Err(FieldError::required(path_of_values, detail))
            }
            ("In", false) => Ok(Self::In(boxed())),
            ("NotIn", false) => Ok(Self::NotIn(boxed())),
            ("Exists", true) => Ok(Self::Exists),
            ("DoesNotExist", true) => Ok(Self::DoesNotExist),
            ("Exists" | "DoesNotExist", false) => {
                let detail = "Exists and DoesNotExist take no values";
                Err(FieldError::forbidden(path_of_values, detail))
            }
            (other, _) => {
                let path = format!("{path}.operator");
                Err(FieldError::not_supported(path, other, OPERATORS))
            }
        }
    }
}

/// Checks the name of a ClusterProperty (KEP-2149): that of an object, a DNS-1123 subdomain.
fn property_name(path: &str, name: &str) -> Result<Box<str>, FieldError> {
    let detail = "must be the name of a ClusterProperty: a lowercase RFC 1123 subdomain";
    let is_one = is_subdomain(name).then(|| name.into());
    is_one.ok_or_else(|| FieldError::invalid(path, name, detail))
}

fn is_placeholder(value: &str) -> bool {
    value == SAME_AS_IMPORTER
}

/// Writes a value so that it ends no word: some characters become `%` and two hexadecimal digits.
fn encoded(value: &str) -> String {
    let mut text = String::new();
    for letter in value.chars() {
        match letter.is_whitespace() || letter.is_control() || ENCODED.contains(&letter) {
            true => {
                let mut bytes = [0; 4];
                let bytes = letter.encode_utf8(&mut bytes).bytes();
                text.extend(bytes.map(|byte| format!("%{byte:02X}")));
            }
            false => text.push(letter),
        }
    }
    text
}

/// Reads values that `|` joins.
fn decoded(text: &str) -> Result<Box<[Box<str>]>, String> {
    if text.split('|').nth(ENTRIES_MAX).is_some() {
        return Err(format!("has more than {ENTRIES_MAX} values"));
    }
    text.split('|')
        .map(|one| decoded_value(one.trim()))
        .collect()
}

fn decoded_value(text: &str) -> Result<Box<str>, String> {
    let malformed = || {
        let rule = "% must be followed by two hexadecimal digits of UTF-8";
        format!("{:?}: {rule}", quoted(text))
    };
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = after.split_at_checked(2).ok_or_else(malformed)?;
        let digits = std::str::from_utf8(digits).map_err(|_| malformed())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| malformed())?);
        rest = after;
    }
    let value = String::from_utf8(bytes).map_err(|_| malformed())?;
    Ok(value.into())
}

impl fmt::Display for ClusterSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&parts.join("&"))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let join = || self.values().map(encoded).collect::<Vec<_>>().join("|");
        match &self.operator {
            Operator::In(values) if matches!(&values[..], [one] if is_placeholder(one)) => {
                write!(out, "{SAME}{key})")
            }
            Operator::In(_) => write!(out, "{PROPERTY}{key})={}", join()),
            Operator::NotIn(_) => write!(out, "{PROPERTY}{key})!={}", join()),
            Operator::Exists => write!(out, "{PROPERTY}{key})"),
            Operator::DoesNotExist => write!(out, "{ABSENT}{key})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(selector: Value) -> Result<ClusterSelector, String> {
        let selector = json!([{"propertySelector": selector}]);
        let all: Vec<api::ClusterSelector> = serde_json::from_value(selector).expect("a list");
        let read = ClusterSelector::read_all(&all);
        let read = read.map(|mut all| all.remove(0));
        read.map_err(|errors| errors[0].to_string())
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        let requirement = json!({"key": key, "operator": operator, "values": values});
        json!({"matchExpressions": [requirement]})
    }

    #[test]
    fn a_field_and_its_words_are_one_selector() {
        for (selector, words) in [
            (
                json!({"matchProperties": {"gpu": "high"}}),
                "property(gpu)=high",
            ),
            (
                json!({"matchProperties": {"region.topology.k8s.io": "@SameAsImporter@"}}),
                "same(region.topology.k8s.io)",
            ),
            (
                json!({"matchProperties": {"a": "x", "b": ""}}),
                "property(a)=x&property(b)=",
            ),
            (
                expression("gpu", "In", &["high", "mid"]),
                "property(gpu)=high|mid",
            ),
            (
                expression("gpu", "NotIn", &["@SameAsImporter@"]),
                "property(gpu)!=@SameAsImporter@",
            ),
            (expression("gpu", "Exists", &[]), "property(gpu)"),
            (expression("gpu", "DoesNotExist", &[]), "!property(gpu)"),
            (
                expression("note", "In", &["a, b|c&d", "50%"]),
                "property(note)=a%2C%20b%7Cc%26d|50%25",
            ),
        ] {
            let selector = read(selector).expect("a selector");
            assert_eq!(selector.to_string(), words);
            assert_eq!(ClusterSelector::read_word(words), Some(Ok(selector)));
        }
    }

    #[test]
    fn selector_that_breaks_a_rule_is_rejected_with_its_field() {
        for (selector, path) in [
            (
                json!({}),
                "spec.clusterSelectors[0].propertySelector: Required value",
            ),
            (
                json!({"matchProperties": {"a/b": "x"}}),
                "spec.clusterSelectors[0].propertySelector.matchProperties: Invalid value",
            ),
            (
                expression("gpu", "In", &[]),
                "spec.clusterSelectors[0].propertySelector.matchExpressions[0].values: Required value",
            ),
            (
                expression("gpu", "Exists", &["x"]),
                "spec.clusterSelectors[0].propertySelector.matchExpressions[0].values: Forbidden",
            ),
            (
                expression("gpu", "Like", &["x"]),
                "spec.clusterSelectors[0].propertySelector.matchExpressions[0].operator: Unsupported value",
            ),
            (
                json!({"matchProperties": {"a": "x".repeat(64 * 1024)}}),
                "spec.clusterSelectors: Invalid value",
            ),
        ] {
            let error = read(selector).expect_err(path);
            assert!(error.starts_with(path), "{error}");
        }
        let many = vec![api::ClusterSelector::default(); SELECTORS_MAX + 1];
        let errors = ClusterSelector::read_all(&many).expect_err("too many");
        assert!(errors[0].to_string().contains("Too many"), "{errors:?}");
    }

    #[test]
    fn malformed_word_is_rejected_with_the_rule() {
        for (word, rule) in [
            ("same(a", "closing parenthesis"),
            ("same(a)=x", "takes no value"),
            ("property(a)x", "neither = nor !="),
            ("property()=x", "no name of a property"),
            ("property(a)=%2", "two hexadecimal digits"),
            (
                "property(a)&any",
                "neither same(KEY) nor property(KEY)=VALUE",
            ),
        ] {
            let error = ClusterSelector::read_word(word).expect("a selector");
            let error = error.expect_err(word);
            assert!(error.contains(rule), "{word}: {error}");
        }
        assert_eq!(ClusterSelector::read_word("zone"), None);
    }

    #[test]
    fn requirements_mean_what_they_mean_in_a_label_selector() {
        let (high, low): (&[_], &[_]) = (&[("gpu", "high")], &[("gpu", "low")]);
        for (word, importer, selects_high, selects_low, selects_none) in [
            ("property(gpu)=high", low, true, false, false),
            ("property(gpu)=high|low", low, true, true, false),
            ("property(gpu)!=high", low, false, true, true),
            ("property(gpu)", low, true, true, false),
            ("!property(gpu)", low, false, false, true),
            ("same(gpu)", low, false, true, false),
            ("same(gpu)", &[], false, false, false),
            ("property(gpu)!=@SameAsImporter@", low, true, false, true),
            ("property(gpu)!=@SameAsImporter@", &[], false, false, false),
            ("property(gpu)&property(x)", low, false, false, false),
        ] {
            let selector = ClusterSelector::read_word(word)
                .expect("a selector")
                .expect(word);
            let value = |of: &'static [(&'static str, &'static str)]| {
                move |key: &str| {
                    of.iter()
                        .find(|(name, _)| *name == key)
                        .map(|(_, value)| *value)
                }
            };
            let selects = [high, low, &[]].map(|one| selector.selects(value(importer), value(one)));
            assert_eq!(selects, [selects_high, selects_low, selects_none], "{word}");
        }
    }
}
