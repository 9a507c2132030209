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
    use causeway::api::MultiClusterService;
    use serde_json::json;

    use causeway_engine::plan::Settings;
    use causeway_engine::preview::preview;

    use super::*;
    use crate::fixtures::{cross, service};
    use crate::golden;
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
