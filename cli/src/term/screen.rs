//! Properties of the output device: width and colours.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns of a terminal that does not report its width.
const USUAL_WIDTH: usize = 100;
/// Minimum number of columns. A narrower terminal wraps the lines itself.
const NARROWEST: usize = 60;
/// Minimum number of columns for words in an indented line.
const ROOM_FOR_WORDS: usize = 20;

/// Condition on which a result has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Output device of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Number of columns. `None` for a file or a pipe, which has no limit.
    pub width: Option<usize>,
    /// Whether the device shows colours.
    pub color: bool,
}

impl Screen {
    /// A file or a pipe.
    pub(crate) const PLAIN: Self = Self {
        width: None,
        color: false,
    };

    /// Returns the properties of stdout. NO_COLOR disables colours unless the user requests them
    /// (<https://no-color.org>).
    pub(crate) fn stdout(color: Color) -> Self {
        let stdout = io::stdout();
        let width = stdout.is_terminal().then(|| {
            let size = terminal_size::terminal_size_of(&stdout);
            let width = size.map(|(width, _)| usize::from(width.0));
            width.unwrap_or(USUAL_WIDTH).max(NARROWEST)
        });
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => AutoStream::choice(&stdout) != ColorChoice::Never,
        };
        Self { width, color }
    }
}

/// State that a colour expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    /// Not good yet, or unknown.
    Unsure,
    Bad,
}

impl Tone {
    /// Returns the text in the colour of this tone if the screen shows colours.
    pub(crate) fn paint(self, text: &str, screen: Screen) -> String {
        let color = match self {
            Self::Good => AnsiColor::Green,
            Self::Unsure => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
            Self::Plain => return text.to_owned(),
        };
        if !screen.color {
            return text.to_owned();
        }
        let style = Style::new().fg_color(Some(color.into()));
        format!("{style}{text}{style:#}")
    }
}

/// Escapes terminal control characters in a text of one line, because a member controls the texts
/// of its conditions and its version. Line breaks and tabs become spaces.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(' '),
            '\r' => {}
            letter if commands(letter) => shown.extend(letter.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal interprets the character as control character or as change of text direction.
fn commands(c: char) -> bool {
    let is_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || is_direction
}

/// Escape sequences that [`Tone::paint`] writes.
const PAINT: [&str; 4] = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[0m"];

/// Escapes terminal control characters in a text of multiple lines. Retains line breaks and tabs,
/// and the sequences of [`Tone::paint`] on a screen with colours.
pub(crate) fn escaped(text: &str, screen: Screen) -> Cow<'_, str> {
    let is_plain = |c: char| !commands(c) || c == '\n' || c == '\t';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let paint = PAINT
            .into_iter()
            .find(|paint| screen.color && rest.starts_with(paint));
        let length = paint.map_or(letter.len_utf8(), str::len);
        match paint {
            Some(paint) => shown.push_str(paint),
            None if is_plain(letter) => shown.push(letter),
            None => shown.extend(letter.escape_unicode()),
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(shown)
}

/// Escapes terminal control characters in a JSON document with JSON escapes, which retain its
/// value.
pub(crate) fn escaped_json(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !commands(c) || c == '\n';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_plain(letter) {
            true => shown.push(letter),
            false => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
        }
    }
    Cow::Owned(shown)
}

/// Truncates a text to the given number of columns.
pub(crate) fn cut(text: &str, width: Option<usize>) -> Cow<'_, str> {
    match width {
        Some(width) if text.width() > width => {
            let mut used = 0;
            let letters = text.chars().take_while(|letter| {
                used += letter.width().unwrap_or_default();
                used < width
            });
            let mut short: String = letters.collect();
            short.push('…');
            Cow::Owned(short)
        }
        _ => Cow::Borrowed(text),
    }
}

/// Wraps a text at spaces to the given width. Indents and terminates each line. Never breaks a
/// word, which may be a URL.
pub(crate) fn wrapped(text: &str, indent: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return format!("{indent}{text}\n");
    };
    let room = width
        .saturating_sub(indent.len())
        .max(ROOM_FOR_WORDS.min(width));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        if let Some(line) = lines.last_mut() {
            let length = line.width();
            if length > 0 && length + 1 + word.width() > room {
                lines.push(word.to_owned());
            } else {
                if length > 0 {
                    line.push(' ');
                }
                line.push_str(word);
            }
        }
    }
    lines
        .iter()
        .map(|line| format!("{indent}{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOURED: Screen = Screen {
        width: None,
        color: true,
    };

    #[test]
    fn words_are_kept_whole_and_lines_fit() {
        for (width, expected) in [
            (None, "  one two three-and-more\n"),
            (Some(24), "  one two three-and-more\n"),
            (Some(23), "  one two\n  three-and-more\n"),
            (Some(12), "  one two\n  three-and-more\n"),
        ] {
            let text = wrapped("one two three-and-more", "  ", width);
            assert_eq!(text, expected, "{width:?}");
        }
        assert_eq!(wrapped("", "  ", Some(10)), "  \n");
    }

    #[test]
    fn text_without_room_is_cut_by_columns() {
        assert_eq!(cut("日本語", Some(6)), "日本語");
        assert_eq!(cut("日本語", Some(5)), "日本…");
        assert_eq!(cut("日本語", Some(4)), "日…");
        assert_eq!(cut("äöü", Some(3)), "äöü");
        assert_eq!(cut("äöüß", Some(3)), "äö…");
        assert_eq!(cut("äöüß", None), "äöüß");
    }

    #[test]
    fn what_would_command_a_terminal_is_written_out() {
        for (text, expected) in [
            ("plain ö", "plain ö"),
            ("a\nb\tc\r", "a b c"),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("abc\u{202e}", r"abc\u{202e}"),
        ] {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn only_own_colours_pass_to_a_screen_with_colours() {
        let red = Tone::Bad.paint("no", COLOURED);
        for (text, plain, shown) in [
            ("a\n\tb", "a\n\tb", "a\n\tb"),
            (&*red, r"\u{1b}[31mno\u{1b}[0m", &*red),
            ("\u{1b}[2J", r"\u{1b}[2J", r"\u{1b}[2J"),
            ("\u{1b}]0;t\u{7}", r"\u{1b}]0;t\u{7}", r"\u{1b}]0;t\u{7}"),
            ("a\rb", r"a\u{d}b", r"a\u{d}b"),
            ("\u{9b}8m\u{202e}", r"\u{9b}8m\u{202e}", r"\u{9b}8m\u{202e}"),
        ] {
            assert_eq!(escaped(text, Screen::PLAIN), plain, "{text:?}");
            assert_eq!(escaped(text, COLOURED), shown, "{text:?}");
        }
        for tone in [Tone::Good, Tone::Unsure, Tone::Bad] {
            let painted = tone.paint("x", COLOURED);
            assert_eq!(escaped(&painted, COLOURED), painted);
        }
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({ "a": "\u{1b}[2J\u{9b}1m\u{202e}\u{7f}ö\n" });
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = escaped_json(&text);
        assert!(!shown.chars().any(|c| commands(c) && c != '\n'), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(read, value);
    }

    #[test]
    fn a_tone_is_a_colour_where_there_are_colours() {
        assert_eq!(Tone::Bad.paint("x", COLOURED), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Tone::Plain.paint("x", COLOURED), "x");
        assert_eq!(Tone::Good.paint("x", Screen::PLAIN), "x");
    }
}
