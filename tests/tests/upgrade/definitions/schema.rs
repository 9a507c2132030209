//! Losses and new requirements of a schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::texts;

/// For people alone.
const WORDS: [&str; 4] = ["description", "title", "example", "externalDocs"];
/// A number that may rise or go.
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
/// A number that may fall or go.
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
/// Rules that may go and do not come: with another value they ask for something else.
const RULES: [&str; 10] = [
    "pattern",
    "format",
    "multipleOf",
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];
/// Allowances, which may be added and stay.
const ALLOWANCES: [&str; 3] = [
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
];

/// Adds what the schema at that path has lost. Properties that are new are no loss, unless they
/// have to be given.
pub(super) fn lose(path: &str, before: &Value, now: &Value, lost: &mut Vec<String>) {
    let (Value::Object(before), Value::Object(now)) = (before, now) else {
        if before != now {
            lost.push(format!("{path} was {before} and is {now}"));
        }
        return;
    };
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    for key in keys {
        let (had, has) = (before.get(key), now.get(key));
        let why = match key.as_str() {
            words if WORDS.contains(&words) => None,
            "properties" => {
                properties(path, had, has, lost);
                None
            }
            "items" | "additionalProperties" => {
                inner(&format!("{path}.{key}"), had, has, lost);
                None
            }
            "required" => required(before, now),
            "enum" => values(had, has),
            "x-kubernetes-validations" => validations(had, has),
            upper if UPPER.contains(&upper) => bound(had, has, |had, has| has >= had),
            lower if LOWER.contains(&lower) => bound(had, has, |had, has| has <= had),
            rule if RULES.contains(&rule) => (has.is_some() && had != has).then(changed(had, has)),
            one if ALLOWANCES.contains(&one) => {
                (had.is_some() && had != has).then(changed(had, has))
            }
            "default" if had.is_none() => None,
            _ => (had != has).then(changed(had, has)),
        };
        lost.extend(why.map(|why| format!("{path}: {key} {why}")));
    }
}

fn changed(had: Option<&Value>, has: Option<&Value>) -> impl FnOnce() -> String {
    let said = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    let (had, has) = (said(had), said(has));
    move || format!("was {had} and is {has}")
}

fn properties(path: &str, had: Option<&Value>, has: Option<&Value>, lost: &mut Vec<String>) {
    let had = had.and_then(Value::as_object).into_iter().flatten();
    for (name, before) in had {
        let path = format!("{path}.{name}");
        match has.and_then(|has| has.get(name)) {
            Some(now) => lose(&path, before, now, lost),
            None => lost.push(format!("{path} is gone")),
        }
    }
}

/// The schema of entries.
fn inner(path: &str, had: Option<&Value>, has: Option<&Value>, lost: &mut Vec<String>) {
    match (had, has) {
        // Whatever was there is pruned, or refused.
        (Some(_), None) => lost.push(format!("{path} is gone")),
        (Some(had), Some(has)) => lose(path, had, has, lost),
        (None, _) => {}
    }
}

/// A property that had not to be given, and has no value by default.
fn required(before: &Map<String, Value>, now: &Map<String, Value>) -> Option<String> {
    let [had, has] = [before, now].map(|one| texts(one.get("required")));
    let default = |name: &str| now.get("properties")?.get(name)?.get("default");
    let asked = has.difference(&had).filter(|name| default(name).is_none());
    let asked: Vec<_> = asked.copied().collect();
    (!asked.is_empty()).then(|| format!("asks for {}", asked.join(", ")))
}

fn values(had: Option<&Value>, has: Option<&Value>) -> Option<String> {
    let list = |one: Option<&Value>| one.and_then(Value::as_array).cloned();
    let has = list(has)?;
    let Some(had) = list(had) else {
        return Some(format!("allows only {has:?}"));
    };
    let gone: Vec<String> = had
        .iter()
        .filter(|value| !has.contains(value))
        .map(Value::to_string)
        .collect();
    (!gone.is_empty()).then(|| format!("does not allow {} any more", gone.join(", ")))
}

fn validations(had: Option<&Value>, has: Option<&Value>) -> Option<String> {
    let rules = |one: Option<&Value>| -> BTreeSet<String> {
        let list = one.and_then(Value::as_array).into_iter().flatten();
        list.map(|one| one["rule"].to_string()).collect()
    };
    let (had, has) = (rules(had), rules(has));
    let new: Vec<_> = has.difference(&had).map(String::as_str).collect();
    (!new.is_empty()).then(|| format!("has a new rule: {}", new.join(", ")))
}

fn bound(
    had: Option<&Value>,
    has: Option<&Value>,
    is_wider: impl Fn(f64, f64) -> bool,
) -> Option<String> {
    let number = |one: Option<&Value>| one.and_then(Value::as_f64);
    let is_fine = match (number(had), number(has)) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(had), Some(has)) => is_wider(had, has),
    };
    (!is_fine).then(changed(had, has))
}
