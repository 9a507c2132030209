//! Sessions and files that the documents print, for tests that type them.

use crate::paths::repository;

/// The blocks of code of a page in a language, as they are printed. A page is a path in the
/// repository.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = repository().join(page);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    let fence = format!("```{language}\n");
    let begun = text.split(&fence).skip(1);
    let ended = begun.filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned()));
    ended.collect()
}
