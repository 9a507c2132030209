//! Changes in each cluster if a MultiClusterService were applied.

mod report;
mod text;

use causeway::api::MultiClusterService;

pub(crate) use self::report::Report;
pub(crate) use self::text::render;

/// Result of admission.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    /// Stored object, if it exists.
    pub stored: Option<MultiClusterService>,
    /// Object that the hub would store.
    pub object: MultiClusterService,
    /// Warnings that the user would receive.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use causeway::api::{MultiClusterService, labels};
    use causeway_engine::lists::NameLists;
    use causeway_engine::model::{Failure, FailureKind};
    use causeway_engine::plan::Settings;
    use causeway_engine::preview::preview;
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cross, export, exported, service};
    use crate::golden;
    use crate::observe::fixtures::{core_service, healthy};
    use crate::observe::service::{self as observed, Snapshot};

    /// Compares the current state with the state after this object is applied.
    fn applied(snapshot: &Snapshot, object: MultiClusterService) -> (String, Report) {
        let stored = snapshot.mcs.clone();
        let snapshot = Snapshot {
            mcs: Some(object.clone()),
            ..snapshot.clone()
        };
        let (lists, members) = snapshot.lists();
        let settings = Settings::reported(&lists, &members, &snapshot.key);
        let now = observed::now();
        let after = preview(
            lists.clone(),
            members.clone(),
            &settings,
            &snapshot.key,
            now,
        );
        let warnings = vec!["it is deprecated".to_owned()];
        let admitted = Admitted {
            stored,
            object,
            warnings,
        };
        let report =
            Report::new(&snapshot.key, admitted, (&lists, &members), &after).expect("a report");
        let unread = report.is_incomplete();
        (render(&report) + &format!("incomplete: {unread}"), report)
    }

    #[test]
    fn unread_inputs_are_unknown_in_one_field() {
        let failure = |text: &str| Failure::new(FailureKind::Forbidden, text);
        for (namespaces, names, hostname, unknown) in [
            (None, None, true, None),
            (
                Some("no Namespace"),
                None,
                true,
                Some("NamespaceNotRead: no Namespace"),
            ),
            (None, Some("no name"), true, Some("NameNotRead: no name")),
            (None, Some("no name"), false, None),
            (
                Some("no Namespace"),
                Some("no name"),
                true,
                Some("NamespaceNotRead: no Namespace; NameNotRead: no name"),
            ),
        ] {
            let mut snapshot = healthy();
            if let Some(why) = namespaces {
                snapshot.namespaces = Err(why.to_owned());
            }
            if let Some(why) = names {
                snapshot.names = NameLists::Unreadable(failure(why));
            }
            let mut object = snapshot.mcs.clone().expect("it");
            if hostname {
                let annotations = object.metadata.annotations.get_or_insert_default();
                annotations.insert(labels::HOSTNAME.to_owned(), "foo.example.com".to_owned());
            }
            let (text, report) = applied(&snapshot, object);
            assert_eq!(report.unknown.as_deref(), unknown);
            assert_eq!(report.is_incomplete(), unknown.is_some());
            let line = unknown.map(|why| format!("# not known in full: {why}\n"));
            assert!(line.is_none_or(|line| text.contains(&line)), "{text}");
        }
    }

    #[test]
    fn unread_imports_are_unknown_beside_karmadas_service() {
        let mut snapshot = healthy();
        snapshot.imports = Err("no imports".to_owned());
        let mut derived = core_service(false, &[("http", 80)]);
        derived.metadata.name = Some(snapshot.key.derived().name.to_string());
        snapshot.derived = Some(derived);
        let object = snapshot.mcs.clone().expect("it");
        let (_, report) = applied(&snapshot, object.clone());
        assert_eq!(report.unknown, None, "no member exports it");
        snapshot.member("a").exports = vec![export("foo", exported())];
        let (_, report) = applied(&snapshot, object);
        assert_eq!(report.unknown.as_deref(), Some("ImportNotRead: no imports"));
        assert!(report.is_incomplete());
    }

    #[test]
    fn golden_outputs_of_diff_are_kept() {
        golden::check_states("diff", |snapshot| {
            // Compares the text output for a stored object. Compares the JSON output for the
            // opposite direction and for objects that are not stored.
            let stored = snapshot.mcs.clone();
            let stored = stored.map(|stored| applied(snapshot, stored).0);
            let turned = service("foo", cross(&["b"], &["a"]), json!([]));
            golden::both(&stored.unwrap_or_default(), &applied(snapshot, turned).1)
        });
    }
}
