//! Corefile parser and lookup of the server block that answers for the clusterset's zone.
//!
//! Tokens and blocks follow the Caddyfile of Caddy 1, of which CoreDNS maintains a copy
//! (coredns/caddy, `caddyfile/lexer.go` and `caddyfile/parse.go`). White space ends a token, a
//! double quote ends a quoted token, and `#` begins a comment at any position. An import of an
//! unknown file is an error: the parser never guesses.

mod edit;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::BTreeMap;

pub(super) use self::edit::{ZONE, with_block};
use self::tokens::{Token, Tokens};
use crate::args::Multicluster;

/// Corefile that cannot be followed or edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CorefileError {
    #[error("line {0}: a quoted text does not end")]
    Quote(usize),
    #[error("line {0}: {{ without an end")]
    Open(usize),
    #[error("line {0}: }} without a beginning")]
    Close(usize),
    #[error("line {0}: a server block without braces")]
    Braces(usize),
    #[error("line {0}: import needs one file, pattern or snippet")]
    Import(usize),
    #[error("it imports {0}, which is in no ConfigMap that CoreDNS mounts there")]
    Unknown(String),
    #[error("line {0}: {1} depends on a variable of the environment")]
    Variable(usize, String),
    #[error("its imports do not end")]
    Endless,
    #[error("no server block has the kubernetes plugin")]
    NoKubernetes,
    #[error("the server block of the kubernetes plugin does not answer plain DNS ({0})")]
    NotPlain(String),
    #[error("server block {keys} answers for {zone} without multicluster: it has {plugins}")]
    Taken {
        zone: &'static str,
        keys: String,
        plugins: String,
    },
    #[error("its plugin {0} has options that cannot be repeated for {zone}", zone = ZONE)]
    Unrepeatable(String),
    #[error("zone {zone} is in server block {keys} and cannot be completed there")]
    Incomplete { zone: &'static str, keys: String },
}

/// Files that CoreDNS can import, by path.
pub(super) type Files = BTreeMap<String, String>;

/// Corefile with all its imports.
#[derive(Clone, Debug)]
pub(super) struct Corefile {
    /// Server blocks. Blocks of an imported file take the position of the import.
    pub blocks: Vec<Block>,
    /// Absolute paths and patterns of the files that the Corefile imports outside of server blocks.
    pub imports: Vec<String>,
}

/// Server block of a Corefile.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Zones with scheme and port, as written.
    pub keys: Vec<String>,
    /// Plugins in the order of the text.
    pub plugins: Vec<Plugin>,
    /// Whether the Corefile itself contains the block.
    pub is_own: bool,
}

/// Plugin in a server block.
#[derive(Clone, Debug)]
pub(super) struct Plugin {
    pub name: String,
    /// Words behind the name on the same line.
    pub args: Vec<String>,
    /// Lines between the braces, each split into words.
    pub options: Vec<Vec<String>>,
    /// Whether an option has braces of its own. The parser skips their content.
    pub is_nested: bool,
    /// Position in the text. `None` outside of the server blocks of the Corefile itself.
    at: Option<Place>,
}

/// Position of a plugin in the text, in bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Start of the name.
    begins: usize,
    /// End of the last word before the braces.
    line_ends: usize,
    /// Start of the first word between the braces.
    first_option: Option<usize>,
    has_braces: bool,
}

/// Maximum depth of nested imports.
const DEEPEST: usize = 16;

/// Result of the lookup of the clusterset's zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneState {
    /// Server block with multicluster: the form and the keys of the block.
    Served(Multicluster, String),
    /// No server block of the zone. A parent zone may have one.
    Nothing,
    /// Server block with the kubernetes plugin for the zone, without the option: its keys.
    WithoutOption(String),
    /// Server block of the zone without multicluster and without the kubernetes plugin for the
    /// zone: its keys and its plugins.
    Other(String, String),
}

impl Corefile {
    /// Parses the Corefile at `path`.
    ///
    /// # Errors
    /// [`CorefileError`] for invalid syntax and for imports that cannot be followed.
    pub(super) fn read(text: &str, path: &str, files: &Files) -> Result<Self, CorefileError> {
        let mut reader = Reader {
            files,
            snippets: BTreeMap::new(),
            blocks: Vec::new(),
            imports: Vec::new(),
        };
        reader.servers(text, path, 0)?;
        Ok(Self {
            blocks: reader.blocks,
            imports: reader.imports,
        })
    }

    /// Returns the state of the server block that answers for the clusterset's zone: CoreDNS uses
    /// the block with the longest matching zone.
    pub(super) fn answer(&self) -> ZoneState {
        let reach = |block: &Block| {
            block
                .keys
                .iter()
                .filter_map(|key| Key::read(key).reach())
                .max()
        };
        let ranked = self
            .blocks
            .iter()
            .filter_map(|block| Some((reach(block)?, block)));
        let Some(longest) = ranked.clone().map(|(reach, _)| reach).max() else {
            return ZoneState::Nothing;
        };
        let nearest = ranked.filter(|(reach, _)| *reach == longest);
        let nearest: Vec<_> = nearest.map(|(_, block)| block).collect();
        if let Some((block, form)) = nearest.iter().find_map(|one| Some((one, one.form()?))) {
            return ZoneState::Served(form, block.keys.join(" "));
        }
        if let Some(block) = nearest.iter().find(|block| block.zone_plugin().is_some()) {
            return ZoneState::WithoutOption(block.keys.join(" "));
        }
        match nearest.first() {
            Some(block) if longest == ZONE.split('.').count() => {
                ZoneState::Other(block.keys.join(" "), block.names())
            }
            _ => ZoneState::Nothing,
        }
    }

    /// Whether CoreDNS reloads a changed Corefile by itself.
    pub(super) fn reloads(&self) -> bool {
        let mut plugins = self.blocks.iter().flat_map(|block| &block.plugins);
        plugins.any(|plugin| plugin.name == "reload")
    }

    /// Whether a server block has the clusterset's zone or a parent zone other than the root.
    pub(super) fn has_block_of_zone(&self) -> bool {
        let keys = self.blocks.iter().flat_map(|block| &block.keys);
        let mut reaches = keys.filter_map(|key| Key::read(key).reach());
        reaches.any(|reach| reach > 0)
    }
}

impl Block {
    /// Returns the form in which the block serves the clusterset's zone.
    fn form(&self) -> Option<Multicluster> {
        let named = |words: &[String]| words.iter().any(|word| Key::read(word).zone == ZONE);
        let of_block = || self.keys.iter().any(|key| Key::read(key).zone == ZONE);
        self.plugins.iter().find_map(|plugin| match &*plugin.name {
            "multicluster" if named(&plugin.args) || (plugin.args.is_empty() && of_block()) => {
                Some(Multicluster::Plugin)
            }
            "kubernetes" if plugin.has_zone(&self.keys) => {
                let mut options = plugin.options.iter();
                let option = |line: &Vec<String>| match line.split_first() {
                    Some((word, zones)) => word == "multicluster" && named(zones),
                    None => false,
                };
                options.any(option).then_some(Multicluster::Option)
            }
            _ => None,
        })
    }

    /// Returns the kubernetes plugin of the block, if the plugin answers for the clusterset's zone.
    fn zone_plugin(&self) -> Option<&Plugin> {
        let mut plugins = self.plugins.iter();
        plugins.find(|plugin| plugin.name == "kubernetes" && plugin.has_zone(&self.keys))
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.plugins.iter().map(|plugin| &*plugin.name).collect();
        match names.is_empty() {
            true => "no plugin".to_owned(),
            false => names.join(", "),
        }
    }
}

impl Plugin {
    /// Whether the kubernetes plugin answers for the clusterset's zone. A plugin without zones has
    /// those of its server block.
    fn has_zone(&self, keys: &[String]) -> bool {
        let zones = if self.args.is_empty() {
            keys
        } else {
            &self.args
        };
        zones.iter().any(|zone| Key::read(zone).zone == ZONE)
    }
}

/// Key of a server block, such as `dns://cluster.local:53`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    /// Scheme in lower case. Plain DNS if absent.
    scheme: Option<String>,
    /// Zone in lower case without the final dot. Empty for the root.
    zone: String,
    /// Port with its colon, as written.
    port: String,
}

impl Key {
    fn read(text: &str) -> Self {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, text),
        };
        let port = rest.rfind(':').filter(|colon| {
            let digits = rest.get(colon + 1..).unwrap_or_default();
            !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        });
        let (zone, port) = rest.split_at(port.unwrap_or(rest.len()));
        Self {
            scheme,
            zone: zone.trim_end_matches('.').to_ascii_lowercase(),
            port: port.to_owned(),
        }
    }

    fn is_plain(&self) -> bool {
        self.scheme.as_deref().is_none_or(|scheme| scheme == "dns")
    }

    /// Returns the number of labels that the key shares with the clusterset's zone. `None` for an
    /// unrelated zone and for other than plain DNS.
    fn reach(&self) -> Option<usize> {
        let zone = &*self.zone;
        let covers = zone.is_empty()
            || ZONE == zone
            || ZONE
                .strip_suffix(zone)
                .is_some_and(|rest| rest.ends_with('.'));
        let labels = zone.split('.').filter(|label| !label.is_empty()).count();
        (self.is_plain() && covers).then_some(labels)
    }
}

/// Parser of server blocks and their imports.
struct Reader<'a> {
    files: &'a Files,
    snippets: BTreeMap<String, Vec<Plugin>>,
    blocks: Vec<Block>,
    imports: Vec<String>,
}

impl Reader<'_> {
    /// Reads the server blocks of a file.
    fn servers(&mut self, text: &str, path: &str, depth: usize) -> Result<(), CorefileError> {
        if depth > DEEPEST {
            return Err(CorefileError::Endless);
        }
        let mut tokens = Tokens::read(text)?;
        while let Some(first) = tokens.peek() {
            if first.is("import") {
                let pattern = imported(&mut tokens)?;
                if depth == 0 {
                    self.imports.push(absolute(&pattern, path));
                }
                for (file, content) in self.matching(&pattern, path)? {
                    self.servers(&content, &file, depth + 1)?;
                }
                continue;
            }
            let line = first.line;
            let keys = keys(&mut tokens);
            let is_variable = |key: &&String| key.contains("{$") || key.contains("{%");
            if let Some(key) = keys.iter().find(is_variable) {
                return Err(CorefileError::Variable(line, key.clone()));
            }
            if !tokens.next().is_some_and(|token| token.is("{")) {
                return Err(CorefileError::Braces(line));
            }
            let plugins = self.plugins(&mut tokens, path, line, depth)?;
            let snippet = match keys.as_slice() {
                [only] => only
                    .strip_prefix('(')
                    .and_then(|name| name.strip_suffix(')')),
                _ => None,
            };
            match snippet {
                Some(name) => {
                    self.snippets.insert(name.to_owned(), plugins);
                }
                None => self.blocks.push(Block {
                    keys,
                    plugins,
                    is_own: depth == 0,
                }),
            }
        }
        Ok(())
    }

    /// Reads plugins up to the closing brace of the server block that begins at `line`.
    fn plugins(
        &self,
        tokens: &mut Tokens,
        path: &str,
        line: usize,
        depth: usize,
    ) -> Result<Vec<Plugin>, CorefileError> {
        let mut plugins = Vec::new();
        loop {
            match tokens.peek() {
                None => return Err(CorefileError::Open(line)),
                Some(token) if token.is("}") => {
                    tokens.next();
                    return Ok(plugins);
                }
                Some(token) if token.is("import") => {
                    let pattern = imported(tokens)?;
                    plugins.extend(self.imported_plugins(&pattern, path, depth + 1)?);
                }
                Some(_) => plugins.extend(plugin(tokens, depth == 0)?),
            }
        }
    }

    /// Reads the plugins of a snippet or of the files of a pattern.
    fn imported_plugins(
        &self,
        pattern: &str,
        path: &str,
        depth: usize,
    ) -> Result<Vec<Plugin>, CorefileError> {
        if depth > DEEPEST {
            return Err(CorefileError::Endless);
        }
        if let Some(snippet) = self.snippets.get(pattern) {
            let elsewhere = |plugin: &Plugin| Plugin {
                at: None,
                ..plugin.clone()
            };
            return Ok(snippet.iter().map(elsewhere).collect());
        }
        let mut plugins = Vec::new();
        for (file, content) in self.matching(pattern, path)? {
            let mut tokens = Tokens::read(&content)?;
            while let Some(token) = tokens.peek() {
                if token.is("}") {
                    return Err(CorefileError::Close(token.line));
                }
                if token.is("import") {
                    let pattern = imported(&mut tokens)?;
                    plugins.extend(self.imported_plugins(&pattern, &file, depth + 1)?);
                } else {
                    plugins.extend(plugin(&mut tokens, false)?);
                }
            }
        }
        Ok(plugins)
    }

    /// Returns the files that match a pattern, by path. A pattern is relative to the importing
    /// file.
    fn matching(&self, pattern: &str, path: &str) -> Result<Vec<(String, String)>, CorefileError> {
        let absolute = absolute(pattern, path);
        let unknown = || CorefileError::Unknown(pattern.to_owned());
        let (of, name) = absolute.rsplit_once('/').ok_or_else(unknown)?;
        let Some((before, after)) = name.split_once('*') else {
            let content = self.files.get(&absolute).ok_or_else(unknown)?;
            return Ok(vec![(absolute, content.clone())]);
        };
        // A mounted ConfigMap is a directory, even without any key.
        if !self.files.contains_key(&format!("{of}/")) || after.contains('*') {
            return Err(unknown());
        }
        let is_one = |path: &str| {
            let name = path
                .strip_prefix(of)
                .and_then(|rest| rest.strip_prefix('/'));
            name.is_some_and(|name| {
                !name.is_empty()
                    && !name.contains('/')
                    && name.len() >= before.len() + after.len()
                    && name.starts_with(before)
                    && name.ends_with(after)
            })
        };
        let found = self.files.iter().filter(|(path, _)| is_one(path));
        Ok(found
            .map(|(path, content)| (path.clone(), content.clone()))
            .collect())
    }
}

/// Returns the absolute path of a pattern in the file at `path`.
fn absolute(pattern: &str, path: &str) -> String {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    match pattern.starts_with('/') {
        true => pattern.to_owned(),
        false => format!("{directory}/{}", pattern.trim_start_matches("./")),
    }
}

/// Reads the keys of a server block. A key with a final comma continues on the next line.
fn keys(tokens: &mut Tokens) -> Vec<String> {
    let mut keys = Vec::new();
    let mut goes_on = true;
    while let Some(token) = tokens.peek() {
        if token.is("{") || (token.begins_line && !goes_on && !keys.is_empty()) {
            break;
        }
        let word = token.text.trim_end_matches(',').to_owned();
        goes_on = token.text.ends_with(',');
        if !word.is_empty() {
            keys.push(word);
        }
        tokens.next();
    }
    keys
}

/// Reads the argument of an import: exactly one word on the line.
fn imported(tokens: &mut Tokens) -> Result<String, CorefileError> {
    let line = tokens.next().map_or(0, |token| token.line);
    let named = tokens.next_if(|token| !token.begins_line);
    let named = named
        .map(|token| token.text)
        .filter(|text| !text.is_empty());
    match (named, tokens.peek()) {
        (Some(text), next) if next.is_none_or(|next| next.begins_line || next.is("}")) => Ok(text),
        _ => Err(CorefileError::Import(line)),
    }
}

/// Reads a plugin: its line and the content of its braces.
fn plugin(tokens: &mut Tokens, is_own: bool) -> Result<Option<Plugin>, CorefileError> {
    let Some(first) = tokens.next() else {
        return Ok(None);
    };
    let mut place = Place {
        begins: first.span.start,
        line_ends: first.span.end,
        first_option: None,
        has_braces: false,
    };
    let (mut args, mut options) = (Vec::new(), Vec::<Vec<String>>::new());
    let (mut nesting, mut is_nested) = (0_usize, false);
    while let Some(token) =
        tokens.next_if(|token: &Token| nesting > 0 || !token.begins_line || token.is("{"))
    {
        if token.is("{") {
            nesting += 1;
            is_nested |= nesting > 1;
            place.has_braces = true;
            continue;
        }
        if token.is("}") {
            let Some(outer) = nesting.checked_sub(1) else {
                return Err(CorefileError::Close(token.line));
            };
            nesting = outer;
            continue;
        }
        if !place.has_braces {
            place.line_ends = token.span.end;
            args.push(token.text);
        } else if nesting == 1 {
            place.first_option.get_or_insert(token.span.start);
            match options.last_mut().filter(|_| !token.begins_line) {
                Some(line) => line.push(token.text),
                None => options.push(vec![token.text]),
            }
        }
    }
    if nesting > 0 {
        return Err(CorefileError::Open(first.line));
    }
    Ok(Some(Plugin {
        name: first.text,
        args,
        options,
        is_nested,
        at: is_own.then_some(place),
    }))
}
