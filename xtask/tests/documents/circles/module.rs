//! Names that a source file defines, imports and uses, read from its tokens.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Names;

/// Keywords before the name of an item.
const KEYWORDS: [&str; 8] = [
    "const", "enum", "fn", "static", "struct", "trait", "type", "union",
];

#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) file: String,
    pub(super) path: Names,
    pub(super) lines: usize,
    /// Names of the items that the module defines.
    pub(super) items: BTreeSet<String>,
    /// Paths of imported items, by the names that the module gives them.
    pub(super) imports: BTreeMap<String, Names>,
    /// Paths of which everything is imported.
    pub(super) globs: Vec<Names>,
    /// Paths that the module names, with their lines.
    pub(super) named: Vec<(Names, usize)>,
    /// Paths of the children that only tests compile.
    pub(super) tests: Vec<Names>,
}

fn word(token: Option<&TokenTree>) -> String {
    match token {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        _ => String::new(),
    }
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn inside(token: &TokenTree, delimiter: Delimiter) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group.stream()),
        _ => None,
    }
}

fn is_test(attribute: Option<&TokenTree>) -> bool {
    let text = attribute.map_or(String::new(), |it| it.to_string().replace(' ', ""));
    text.starts_with("[cfg(test)") || text.starts_with("[cfg(any(test,")
}

impl Module {
    /// Adds what the tokens name; those of a block define no item of the module.
    pub(super) fn scan(&mut self, tokens: TokenStream, is_block: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let (first, second) = (word(Some(token)), word(tokens.get(at + 1)));
            let (mut path, start) = (vec![first.clone()], at);
            while is_sign(tokens.get(at + 1), ':') && is_sign(tokens.get(at + 2), ':') {
                path.push(word(tokens.get(at + 3)));
                at += 3;
            }
            at += 1;
            if path.len() > 1 {
                self.name(&path, &tokens[start]);
            } else if is_sign(Some(token), '#') && is_test(tokens.get(at)) {
                at += 1 + self.skip(&tokens[at + 1..]);
            } else if first == "use" && !second.is_empty() {
                let end = tokens[at..].iter().position(|it| is_sign(Some(it), ';'));
                let end = at + end.expect("a semicolon");
                self.import(&tokens[at..end], Names::new());
                at = end;
            } else if !is_block && KEYWORDS.contains(&first.as_str()) {
                self.items.insert(second);
            } else if let TokenTree::Group(group) = token {
                self.scan(group.stream(), true);
            }
        }
    }

    /// Returns the number of tokens of an item that only tests compile.
    fn skip(&mut self, tokens: &[TokenTree]) -> usize {
        let is_import = tokens.iter().take(4).any(|it| word(Some(it)) == "use");
        let is_end = |it: &TokenTree| {
            is_sign(Some(it), ';') || !is_import && inside(it, Delimiter::Brace).is_some()
        };
        let end = tokens.iter().position(is_end).unwrap_or(tokens.len());
        if let [.., keyword, name] = &tokens[..end]
            && word(Some(keyword)) == "mod"
        {
            self.tests.push([&*self.path, &[word(Some(name))]].concat());
        }
        end + 1
    }

    /// Adds the leaves of a tree of imports.
    fn import(&mut self, tree: &[TokenTree], mut path: Names) {
        let Some(first) = tree.first() else {
            return;
        };
        let mut alias = None;
        let mut names = tree.iter().filter(|it| !is_sign(Some(it), ':'));
        while let Some(token) = names.next() {
            if let Some(branches) = inside(token, Delimiter::Brace) {
                let branches: Vec<_> = branches.into_iter().collect();
                for branch in branches.split(|it| is_sign(Some(it), ',')) {
                    self.import(branch, path.clone());
                }
                return;
            }
            match word(Some(token)).as_str() {
                "" => {
                    let path = self.name(&path, first);
                    return self.globs.push(path);
                }
                "as" => alias = Some(word(names.next())),
                "self" if !path.is_empty() => {}
                name => path.push(name.to_owned()),
            }
        }
        if let Some(name) = alias.or_else(|| path.last().cloned()) {
            let path = self.name(&path, first);
            self.imports.insert(name, path);
        }
    }

    /// Adds a path as written, and returns it from the root of the crate.
    fn name(&mut self, path: &[String], token: &TokenTree) -> Names {
        let (mut base, mut rest) = (&*self.path, path);
        while let Some((first, tail)) = rest.split_first() {
            match first.as_str() {
                "crate" => base = &[],
                "self" => {}
                "super" => base = base.split_last().map_or(&[], |(_, parent)| parent),
                _ => break,
            }
            rest = tail;
        }
        let path = [base, rest].concat();
        self.named.push((path.clone(), token.span().start().line));
        path
    }
}
