use std::fmt;

use serde_json::Value;

/// What is wrong with a field, worded as Kubernetes' own field errors are
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
}

/// One field that is wrong: where, what it holds, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `spec.ports[0].name`.
    pub path: String,
    /// What is wrong.
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
        Self::new(path, Problem::Invalid(value.into()), detail)
    }

    /// A value that is none of those supported.
    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &'static [&'static str],
    ) -> Self {
        Self::new(path, Problem::NotSupported(value.into(), supported), "")
    }

    /// A value that stands there already.
    pub fn duplicate(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(path, Problem::Duplicate(value.into()), detail)
    }

    /// A value or a change that is not allowed here.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Problem::Forbidden, detail)
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
        }
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(out, ": {}", self.detail)
        }
    }
}

/// All that is wrong with an object; never empty where it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct FieldErrors(pub Vec<FieldError>);

impl fmt::Display for FieldErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(ToString::to_string).collect();
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
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn several_errors_stand_in_one_list() {
        let errors = FieldErrors(vec![
            FieldError::forbidden("a", "x"),
            FieldError::forbidden("b", "y"),
        ]);
        assert_eq!(errors.to_string(), "[a: Forbidden: x, b: Forbidden: y]");
    }
}
