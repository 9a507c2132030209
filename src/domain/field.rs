use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::api::bounds;

/// Maximum number of errors kept for an object; the rest is counted.
const ERRORS_MAX: usize = 20;

/// Maximum number of entries of a list that an error quotes.
const ENTRIES_MAX: usize = 20;

/// Maximum number of bytes of a text that an error quotes.
const QUOTED_MAX: usize = 256;

/// Problem of a field, in the words of Kubernetes' own field errors
/// (k8s.io/apimachinery/pkg/util/validation/field).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The field has to be there.
    Required,
    /// The value breaks a rule.
    Invalid(Value),
    /// The value is none of the supported ones, which are listed.
    NotSupported(Value, &'static [&'static str]),
    /// The value stands there already.
    Duplicate(Value),
    /// The value, or the change, is not allowed here.
    Forbidden,
    /// The list has more entries than this.
    TooMany(usize),
}

/// One field that is wrong: where, what it holds, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `spec.ports[0].name`.
    pub path: String,
    /// Problem.
    pub problem: Problem,
    /// The rule and the remedy, for a person. May be empty.
    pub detail: String,
}

impl FieldError {
    /// A field that has to be there.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Problem::Required, detail)
    }

    /// A value that breaks a rule.
    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(path, Problem::Invalid(excerpt(value.into())), detail)
    }

    /// A value that is none of those supported.
    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &'static [&'static str],
    ) -> Self {
        let problem = Problem::NotSupported(excerpt(value.into()), supported);
        Self::new(path, problem, "")
    }

    /// A value that stands there already.
    pub fn duplicate(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(path, Problem::Duplicate(excerpt(value.into())), detail)
    }

    /// A value or a change that is not allowed here.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Problem::Forbidden, detail)
    }

    /// A list with more entries than `most`.
    pub fn too_many(path: impl Into<String>, most: usize) -> Self {
        Self::new(path, Problem::TooMany(most), "")
    }

    /// Returns the error of a text that is too long for the annotations of an import.
    pub(super) fn of_recorded(path: &str, text: &str) -> Option<Self> {
        let most = bounds::RECORDED_TEXT;
        (text.len() > most).then(|| {
            let detail = format!("must have at most {most} bytes, because each import records it");
            Self::invalid(path, text, detail)
        })
    }

    /// The same about something that is accepted: where it is, and the detail.
    pub fn remark(&self) -> String {
        format!("{}: {}", self.path, self.detail)
    }

    fn new(path: impl Into<String>, problem: Problem, detail: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            problem,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.path)?;
        match &self.problem {
            Problem::Required => out.write_str("Required value")?,
            Problem::Invalid(value) => write!(out, "Invalid value: {value}")?,
            Problem::NotSupported(value, supported) => {
                let supported: Vec<_> = supported.iter().map(|one| format!("{one:?}")).collect();
                write!(
                    out,
                    "Unsupported value: {value}: supported values: {}",
                    supported.join(", ")
                )?;
            }
            Problem::Duplicate(value) => write!(out, "Duplicate value: {value}")?,
            Problem::Forbidden => out.write_str("Forbidden")?,
            Problem::TooMany(most) => write!(out, "Too many: must have at most {most} items")?,
        }
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(out, ": {}", self.detail)
        }
    }
}

/// A value as an error quotes it: an object of megabytes makes no answer of megabytes.
fn excerpt(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > QUOTED_MAX => quoted(&text).into_owned().into(),
        Value::Array(mut list) => {
            let rest = list.len().saturating_sub(ENTRIES_MAX);
            list.truncate(ENTRIES_MAX);
            list = list.into_iter().map(excerpt).collect();
            if rest > 0 {
                list.push(format!("... and {rest} more").into());
            }
            list.into()
        }
        other => other,
    }
}

/// A text as a message quotes it: the beginning of a long one.
pub fn quoted(text: &str) -> Cow<'_, str> {
    if text.len() <= QUOTED_MAX {
        return text.into();
    }
    let end = text.floor_char_boundary(QUOTED_MAX);
    format!("{}... ({} bytes)", &text[..end], text.len()).into()
}

/// All that is wrong with an object: the first errors, and how many more there are. Never empty
/// where it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct FieldErrors {
    shown: Vec<FieldError>,
    more: usize,
}

impl FieldErrors {
    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        if self.shown.len() < ERRORS_MAX {
            self.shown.push(error);
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// The first errors.
    pub fn shown(&self) -> &[FieldError] {
        &self.shown
    }

    /// Returns a note on the number of errors beside those shown; `None` without any.
    pub fn rest(&self) -> Option<String> {
        (self.more > 0).then(|| format!("{} more errors are not shown", self.more))
    }

    /// Replaces the paths of the shown errors for which `place` returns another one.
    pub fn place(&mut self, place: impl Fn(&str) -> Option<String>) {
        for error in &mut self.shown {
            error.path = place(&error.path).unwrap_or_else(|| std::mem::take(&mut error.path));
        }
    }

    /// Adds what another part of the object has.
    pub fn append(&mut self, other: &Self) {
        self.extend(other.shown.iter().cloned());
        self.more += other.more;
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown.iter().map(ToString::to_string);
        let all: Vec<_> = shown.chain(self.rest()).collect();
        match all.as_slice() {
            [one] => out.write_str(one),
            _ => write!(out, "[{}]", all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_error_reads_as_kubernetes_words_it() {
        let cases = [
            (
                FieldError::required("spec.types", "name one"),
                "spec.types: Required value: name one",
            ),
            (
                FieldError::invalid("spec.ports[0].port", 0, "no"),
                "spec.ports[0].port: Invalid value: 0: no",
            ),
            (
                FieldError::not_supported("spec.types[0]", "x", &["A", "B"]),
                r#"spec.types[0]: Unsupported value: "x": supported values: "A", "B""#,
            ),
            (
                FieldError::duplicate("spec.ports[1].name", "http", ""),
                r#"spec.ports[1].name: Duplicate value: "http""#,
            ),
            (
                FieldError::forbidden("spec.types", "cannot change"),
                "spec.types: Forbidden: cannot change",
            ),
            (
                FieldError::too_many("spec.ports", 1024),
                "spec.ports: Too many: must have at most 1024 items",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn several_errors_stand_in_one_list() {
        let mut errors = FieldErrors::default();
        errors.push(FieldError::forbidden("a", "x"));
        assert_eq!(errors.to_string(), "a: Forbidden: x");
        errors.push(FieldError::forbidden("b", "y"));
        assert_eq!(errors.to_string(), "[a: Forbidden: x, b: Forbidden: y]");
    }

    #[test]
    fn of_many_errors_the_first_are_kept_and_the_rest_is_counted() {
        let error = |index: usize| FieldError::required(format!("spec.types[{index}]"), "");
        let mut errors = FieldErrors::default();
        errors.extend((0..100_000).map(error));
        assert_eq!(
            (errors.shown().len(), &errors.shown()[19]),
            (20, &error(19))
        );
        let mut both = errors.clone();
        both.append(&errors);
        assert_eq!(both.shown(), errors.shown());
        let text = both.to_string();
        assert!(
            text.ends_with("[19]: Required value, 199980 more errors are not shown]"),
            "{text}"
        );
    }

    #[test]
    fn an_error_quotes_the_beginning_of_what_is_long() {
        let long = "ä".repeat(1_000_000);
        let list: Vec<_> = (0..100_000).map(|_| long[..2].to_owned()).collect();
        for (error, size) in [
            (FieldError::invalid("a", long.clone(), ""), 320),
            (FieldError::duplicate("a", long.clone(), ""), 320),
            (FieldError::not_supported("a", long.clone(), &[]), 350),
            (FieldError::invalid("a", list, ""), 200),
            (FieldError::invalid("a", vec![long; 30], ""), 20 * 300 + 50),
        ] {
            let text = error.to_string();
            assert!(text.len() < size, "{} bytes: {text}", text.len());
        }
        assert_eq!(quoted("short"), "short");
    }
}
