//! Tokens of a Corefile and their positions.

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use super::CorefileError;

/// Word or brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Text without quotes.
    pub text: String,
    /// Line number, from 1.
    pub line: usize,
    /// Whether the token is the first of its line.
    pub begins_line: bool,
    /// Position including quotes, in bytes.
    pub span: Range<usize>,
}

impl Token {
    /// Whether the text equals `word`. CoreDNS treats a quoted brace as a brace.
    pub(super) fn is(&self, word: &str) -> bool {
        self.text == word
    }
}

/// Iterator over the tokens of a text.
pub(super) struct Tokens(Peekable<IntoIter<Token>>);

impl Tokens {
    pub(super) fn read(text: &str) -> Result<Self, CorefileError> {
        Ok(Self(tokens(text)?.into_iter().peekable()))
    }

    pub(super) fn peek(&mut self) -> Option<&Token> {
        self.0.peek()
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        self.0.next()
    }

    pub(super) fn next_if(&mut self, is_wanted: impl FnOnce(&Token) -> bool) -> Option<Token> {
        self.0.next_if(is_wanted)
    }
}

/// Token whose end is not read yet.
struct Begun {
    text: String,
    span: Range<usize>,
    line: usize,
}

fn tokens(text: &str) -> Result<Vec<Token>, CorefileError> {
    let mut all = Vec::<Token>::new();
    let mut begun: Option<Begun> = None;
    // `last_line` is the line in which the last token ended.
    let (mut line, mut last_line) = (1, 0);
    let mut letters = text.char_indices().peekable();
    letters.next_if(|(_, letter)| *letter == '\u{feff}');
    while let Some((at, letter)) = letters.next() {
        let ended = begun.take_if(|_| letter == '#' || is_space(letter));
        let is_behind_word = ended.is_some();
        if let Some(word) = ended {
            all.push(word.ended(last_line));
            last_line = line;
        }
        match letter {
            '\n' => line += 1,
            // CoreDNS ends a comment that directly follows a word at the next space.
            '#' => {
                let is_in_it = |letter: char| match is_behind_word {
                    true => !is_space(letter),
                    false => letter != '\n',
                };
                while letters.next_if(|(_, letter)| is_in_it(*letter)).is_some() {}
            }
            letter if is_space(letter) || letter == '\r' => {}
            '"' if begun.is_none() => {
                let first_line = line;
                let (quoted, end) =
                    quoted(&mut letters, &mut line).ok_or(CorefileError::Quote(first_line))?;
                all.push(Token {
                    text: quoted,
                    line: first_line,
                    begins_line: first_line > last_line,
                    span: at..end,
                });
                last_line = line;
            }
            letter => {
                let word = begun.get_or_insert_with(|| Begun {
                    text: String::new(),
                    span: at..at,
                    line,
                });
                word.text.push(letter);
                word.span.end = at + letter.len_utf8();
            }
        }
    }
    all.extend(begun.map(|word| word.ended(last_line)));
    Ok(all)
}

/// Whether a character separates words. CoreDNS skips carriage returns.
fn is_space(letter: char) -> bool {
    letter.is_whitespace() && letter != '\r'
}

impl Begun {
    fn ended(self, last_line: usize) -> Token {
        Token {
            text: self.text,
            line: self.line,
            begins_line: self.line > last_line,
            span: self.span,
        }
    }
}

/// Reads the text up to the closing quote, and returns it with the position of that quote. A
/// backslash is an escape only before a quote.
fn quoted(
    letters: &mut Peekable<impl Iterator<Item = (usize, char)>>,
    line: &mut usize,
) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut is_escaped = false;
    for (at, letter) in letters {
        match letter {
            '"' if !is_escaped => return Some((text, at + 1)),
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            '\n' => *line += 1,
            _ => {}
        }
        if is_escaped && letter != '"' {
            text.push('\\');
        }
        text.push(letter);
        is_escaped = false;
    }
    None
}
