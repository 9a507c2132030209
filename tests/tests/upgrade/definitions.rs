//! Definitions only gain: API servers read, write and show an object that the previous version
//! stored, and its programs find all their fields after a rollback.

mod damages;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use causeway_tests::release::{NoBase, Released};
use causeway_tests::repository;
use serde_json::Value;

const DEFINITIONS: &str = "manifests/crds";
/// Minimum number of definitions, of the hub and of members.
const LEAST: usize = 4;

#[test]
fn the_definitions_only_ever_gain() {
    let released = Released::newest();
    let files = match released.files(DEFINITIONS) {
        Ok(files) => files,
        Err(missing @ NoBase::NotFetched { .. }) => return eprintln!("skipped: {missing}"),
        Err(missing) => panic!("{missing}"),
    };
    assert!(files.len() >= LEAST, "{files:?}");
    for path in files {
        let before = released.read(&path).expect("a definition");
        let now = std::fs::read_to_string(repository().join(&path));
        let now = now.unwrap_or_else(|e| panic!("{path} is gone: {e}"));
        let lost = losses(&read(&before), &read(&now));
        assert!(
            lost.is_empty(),
            "{path} has lost since {}:\n  {}",
            released.version,
            lost.join("\n  ")
        );
    }
}

fn read(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).expect("a definition in YAML")
}

/// Lists removed parts of a definition, and new requirements.
fn losses(before: &Value, now: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    for path in [
        "/metadata/name",
        "/spec/group",
        "/spec/scope",
        "/spec/names/kind",
        "/spec/names/plural",
        "/spec/names/singular",
        "/spec/names/listKind",
        "/spec/conversion",
        "/spec/preserveUnknownFields",
    ] {
        let (before, now) = (before.pointer(path), now.pointer(path));
        if before != now {
            lost.push(format!("{path} was {before:?} and is {now:?}"));
        }
    }
    for path in ["/spec/names/shortNames", "/spec/names/categories"] {
        let [had, has] = [before, now].map(|one| texts(one.pointer(path)));
        for name in had.difference(&has) {
            lost.push(format!("{path} lacks {name}"));
        }
    }
    let [had, has] = [before, now].map(|one| by_name(&one["spec"]["versions"]));
    for (name, version) in had {
        match has.get(name) {
            Some(now) => lose_version(name, version, now, &mut lost),
            None => lost.push(format!("version {name} is gone")),
        }
    }
    lost
}

fn lose_version(name: &str, before: &Value, now: &Value, lost: &mut Vec<String>) {
    if before["served"] == true && now["served"] != true {
        lost.push(format!("{name} is not served any more"));
    }
    // The version before writes the one that it stored; a hub that stores another has to be asked
    // for all its objects first.
    if before["storage"] != now["storage"] {
        lost.push(format!("{name}: storage is {}", now["storage"]));
    }
    if before["subresources"] != now["subresources"] {
        let (before, now) = (&before["subresources"], &now["subresources"]);
        lost.push(format!("{name}: subresources were {before} and are {now}"));
    }
    let column = "additionalPrinterColumns";
    let [had, has] = [before, now].map(|one| by_name(&one[column]));
    for (column, shown) in had {
        let shows_as_much = |now: &Value| {
            now["type"] == shown["type"]
                && (now["jsonPath"] == shown["jsonPath"]
                    || whole_list(&shown["jsonPath"]).is_some_and(|list| now["jsonPath"] == list))
        };
        if !has.get(column).is_some_and(|now| shows_as_much(now)) {
            lost.push(format!(
                "{name}: column {column} is gone, or shows something else"
            ));
        }
    }
    let selectable = |one: &Value| -> BTreeSet<String> {
        let fields = one["selectableFields"].as_array().into_iter().flatten();
        fields.map(|field| field["jsonPath"].to_string()).collect()
    };
    for field in selectable(before).difference(&selectable(now)) {
        lost.push(format!("{name}: {field} cannot be selected by any more"));
    }
    let schema = "/schema/openAPIV3Schema";
    let [before, now] = [before, now].map(|one| one.pointer(schema).unwrap_or(&Value::Null));
    schema::lose(name, before, now, lost);
}

/// Returns the path of the list of which a column shows a part. API servers print only the first
/// result of a path.
fn whole_list(path: &Value) -> Option<&str> {
    let (list, _) = path.as_str()?.split_once("[*]")?;
    Some(list)
}

/// The texts of a list.
fn texts(list: Option<&Value>) -> BTreeSet<&str> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// The entries of a list by their names.
fn by_name(list: &Value) -> BTreeMap<&str, &Value> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|one| Some((one["name"].as_str()?, one)))
        .collect()
}
