//! Differences between two reports and their rendering. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::observe::misplaced::Misplaced;
use crate::term::output::Format;
use crate::term::output::OutputError;
use crate::term::screen::Screen;
use crate::term::table::{Row, Table};
use crate::views::status::clusterset::ExportedReport;
use crate::views::status::report::{MemberReport, Report, ServiceReport, UnreadReport};
use crate::views::status::text;

const DELETED: &str = "Deleted";

/// Item of a status. Programs parse the serialized form: names are stable.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "object")]
enum Item {
    Member(MemberReport),
    Service(ServiceReport),
    Export(ExportedReport),
    Unread(UnreadReport),
    /// Failed read other than that of a member.
    Unknown {
        message: String,
    },
    Misplaced(Misplaced),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Member,
    Service,
    Export,
    Unread,
    Unknown,
    Misplaced,
}

/// Kind, namespace and name.
type Key = (Kind, String, String);

/// Type of a change, in the words of Kubernetes' watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Happened {
    Added,
    Modified,
    Deleted,
}

/// Changed item. A deleted item has its last state.
#[derive(Debug, PartialEq, Serialize)]
struct Change<'a> {
    #[serde(rename = "type")]
    happened: Happened,
    #[serde(flatten)]
    item: &'a Item,
}

/// Prints consecutive reports: the first in full, of each later one the changes.
pub(crate) struct Printer {
    format: Option<Format>,
    screen: Screen,
    shown: BTreeMap<Key, Item>,
    /// Members of each exported service: its exporters and importers, and the former ones that are
    /// not read any more.
    seen: BTreeMap<Key, BTreeSet<String>>,
    /// Kind of the last printed row.
    last: Option<Kind>,
}

impl Printer {
    pub(crate) fn new(format: Option<Format>, screen: Screen) -> Self {
        Self {
            format,
            screen,
            shown: BTreeMap::new(),
            seen: BTreeMap::new(),
            last: None,
        }
    }

    /// Returns the visible changes of the next report as whole lines. Empty without visible
    /// changes.
    pub(crate) fn next(&mut self, report: &Report, now: Timestamp) -> Result<String, OutputError> {
        let mut items = items(report);
        self.retain_unread(&mut items, report);
        let before = std::mem::replace(&mut self.shown, items);
        match self.format {
            Some(format) => self.documents(format, &before),
            None => Ok(self.text(&before, now)),
        }
    }

    /// Retains the items of exported services that the report lacks while a member is unread that
    /// exported or imported them when it was read.
    fn retain_unread(&mut self, items: &mut BTreeMap<Key, Item>, report: &Report) {
        let unread: BTreeSet<_> = report.unread.iter().map(|one| one.name.as_str()).collect();
        let seen = &mut self.seen;
        for members in seen.values_mut() {
            members.retain(|name| unread.contains(name.as_str()));
        }
        seen.retain(|_, members| !members.is_empty());
        for key in seen.keys() {
            if let Some(item) = self.shown.get(key) {
                items.entry(key.clone()).or_insert_with(|| item.clone());
            }
        }
        for export in &report.exports {
            let members = export.exporters.iter().chain(&export.importers);
            let key = key(Kind::Export, &export.namespace, &export.name);
            seen.entry(key).or_default().extend(members.cloned());
        }
    }

    fn documents(
        &self,
        format: Format,
        before: &BTreeMap<Key, Item>,
    ) -> Result<String, OutputError> {
        let changes = changes(before, &self.shown);
        let documents = changes.into_iter().map(|(_, change)| match format {
            Format::Json => Ok(format!("{}\n", serde_json::to_string(&change)?)),
            Format::Yaml => Ok(format!(
                "---\n{}\n",
                serde_saphyr::to_string(&change)?.trim_end()
            )),
        });
        documents.collect()
    }

    fn text(&mut self, before: &BTreeMap<Key, Item>, now: Timestamp) -> String {
        let changes = changes(before, &self.shown);
        let visible = |key: &Key| {
            let row = |all: &BTreeMap<Key, Item>| {
                all.get(key).map(|item| item.row(Timestamp::UNIX_EPOCH))
            };
            row(before) != row(&self.shown)
        };
        let changes: Vec<_> = changes
            .into_iter()
            .filter(|(key, _)| visible(key))
            .collect();
        let mut text = String::new();
        let mut last = self.last;
        for kind in [Kind::Member, Kind::Service, Kind::Export] {
            let of_kind: Vec<_> = changes.iter().filter(|(key, _)| key.0 == kind).collect();
            if of_kind.is_empty() {
                continue;
            }
            let heading = last != Some(kind);
            if heading && last.is_some() {
                text.push('\n');
            }
            let (table, rows) = table(kind, &self.shown, &of_kind, now);
            text.push_str(&table.render_rows(self.screen, &rows, heading));
            last = Some(kind);
        }
        let lines = lines(&changes, self.screen);
        if !lines.is_empty() {
            let gap = if last.is_some() { "\n" } else { "" };
            text.push_str(&format!("{gap}{lines}"));
            // The next table prints its heading again.
            last = Some(Kind::Unread);
        }
        self.last = last;
        text
    }
}

/// Returns all rows of a kind with the deleted ones, and the indices of the changed rows.
fn table(
    kind: Kind,
    shown: &BTreeMap<Key, Item>,
    changes: &[&(&Key, Change<'_>)],
    now: Timestamp,
) -> (Table, Vec<usize>) {
    let mut table = match kind {
        Kind::Service => text::service_table(std::iter::empty(), now),
        Kind::Export => text::clusterset::table(std::iter::empty()),
        _ => text::member_table(std::iter::empty(), now),
    };
    let mut rows = Vec::new();
    let of_kind = shown.iter().filter(|(key, _)| key.0 == kind);
    let mut next = 0;
    for (key, item) in of_kind {
        table.push(item.row(now));
        if changes.iter().any(|(changed, _)| *changed == key) {
            rows.push(next);
        }
        next += 1;
    }
    for (_, change) in changes {
        if change.happened == Happened::Deleted {
            table.push(change.item.clone().deleted().row(now));
            rows.push(next);
            next += 1;
        }
    }
    (table, rows)
}

/// Renders changes that have no table: unread members, members read again, other failed reads,
/// misplaced objects.
fn lines(changes: &[(&Key, Change<'_>)], screen: Screen) -> String {
    let mut unread = Vec::new();
    let mut unknown = Vec::new();
    let mut misplaced = Vec::new();
    let mut text = String::new();
    for (_, change) in changes {
        match (change.item, change.happened) {
            (Item::Unread(member), Happened::Deleted) => {
                let name = &member.name;
                text.push_str(&format!("Exports and imports of {name} are read again.\n"));
            }
            (Item::Unread(member), _) => unread.push(member),
            (Item::Unknown { message }, Happened::Deleted) => {
                let line = format!("No longer unknown: {message}");
                text.push_str(&text::unknown(&[line], screen));
            }
            (Item::Unknown { message }, _) => unknown.push(message.clone()),
            (Item::Misplaced(one), Happened::Added | Happened::Modified) => misplaced.push(one),
            _ => {}
        }
    }
    text.push_str(&text::unread(unread, screen));
    text.push_str(&text::unknown(&unknown, screen));
    text.push_str(&text::misplaced(misplaced, screen));
    text
}

fn changes<'a>(
    before: &'a BTreeMap<Key, Item>,
    after: &'a BTreeMap<Key, Item>,
) -> Vec<(&'a Key, Change<'a>)> {
    let came = after.iter().filter_map(|(key, item)| {
        let happened = match before.get(key) {
            None => Happened::Added,
            Some(former) if former != item => Happened::Modified,
            Some(_) => return None,
        };
        Some((key, Change { happened, item }))
    });
    let went = before.iter().filter(|(key, _)| !after.contains_key(key));
    let went = went.map(|(key, item)| {
        let happened = Happened::Deleted;
        (key, Change { happened, item })
    });
    let mut changes: Vec<_> = came.chain(went).collect();
    changes.sort_by_key(|(key, _)| *key);
    changes
}

fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    (kind, namespace.to_owned(), name.to_owned())
}

fn items(report: &Report) -> BTreeMap<Key, Item> {
    let members = report.members.iter().flatten();
    let members = members.map(|one| (key(Kind::Member, "", &one.name), Item::Member(one.clone())));
    let services = report.services.iter().map(|one| {
        let item = Item::Service(one.clone());
        (key(Kind::Service, &one.namespace, &one.name), item)
    });
    let exports = report.exports.iter().map(|one| {
        let item = Item::Export(one.clone());
        (key(Kind::Export, &one.namespace, &one.name), item)
    });
    let unread = report.unread.iter();
    let unread = unread.map(|one| (key(Kind::Unread, "", &one.name), Item::Unread(one.clone())));
    let unknown = report.unknown.iter().map(|message| {
        let item = Item::Unknown {
            message: message.clone(),
        };
        (key(Kind::Unknown, "", message), item)
    });
    let misplaced = report.misplaced.iter().map(|one| {
        let name = format!("{}/{}", one.kind, one.name);
        let item = Item::Misplaced(one.clone());
        (key(Kind::Misplaced, &one.namespace, &name), item)
    });
    let items = members.chain(services).chain(exports);
    items
        .chain(unread)
        .chain(unknown)
        .chain(misplaced)
        .collect()
}

impl Item {
    /// Returns the visible row. Items that look alike at the same `now` have equal rows.
    fn row(&self, now: Timestamp) -> Row {
        match self {
            Self::Member(member) => text::member_row(member, now),
            Self::Service(service) => text::service_row(service, now),
            Self::Export(export) => text::clusterset::row(export),
            Self::Unread(member) => Row::new([member.name.clone(), member.message.clone()], None),
            Self::Unknown { message } => Row::new([message.clone()], None),
            Self::Misplaced(one) => Row::new([one.message.clone()], None),
        }
    }

    /// Returns the item as it is shown after its deletion.
    fn deleted(mut self) -> Self {
        let gone = |ready: &mut bool, reason: &mut String, message: &mut String| {
            *ready = false;
            DELETED.clone_into(reason);
            message.clear();
        };
        match &mut self {
            Self::Member(one) => {
                gone(&mut one.ready, &mut one.state, &mut one.message);
                one.clusterset = None;
            }
            Self::Service(one) => gone(&mut one.ready, &mut one.reason, &mut one.message),
            Self::Export(one) => {
                gone(&mut one.ready, &mut one.reason, &mut one.message);
                one.conflict = None;
            }
            Self::Unread(_) | Self::Unknown { .. } | Self::Misplaced(_) => {}
        }
        self
    }
}

#[cfg(test)]
mod tests;
