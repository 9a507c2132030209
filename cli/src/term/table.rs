//! Tables with aligned columns.

use std::ops::Range;

use unicode_width::UnicodeWidthStr as _;

use crate::term::screen::{Screen, Tone, cut, printable, wrapped};

const GAP: usize = 3;
/// Minimum width to which a column shrinks to fit the screen.
const NARROWEST: usize = 8;
/// Indentation of the lines below a row.
const INDENT: &str = "  ";

/// Cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Creates a cell with a colour.
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self {
            text: printable(&text).into_owned(),
            tone,
        }
    }

    fn shown(&self) -> &str {
        if self.text.is_empty() {
            "-"
        } else {
            &self.text
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Cells of a row, and the lines below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    cells: Vec<Cell>,
    notes: Vec<String>,
}

impl Row {
    /// Creates a row.
    pub(crate) fn new<C: Into<Cell>>(
        cells: impl IntoIterator<Item = C>,
        notes: impl IntoIterator<Item = String>,
    ) -> Self {
        let notes = notes.into_iter();
        Self {
            cells: cells.into_iter().map(Into::into).collect(),
            notes: notes.map(|note| printable(&note).into_owned()).collect(),
        }
    }
}

/// Rows of cells under a heading. Lines of text may follow a row.
#[derive(Clone)]
pub(crate) struct Table {
    heading: Vec<Cell>,
    rows: Vec<Row>,
    /// Number of leading columns with names that users type. They shrink last.
    names: usize,
    /// Whether the last column moves below the row if the table is too wide.
    drops_last: bool,
    /// Columns that are shown only if the rows differ in the first of them.
    differing: Range<usize>,
}

impl Table {
    /// Creates an empty table.
    pub(crate) fn new<T: Into<String>>(heading: impl IntoIterator<Item = T>) -> Self {
        let heading = heading.into_iter();
        Self {
            heading: heading.map(|title| Cell::new(title, Tone::Plain)).collect(),
            rows: Vec::new(),
            names: 1,
            drops_last: false,
            differing: 0..0,
        }
    }

    /// Sets the columns that are shown only if the rows differ in the first of them.
    pub(crate) fn differing(mut self, columns: Range<usize>) -> Self {
        self.differing = columns;
        self
    }

    /// Sets the number of leading columns with names that users type.
    pub(crate) fn names(mut self, names: usize) -> Self {
        self.names = names;
        self
    }

    /// Declares the last column as text, which moves below the row if the table is too wide.
    pub(crate) fn text_last(mut self) -> Self {
        self.drops_last = true;
        self
    }

    /// Adds a row with lines below it.
    pub(crate) fn row<C: Into<Cell>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
        notes: impl IntoIterator<Item = String>,
    ) {
        self.push(Row::new(cells, notes));
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Renders the table without width limit and colours. The last column is not padded.
    pub(crate) fn render(&self) -> String {
        self.render_on(Screen::PLAIN)
    }

    /// Renders the table for a screen.
    pub(crate) fn render_on(&self, screen: Screen) -> String {
        let all: Vec<_> = (0..self.rows.len()).collect();
        self.render_rows(screen, &all, true)
    }

    /// Renders the rows with the given indices, aligned as in the whole table, with or without
    /// heading.
    pub(crate) fn render_rows(&self, screen: Screen, rows: &[usize], heading: bool) -> String {
        if !self.differing.is_empty() && !self.differs() {
            return self.without_differing().render_rows(screen, rows, heading);
        }
        let mut widths = self.widths();
        let is_too_wide = |widths: &[usize]| screen.width.is_some_and(|room| total(widths) > room);
        let drops_last = self.drops_last && is_too_wide(&widths);
        if drops_last {
            widths.pop();
        }
        if let Some(room) = screen.width {
            narrow(&mut widths, self.names, room);
        }
        let mut text = String::new();
        if heading {
            line(&mut text, &widths, &self.heading, screen);
        }
        for row in rows.iter().filter_map(|index| self.rows.get(*index)) {
            line(&mut text, &widths, &row.cells, screen);
            let dropped = row.cells.last().filter(|_| drops_last);
            let dropped = dropped.filter(|cell| !cell.text.is_empty());
            let notes = dropped.map(|cell| &cell.text).into_iter();
            for note in notes.chain(&row.notes) {
                text.push_str(&wrapped(note, INDENT, screen.width));
            }
        }
        text
    }

    /// Whether the rows differ in the first column of `differing`.
    fn differs(&self) -> bool {
        let cells = |row: &Row| row.cells.get(self.differing.start).cloned();
        let first = self.rows.first().and_then(cells);
        self.rows.iter().any(|row| cells(row) != first)
    }

    fn without_differing(&self) -> Self {
        let mut table = self.clone();
        let hidden = std::mem::take(&mut table.differing);
        let rows = table.rows.iter_mut().map(|row| &mut row.cells);
        for cells in rows.chain([&mut table.heading]) {
            let mut columns = 0..cells.len();
            cells.retain(|_| {
                columns
                    .next()
                    .is_some_and(|column| !hidden.contains(&column))
            });
        }
        table
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.heading.len()];
        let rows = self.rows.iter().map(|row| &row.cells);
        for cells in std::iter::once(&self.heading).chain(rows) {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.shown().width());
            }
        }
        widths
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Shrinks the widest columns until the table fits, names last. Columns never shrink below
/// [`NARROWEST`], and the table may remain wider than the screen.
fn narrow(widths: &mut [usize], names: usize, room: usize) {
    let names = names.min(widths.len());
    for columns in [names..widths.len(), 0..names] {
        while total(widths) > room {
            let columns = widths.get_mut(columns.clone()).into_iter().flatten();
            match columns.max() {
                Some(widest) if *widest > NARROWEST => *widest -= 1,
                _ => break,
            }
        }
    }
}

fn line(text: &mut String, widths: &[usize], cells: &[Cell], screen: Screen) {
    let last = widths.len().saturating_sub(1);
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let shown = cut(cell.shown(), screen.width.map(|_| *width));
        text.push_str(&cell.tone.paint(&shown, screen));
        if column < last {
            let padding = (width + GAP).saturating_sub(shown.width());
            text.extend(std::iter::repeat_n(' ', padding));
        }
    }
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

/// Renders `label: value` lines with aligned values, wrapped to the screen.
pub(crate) fn fields<const N: usize>(fields: [(&str, Cell); N], screen: Screen) -> String {
    let labels = fields.iter().map(|(label, _)| label.len());
    let width = labels.max().unwrap_or_default() + 1;
    let indent = " ".repeat(width + GAP);
    let mut text = String::new();
    for (label, cell) in &fields {
        let value = wrapped(cell.shown(), &indent, screen.width);
        let value = value.trim_start_matches(' ').trim_end_matches('\n');
        let padded = format!("{label}:");
        let value = cell.tone.paint(value, screen);
        text.push_str(&format!("{padded:width$}   {value}\n"));
    }
    text
}

/// Maximum number of names that a sentence lists.
const LISTED: usize = 10;

/// Lists names in a sentence. Beyond [`LISTED`] names, the sentence contains the number of the
/// others.
pub(crate) fn listed<T: ToString>(names: &[T]) -> String {
    let shown = names.iter().take(LISTED).map(ToString::to_string);
    let mut shown: Vec<_> = shown.collect();
    if names.len() > LISTED {
        shown.push(format!("and {} more", names.len() - LISTED));
    }
    if shown.is_empty() {
        return "none".to_owned();
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: usize) -> Screen {
        Screen {
            width: Some(width),
            color: false,
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_nothing_is_left_empty() {
        let mut table = Table::new(["NAME", "A", "LAST"]);
        table.row(["long-name", "", "x"].map(str::to_owned), []);
        table.row(["ö", "abc", ""].map(str::to_owned), ["below".to_owned()]);
        table.row(["日本", "e\u{301}", "y"].map(str::to_owned), []);
        assert_eq!(
            table.render(),
            "NAME        A     LAST\n\
             long-name   -     x\n\
             ö           abc   -\n  below\n\
             日本        e\u{301}     y\n"
        );
    }

    #[test]
    fn columns_are_shown_only_if_rows_differ_in_the_first_of_them() {
        let table = |kinds: [&str; 2]| {
            let mut table = Table::new(["NAME", "KIND", "WAY", "LAST"]).differing(1..3);
            for kind in kinds {
                table.row(["a", kind, "w", "x"].map(str::to_owned), []);
            }
            table.render()
        };
        assert_eq!(table(["k", "k"]), "NAME   LAST\na      x\na      x\n");
        let shown = "NAME   KIND   WAY   LAST\na      k      w     x\na      l      w     x\n";
        assert_eq!(table(["k", "l"]), shown);
    }

    #[test]
    fn on_a_screen_the_widest_columns_are_cut_and_names_last() {
        let mut table = Table::new(["NAME", "CLUSTERS", "REASON"]);
        let cells = ["a-rather-long-name", "member1,member2,member3", "Ready"];
        let note = "member3 does not answer, and has not for five minutes";
        table.row(cells.map(str::to_owned), [note.to_owned()]);
        let on = |width| table.render_on(screen(width));
        assert_eq!(
            on(45),
            "NAME                 CLUSTERS          REASON\n\
             a-rather-long-name   member1,member…   Ready\n  \
             member3 does not answer, and has not for\n  \
             five minutes\n"
        );
        assert_eq!(on(30).lines().nth(1), Some("a-rather-…   member1…   Ready"));
        assert_eq!(on(200), table.render());
    }

    #[test]
    fn a_text_goes_below_its_row_where_it_has_no_room_beside() {
        let mut table = Table::new(["CONDITION", "MESSAGE"]).text_last();
        table.row(
            ["Ready", "everything is as it should be"].map(str::to_owned),
            [],
        );
        table.row(["Applied", ""].map(str::to_owned), []);
        assert_eq!(
            table.render_on(screen(30)),
            "CONDITION\nReady\n  everything is as it should\n  be\nApplied\n"
        );
        assert_eq!(table.render_on(screen(60)), table.render());
    }

    #[test]
    fn colours_take_no_room_and_some_rows_are_aligned_as_all_are() {
        let mut table = Table::new(["NAME", "READY", "AGE"]);
        let row = |name: &str, ready: &str, tone| {
            let plain = |text: &str| Cell::new(text, Tone::Plain);
            Row::new([plain(name), Cell::new(ready, tone), plain("1m")], None)
        };
        table.push(row("a", "True", Tone::Good));
        table.push(row("long-name", "False", Tone::Bad));
        let screen = Screen {
            width: None,
            color: true,
        };
        assert_eq!(
            table.render_rows(screen, &[0], false),
            "a           \u{1b}[32mTrue\u{1b}[0m    1m\n"
        );
        assert_eq!(
            table.render_rows(Screen::PLAIN, &[1], true),
            "NAME        READY   AGE\nlong-name   False   1m\n"
        );
    }

    #[test]
    fn a_cell_cannot_write_to_the_terminal() {
        let mut table = Table::new(["NAME", "MESSAGE"]);
        let cells = ["a\u{1b}[2J", "one\ntwo\u{202e}"].map(str::to_owned);
        table.row(cells, ["\u{7}".to_owned()]);
        let text = table.render();
        assert!(
            text.lines().nth(1) == Some(r"a\u{1b}[2J   one two\u{202e}"),
            "{text}"
        );
        assert!(text.ends_with("\n  \\u{7}\n"), "{text}");
    }

    #[test]
    fn values_stand_in_one_column() {
        let all = |text: &str| {
            [
                ("A", Cell::from("1".to_owned())),
                ("Long", Cell::from(text.to_owned())),
            ]
        };
        assert_eq!(fields(all(""), Screen::PLAIN), "A:      1\nLong:   -\n");
        assert_eq!(
            fields(all("some words more and more words"), screen(30)),
            "A:      1\nLong:   some words more and\n        more words\n"
        );
    }
}
