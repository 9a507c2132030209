//! Blocks of code that a reader copies: they can be read by what reads them.

use std::process::Command;

use causeway::api::MultiClusterService;
use causeway::domain;
use causeway_tests::repository;

use super::{book, none};

/// Whether bash understands a script, which is not run.
fn is_script(text: &str) -> bool {
    let checked = Command::new("bash").args(["-n", "-c", text]).output();
    checked.expect("bash").status.success()
}

#[test]
fn every_script_in_the_book_can_be_read_by_a_shell() {
    let mut wrong = Vec::new();
    let mut scripts = 0;
    for page in book::book() {
        for script in page
            .blocks_of("bash")
            .into_iter()
            .chain(page.blocks_of("sh"))
        {
            scripts += 1;
            if !is_script(script) {
                wrong.push(format!("{}: {script}", page.path));
            }
        }
    }
    assert!(scripts > 20, "{scripts} scripts were found");
    assert!(!is_script("for a in b; do"), "bash finds mistakes");
    none("scripts that no shell can read", wrong);
}

#[test]
fn every_manifest_that_a_command_names_is_there() {
    let mut wrong = Vec::new();
    for page in book::book() {
        let commands = page.commands();
        let words = commands
            .iter()
            .flat_map(|command| command.split_whitespace());
        let manifests = words.filter(|word| word.starts_with("manifests/"));
        let missing = manifests.filter(|path| !repository().join(path).exists());
        wrong.extend(missing.map(|path| format!("{}: {path}", page.path)));
    }
    none("manifests that are not there", wrong);
}

#[test]
fn every_make_target_in_the_book_is_there() {
    let makefile = std::fs::read_to_string(repository().join("Makefile")).expect("the Makefile");
    let mut wrong = Vec::new();
    for page in book::book() {
        for text in page.commands().into_iter().chain(page.spans()) {
            let mut words = text.split_whitespace();
            let (Some("make"), Some(target)) = (words.next(), words.next()) else {
                continue;
            };
            if !makefile
                .lines()
                .any(|line| line.starts_with(&format!("{target}:")))
            {
                wrong.push(format!("{}: {text}", page.path));
            }
        }
    }
    none("targets that the Makefile lacks", wrong);
}

#[test]
fn the_multi_cluster_service_of_the_readme_is_one_that_causeway_reads() {
    let readme = book::page("README.md");
    let blocks = readme.blocks_of("yaml");
    assert_eq!(blocks.len(), 1);
    let object: MultiClusterService =
        serde_saphyr::from_str(blocks[0]).expect("a MultiClusterService");
    domain::MultiClusterService::try_from(&object).expect("one that the webhook accepts");
}
