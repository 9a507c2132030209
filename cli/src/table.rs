//! Aligned columns.

const GAP: usize = 3;

/// Rows of cells under a heading; a row may be followed by lines of text.
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<(Vec<String>, Vec<String>)>,
}

impl Table {
    /// An empty one with these columns.
    pub(crate) fn new<const N: usize>(heading: [&'static str; N]) -> Self {
        Self {
            heading: heading.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, and the lines to show below it.
    pub(crate) fn row<const N: usize>(
        &mut self,
        cells: [String; N],
        notes: impl IntoIterator<Item = String>,
    ) {
        self.rows
            .push((cells.to_vec(), notes.into_iter().collect()));
    }

    /// The text, each line ended; the last column is not padded.
    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        line(&mut text, &widths, self.heading.iter().copied());
        for (cells, notes) in &self.rows {
            line(&mut text, &widths, cells.iter().map(|cell| shown(cell)));
            for note in notes {
                text.push_str("  ");
                text.push_str(note);
                text.push('\n');
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .heading
            .iter()
            .map(|title| title.chars().count())
            .collect();
        for (cells, _) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(shown(cell).chars().count());
            }
        }
        widths
    }
}

fn shown(cell: &str) -> &str {
    if cell.is_empty() { "-" } else { cell }
}

fn line<'a>(text: &mut String, widths: &[usize], cells: impl Iterator<Item = &'a str>) {
    let mut line = String::new();
    for (cell, width) in cells.zip(widths) {
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', width + GAP - cell.chars().count()));
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// `label: value` lines, the values in one column.
pub(crate) fn fields<const N: usize>(fields: [(&str, String); N]) -> String {
    let width = fields
        .iter()
        .map(|(label, _)| label.len())
        .max()
        .unwrap_or_default()
        + 1;
    fields
        .iter()
        .fold(String::new(), |mut text, (label, value)| {
            let padded = format!("{label}:");
            text.push_str(&format!("{padded:width$}   {}\n", shown(value)));
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_nothing_is_left_empty() {
        let mut table = Table::new(["NAME", "A", "LAST"]);
        table.row(["long-name", "", "x"].map(str::to_owned), []);
        table.row(["ö", "abc", ""].map(str::to_owned), ["below".to_owned()]);
        assert_eq!(
            table.render(),
            "NAME        A     LAST\n\
             long-name   -     x\n\
             ö           abc   -\n  below\n"
        );
    }

    #[test]
    fn values_stand_in_one_column() {
        assert_eq!(
            fields([("A", "1".to_owned()), ("Long", String::new())]),
            "A:      1\nLong:   -\n"
        );
    }
}
