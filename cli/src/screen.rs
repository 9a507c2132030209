//! What a result is shown on: how wide it is, and whether it shows colours.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::args::Color;

/// What a terminal is taken for that does not say how wide it is.
const USUAL_WIDTH: usize = 100;
/// Narrower ones get longer lines, which they break.
const NARROWEST: usize = 60;
/// How much of a line is left to words, however far it is indented.
const ROOM_FOR_WORDS: usize = 20;

/// What a result is shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Its columns; `None` where lines may be as long as they are: in a file or a pipe.
    pub width: Option<usize>,
    /// Whether it shows colours.
    pub color: bool,
}

impl Screen {
    /// A file or a pipe.
    pub(crate) const PLAIN: Self = Self {
        width: None,
        color: false,
    };

    /// What stdout is. Whoever sets NO_COLOR gets no colours unless they ask for them (<https://no-color.org>).
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

/// How something is, as a colour shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    /// Not good yet, or not known.
    Unsure,
    Bad,
}

impl Tone {
    /// The text in this colour, on a screen that shows colours.
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

/// The text with what would command a terminal written out: a member chooses the texts of its conditions, and its version. A line break is a
/// blank.
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

/// Whether a terminal takes the character as a command, or as a change of direction.
fn commands(c: char) -> bool {
    let is_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || is_direction
}

/// Sequences that [`Tone::paint`] writes.
const PAINT: [&str; 4] = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[0m"];

/// Escapes what commands a terminal in a text of several lines. Line breaks and tabs stay, and on a
/// screen with colours the sequences of [`Tone::paint`].
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

/// Escapes what commands a terminal in a JSON document, as JSON does: its value stays the same.
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

/// The text, or as much of its beginning as that many columns hold.
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

/// The text in lines of whole words that fit the width, each indented and ended. A word that is longer stays whole: it may be a URL.
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
        let coloured = Screen {
            width: None,
            color: true,
        };
        let red = Tone::Bad.paint("no", coloured);
        for (text, plain, shown) in [
            ("a\n\tb", "a\n\tb", "a\n\tb"),
            (&*red, r"\u{1b}[31mno\u{1b}[0m", &*red),
            ("\u{1b}[2J", r"\u{1b}[2J", r"\u{1b}[2J"),
            ("\u{1b}]0;t\u{7}", r"\u{1b}]0;t\u{7}", r"\u{1b}]0;t\u{7}"),
            ("a\rb", r"a\u{d}b", r"a\u{d}b"),
            ("\u{9b}8m\u{202e}", r"\u{9b}8m\u{202e}", r"\u{9b}8m\u{202e}"),
        ] {
            assert_eq!(escaped(text, Screen::PLAIN), plain, "{text:?}");
            assert_eq!(escaped(text, coloured), shown, "{text:?}");
        }
        for tone in [Tone::Good, Tone::Unsure, Tone::Bad] {
            let painted = tone.paint("x", coloured);
            assert_eq!(escaped(&painted, coloured), painted);
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
        let screen = Screen {
            width: None,
            color: true,
        };
        assert_eq!(Tone::Bad.paint("x", screen), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Tone::Plain.paint("x", screen), "x");
        assert_eq!(Tone::Good.paint("x", Screen::PLAIN), "x");
    }
}
