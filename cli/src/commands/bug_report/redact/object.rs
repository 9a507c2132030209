//! Redaction of Kubernetes objects.

use serde_json::{Map, Value};

use super::{Redactor, Secret, is_secret_name};

/// Domain suffixes of annotations that retain their values. Users and other programs may write
/// secrets to other annotations.
const KEPT_DOMAINS: [&str; 8] = [
    "causeway.dev",
    "karmada.io",
    "kubernetes.io",
    "k8s.io",
    "helm.sh",
    "argoproj.io",
    "fluxcd.io",
    "cert-manager.io",
];

/// Prefixes of environment variables that retain their values: flags of causeway, and settings of
/// its log and runtime.
const KEPT_VARIABLES: [&str; 2] = ["CAUSEWAY_", "RUST_"];

pub(super) fn redact(redactor: &mut Redactor, value: Value) -> Value {
    match value {
        Value::Object(fields) => object(redactor, fields),
        Value::Array(items) => {
            let items = items.into_iter();
            items.map(|item| redact(redactor, item)).collect()
        }
        Value::String(text) => redactor.text(&text).into(),
        other => other,
    }
}

fn object(redactor: &mut Redactor, mut fields: Map<String, Value>) -> Value {
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let holds_data = matches!(
        fields.get("kind").and_then(Value::as_str),
        Some("Secret" | "ConfigMap")
    );
    let fields = fields.into_iter().map(|(name, value)| {
        let value = match name.as_str() {
            "data" | "stringData" | "binaryData" if holds_data => {
                all(redactor, value, Secret::Data)
            }
            "annotations" | "exportedAnnotations" => annotations(redactor, value),
            "env" | "httpHeaders" => environment(redactor, value),
            "args" | "command" => arguments(redactor, value),
            // Headers authenticate requests.
            "proxyHeader" => all(redactor, value, Secret::Environment),
            name if is_secret_name(name) && value.is_string() => {
                redactor.leave_out(Secret::Password)
            }
            _ => redact(redactor, value),
        };
        (name, value)
    });
    Value::Object(fields.collect())
}

/// Retains the keys of a map and redacts its values.
fn all(redactor: &mut Redactor, value: Value, what: Secret) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, _)| (name, redactor.leave_out(what)));
            Value::Object(fields.collect())
        }
        Value::Null => Value::Null,
        _ => redactor.leave_out(what),
    }
}

fn annotations(redactor: &mut Redactor, value: Value) -> Value {
    let Value::Object(fields) = value else {
        return redact(redactor, value);
    };
    let fields = fields.into_iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) if is_kept(&name) => redactor.text(&text).into(),
            _ => redactor.leave_out(Secret::Annotation),
        };
        (name, value)
    });
    Value::Object(fields.collect())
}

/// Whether the value of an annotation is known to be harmless. `last-applied` annotations contain
/// the whole object and are not.
fn is_kept(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    let of = |kept: &&str| {
        domain.is_some_and(|domain| {
            domain
                .strip_suffix(*kept)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    };
    KEPT_DOMAINS.iter().any(of) && !name.contains("last-applied") && !is_secret_name(name)
}

/// Redacts a list of variables or headers with `name` and `value`.
fn environment(redactor: &mut Redactor, value: Value) -> Value {
    let Value::Array(variables) = value else {
        return redact(redactor, value);
    };
    let variables = variables.into_iter().map(|variable| {
        let Value::Object(mut fields) = variable else {
            return redactor.leave_out(Secret::Environment);
        };
        let name = fields
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let is_kept = KEPT_VARIABLES.iter().any(|kept| name.starts_with(kept));
        if (!is_kept || is_secret_name(name)) && fields.contains_key("value") {
            let value = redactor.leave_out(Secret::Environment);
            fields.insert("value".to_owned(), value);
        }
        redact(redactor, Value::Object(fields))
    });
    variables.collect()
}

/// Redacts a command line. The value of a flag may be the next argument.
fn arguments(redactor: &mut Redactor, value: Value) -> Value {
    let Value::Array(words) = value else {
        return redact(redactor, value);
    };
    let mut is_secret = false;
    let words = words.into_iter().map(|word| {
        let text = word.as_str().unwrap_or_default();
        let is_value = is_secret && !text.starts_with('-');
        is_secret = text.starts_with('-') && !text.contains('=') && is_secret_name(text);
        match is_value {
            true => redactor.leave_out(Secret::Password),
            false => redact(redactor, word),
        }
    });
    words.collect()
}
