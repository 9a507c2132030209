//! Pages of Markdown, as far as the tests read them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use causeway_tests::repository;

use super::files_below;

/// A page, by its path in the repository.
#[derive(Default)]
pub(super) struct Page {
    pub path: String,
    pub lines: Vec<Line>,
    pub blocks: Vec<Block>,
}

/// A block of code, and the language that is written beside it.
pub(super) struct Block {
    pub language: String,
    pub text: String,
}

/// A line of a page.
pub(super) struct Line {
    pub kind: Kind,
    pub text: String,
}

/// Block that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Prose,
    Heading,
    Table,
    Code,
}

/// Every page of the repository.
pub(super) fn pages() -> Vec<Page> {
    let files = files_below(&repository(), "md").into_iter();
    files.map(|path| Page::read(&path)).collect()
}

/// The pages that people read, as opposed to the tables of tests and the list of changes.
pub(super) fn book() -> Vec<Page> {
    let mut pages = pages();
    pages.retain(|page| {
        let is_on_top = !page.path.contains('/') && page.path != "CHANGELOG.md";
        is_on_top || page.path.starts_with("docs/")
    });
    pages
}

/// The page at that path.
pub(super) fn page(path: &str) -> Page {
    Page::read(path)
}

impl Page {
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(repository().join(path))
            .unwrap_or_else(|e| panic!("{path} cannot be read: {e}"));
        Self {
            path: path.to_owned(),
            lines: lines(&text),
            blocks: blocks(&text),
        }
    }

    /// The blocks of code in a language.
    pub(super) fn blocks_of(&self, language: &str) -> Vec<&str> {
        let blocks = self
            .blocks
            .iter()
            .filter(|block| block.language == language);
        blocks.map(|block| block.text.as_str()).collect()
    }

    /// The paragraphs, headings and rows of tables, each as one text.
    fn paragraphs(&self) -> Vec<String> {
        let mut paragraphs = vec![String::new()];
        for line in &self.lines {
            let is_alone = line.kind != Kind::Prose || line.text.trim().is_empty();
            if is_alone || starts_an_item(&line.text) {
                paragraphs.push(String::new());
            }
            if line.kind != Kind::Code
                && let Some(last) = paragraphs.last_mut()
            {
                last.push_str(line.text.trim());
                last.push(' ');
            }
            if is_alone {
                paragraphs.push(String::new());
            }
        }
        paragraphs
    }

    /// Returns the texts between backticks.
    pub(super) fn spans(&self) -> Vec<String> {
        let paragraphs = self.paragraphs();
        let spans = paragraphs
            .iter()
            .flat_map(|text| text.split('`').skip(1).step_by(2));
        spans.map(|span| span.replace("\\|", "|")).collect()
    }

    /// Returns the destinations of links and pictures.
    pub(super) fn links(&self) -> Vec<String> {
        let paragraphs = self.paragraphs();
        let texts = paragraphs
            .iter()
            .map(|text| text.split('`').step_by(2).collect::<Vec<_>>().join("`"));
        let mut links = Vec::new();
        for text in texts {
            let ends = text.split("](").skip(1);
            links.extend(ends.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
        }
        links
    }

    /// The commands in blocks of code, each on one line, without prompt and comment.
    pub(super) fn commands(&self) -> Vec<String> {
        let code = self.lines.iter().filter(|line| line.kind == Kind::Code);
        let joined: Vec<&str> = code.map(|line| line.text.trim()).collect();
        let joined = joined.join("\n").replace("\\\n", " ");
        let commands = joined.lines().map(|line| {
            let line = line.trim_start_matches("$ ");
            line.split(" #").next().unwrap_or_default().trim()
        });
        commands.map(str::to_owned).collect()
    }

    /// The headings of one level.
    pub(super) fn headings(&self, level: usize) -> Vec<&str> {
        let marks = format!("{} ", "#".repeat(level));
        let headings = self
            .lines
            .iter()
            .filter(|line| line.kind == Kind::Heading)
            .filter_map(|line| line.text.strip_prefix(&marks));
        headings.collect()
    }

    /// The anchors that are written out.
    pub(super) fn ids(&self) -> BTreeSet<String> {
        let paragraphs = self.paragraphs();
        let ids = paragraphs
            .iter()
            .flat_map(|text| text.split("<a id=\"").skip(1));
        ids.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
            .collect()
    }

    /// Returns the anchors of the page: its headings as GitHub names them, and explicit ones.
    pub(super) fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = self.ids();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.kind == Kind::Heading) {
            let slug = slug(line.text.trim_start_matches('#').trim());
            let count = seen.entry(slug.clone()).or_default();
            anchors.insert(match *count {
                0 => slug,
                again => format!("{slug}-{again}"),
            });
            *count += 1;
        }
        anchors
    }

    /// The file and the anchor that a link of this page leads to.
    pub(super) fn target(&self, link: &str) -> (String, Option<String>) {
        let (path, anchor) = match link.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (link, None),
        };
        if path.is_empty() {
            return (self.path.clone(), anchor);
        }
        let directory = Path::new(&self.path).parent().unwrap_or(Path::new(""));
        (normal(&directory.join(path)), anchor)
    }
}

fn lines(text: &str) -> Vec<Line> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for text in text.lines() {
        if text.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        let kind = match text.as_bytes().first() {
            _ if in_code => Kind::Code,
            Some(b'#') => Kind::Heading,
            Some(b'|') => Kind::Table,
            _ => Kind::Prose,
        };
        lines.push(Line {
            kind,
            text: text.to_owned(),
        });
    }
    assert!(!in_code, "a block of code that does not end");
    lines
}

fn blocks(text: &str) -> Vec<Block> {
    let fences = text.split("\n```").enumerate();
    // Every other fence begins a block.
    let blocks = fences.filter(|(count, _)| count % 2 == 1);
    let blocks = blocks.map(|(_, block)| block.split_once('\n').unwrap_or((block, "")));
    let blocks = blocks.map(|(language, text)| Block {
        language: language.to_owned(),
        text: text.to_owned(),
    });
    blocks.collect()
}

fn starts_an_item(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("- ") || line.starts_with("* ")
}

/// GitHub's name of a heading.
fn slug(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn normal(path: &Path) -> String {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => assert!(normal.pop(), "{} leads out", path.display()),
            other => normal.push(other),
        }
    }
    normal.display().to_string()
}

#[test]
fn a_page_is_read_as_github_shows_it() {
    let text = concat!(
        "# One `two`: three\n\nSee [a\npage](../README.md#why) and `--a\nb`.\n\n",
        "- `x` <a id=\"own\"></a>\n```bash\n$ kubectl mcs a \\\n  --b  # why\n```\n# One two three\n",
    );
    let page = Page {
        path: "docs/page.md".to_owned(),
        lines: lines(text),
        blocks: blocks(text),
    };
    assert_eq!(page.links(), ["../README.md#why"]);
    assert_eq!(page.spans(), ["two", "--a b", "x"]);
    assert_eq!(page.commands(), ["kubectl mcs a  --b"]);
    assert_eq!(page.blocks_of("bash"), ["$ kubectl mcs a \\\n  --b  # why"]);
    let anchors: Vec<_> = page.anchors().into_iter().collect();
    assert_eq!(anchors, ["one-two-three", "one-two-three-1", "own"]);
    let target = page.target("../README.md#why");
    assert_eq!(target, ("README.md".to_owned(), Some("why".to_owned())));
}
