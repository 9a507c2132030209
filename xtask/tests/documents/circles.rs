//! Modules of a crate name each other one way: siblings form no circle, at any level.
//!
//! A room is a module with all modules below it. Where a module names an item that another module
//! defines, directly or through re-exports, an arrow leads between the two siblings that hold them.
//! A module may name items of its ancestors: their arrow stays inside one room. Naming a module
//! without an item draws no arrow, nor does what only tests compile. A circle is a set of two or
//! more siblings, each of which reaches all others along the arrows.

mod module;

use std::collections::{BTreeMap, BTreeSet};

use causeway_tests::repository;

use self::module::Module;
use crate::pages::files_below;

/// Sources of each crate, with the number of circles that are known.
const CRATES: [(&str, usize); 13] = [
    ("bench/src", 0),
    ("certs/src", 0),
    ("cli/src", 0),
    ("controller/src", 0),
    ("engine/src", 0),
    ("src", 0),
    // The testbed's Cluster <-> its parts.
    ("tests/src", 0),
    ("tests/src/bin/demo", 0),
    ("tests/src/bin/e2e", 0),
    ("tunnel/src", 0),
    ("webhook/src", 0),
    ("wire/src", 0),
    ("xtask/src", 0),
];

/// Maximum number of re-exports between a name and its item.
const MOST_HOPS: usize = 16;

/// Path of a module or an item, from the root of its crate.
type Names = Vec<String>;
/// Arrows from a room to its siblings, each with the places that draw it.
type Arrows = BTreeMap<Names, BTreeMap<Names, Vec<String>>>;

/// Modules of a crate by their paths.
struct Modules(BTreeMap<Names, Module>);

impl Modules {
    /// Reads the files of a crate, by their paths below the root.
    fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut modules = BTreeMap::new();
        for (file, text) in files {
            let names = file.trim_end_matches(".rs").split('/');
            let mut path: Names = names.map(str::to_owned).collect();
            path.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
            let mut module = Module {
                file,
                path: path.clone(),
                lines: text.lines().count(),
                ..Module::default()
            };
            module.scan(text.parse().expect("Rust"), false);
            modules.insert(path, module);
        }
        let tests = modules.values().flat_map(|module| module.tests.clone());
        let tests: Vec<_> = tests.collect();
        modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        for Module { file, globs, .. } in modules.values() {
            let is_item = globs.iter().all(|path| !modules.contains_key(path));
            assert!(is_item, "{file}: import names, not a whole module");
        }
        Self(modules)
    }

    /// Reads the sources of a crate. Programs below `bin` are crates of their own.
    fn of_crate(sources: &str) -> Self {
        let directory = repository().join(sources);
        let files = files_below(&directory, "rs").into_iter();
        Self::new(files.filter(|file| !file.starts_with("bin/")).map(|file| {
            let text = std::fs::read_to_string(directory.join(&file)).expect("a source file");
            (file, text)
        }))
    }

    /// Returns the path of the module that defines an item.
    fn home(&self, path: &[String], hops: usize) -> Option<&Names> {
        let mut module = self.0.get(&Names::new())?;
        for (at, name) in path.iter().enumerate() {
            let (child, rest) = (self.0.get(&path[..=at]), &path[at + 1..]);
            if module.items.contains(name) && (child.is_none() || rest.is_empty()) {
                return Some(&module.path);
            }
            match (child, module.imports.get(name)) {
                (Some(child), _) => module = child,
                (None, Some(target)) if hops < MOST_HOPS => {
                    return self.home(&[target, rest].concat(), hops + 1);
                }
                (None, _) => return None,
            }
        }
        None
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for module in self.0.values() {
            let (file, path) = (&module.file, &module.path);
            for (name, line) in &module.named {
                let Some(home) = self.home(name, 0) else {
                    continue;
                };
                let shared = path.iter().zip(home).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (path.get(..=shared), home.get(..=shared)) {
                    let rooms = arrows.entry(from.to_vec()).or_default();
                    let places = rooms.entry(to.to_vec()).or_default();
                    places.push(format!("{file}:{line} names {}", name.join("::")));
                }
            }
        }
        arrows
    }

    /// Returns each circle as the places that draw its arrows.
    fn circles(&self) -> Vec<Vec<String>> {
        let arrows = self.arrows();
        let mut circles = BTreeMap::<_, Vec<String>>::new();
        for (from, rooms) in &arrows {
            for (to, places) in rooms {
                if reached(&arrows, to).contains(from) {
                    let mut circle = reached(&arrows, from);
                    circle.retain(|room| reached(&arrows, room).contains(from));
                    circles.entry(circle).or_default().extend(places.clone());
                }
            }
        }
        circles.into_values().collect()
    }
}

/// Floors of `kubectl mcs`, from the ground up. Rooms of one floor do not name each other.
const CLI_FLOORS: [&[&str]; 5] = [
    &["term"],
    &["cluster"],
    &["args", "observe"],
    &["views"],
    &["commands"],
];
/// Modules that commands share, and `verify`, which the page starts. No command names any other.
const CLI_SHARED: [&str; 4] = ["membership", "moving", "overview", "verify"];

/// Returns the places in `kubectl mcs` that name a room of the same floor or of a higher one, or
/// another command.
fn upward(arrows: &Arrows) -> Vec<&String> {
    let floor = |room: &String| CLI_FLOORS.iter().position(|all| all.contains(&&**room));
    let is_upward = |from: &Names, to: &Names| match (&**from, &**to) {
        ([from], [to]) => floor(from).is_some() && floor(from) <= floor(to),
        ([room, _], [_, to]) => room == "commands" && !CLI_SHARED.contains(&&**to),
        _ => false,
    };
    let rooms = arrows
        .iter()
        .flat_map(|(from, rooms)| rooms.iter().map(move |(to, places)| (from, to, places)));
    rooms
        .filter(|(from, to, _)| is_upward(from, to))
        .flat_map(|(_, _, places)| places)
        .collect()
}

#[test]
fn commands_stand_on_views_and_views_on_observed_objects() {
    let modules = Modules::of_crate("cli/src");
    let tops = modules.0.keys().filter(|path| path.len() == 1);
    let floors: BTreeSet<_> = CLI_FLOORS.into_iter().flatten().copied().collect();
    assert_eq!(tops.map(|path| &*path[0]).collect::<BTreeSet<_>>(), floors);
    assert_eq!(upward(&modules.arrows()), [""; 0]);
}

#[test]
fn upward_names_and_names_of_other_commands_are_found() {
    let files = [
        ("main.rs", "mod args; mod commands; mod term; mod views;"),
        ("args.rs", "pub struct Args(crate::term::Format);"),
        ("commands.rs", "mod join; mod moving; mod unjoin;"),
        (
            "commands/join.rs",
            "pub struct A(super::unjoin::B, super::moving::C);",
        ),
        ("commands/moving.rs", "pub struct C(crate::views::V);"),
        ("commands/unjoin.rs", "pub struct B;"),
        ("term.rs", "pub struct Format; struct X(crate::args::Args);"),
        (
            "views.rs",
            "pub struct V; struct Y(crate::commands::moving::C);",
        ),
    ];
    let modules = Modules::new(files.map(|(file, text)| (file.to_owned(), text.to_owned())));
    assert_eq!(
        upward(&modules.arrows()),
        [
            "commands/join.rs:1 names commands::unjoin::B",
            "term.rs:1 names args::Args",
            "views.rs:1 names commands::moving::C",
        ]
    );
}

fn reached<'a>(arrows: &'a Arrows, start: &'a Names) -> BTreeSet<&'a Names> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(room) = next.pop() {
        let rooms = arrows.get(room).into_iter().flat_map(BTreeMap::keys);
        next.extend(rooms.filter(|room| seen.insert(*room)));
    }
    seen
}

#[test]
fn modules_of_a_crate_form_no_circle() {
    for (sources, known) in CRATES {
        let modules = Modules::of_crate(sources);
        let circles = modules.circles();
        let (count, files) = (circles.len(), modules.0.len());
        let lines: usize = modules.0.values().map(|module| module.lines).sum();
        println!("{sources}: {count} circles of imports in {files} modules of {lines} lines");
        assert!(files > 4, "{sources} has {files} modules");
        let circles: Vec<_> = circles.iter().map(|places| places.join("\n  ")).collect();
        let text = circles.join("\ncircle:\n  ");
        assert!(count <= known, "{sources} had {known}\ncircle:\n  {text}");
    }
}

#[test]
fn circle_is_found_between_rooms_and_through_re_exports() {
    let circles = |read: &str, report: &str| {
        let main = "mod explain; mod read; mod status; pub struct Args;";
        let explain = "mod text; pub use self::text::Text; pub struct Why;";
        let text = "use super::Why; use crate::{Args, read as all};\npub struct Text(all::A);";
        let files = [
            ("main.rs", main),
            ("explain.rs", explain),
            ("explain/text.rs", text),
            ("read.rs", read),
            ("status.rs", "mod report; pub use self::report::Report;"),
            ("status/report.rs", report),
        ];
        Modules::new(files.map(|(file, text)| (file.to_owned(), text.to_owned()))).circles()
    };
    let report = "pub struct Report(crate::explain::Text);";
    let one_way = "pub struct A; // crate::status::Report\n#[cfg(test)] use crate::status::Report;";
    assert_eq!(circles(one_way, report), [[""; 0]; 0]);
    let tests = "pub struct A; #[cfg(test)] mod tests { use crate::status::Report; }";
    assert_eq!(circles(tests, report), [[""; 0]; 0]);
    assert_eq!(
        circles("\npub struct A(crate::status::Report);", report),
        [[
            "explain/text.rs:2 names explain::text::all::A",
            "read.rs:2 names status::Report",
            "status/report.rs:1 names explain::Text",
        ]]
    );
}
