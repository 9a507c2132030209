//! The runbooks of docs/troubleshooting.md, and their first commands.

use causeway_tests::repository;

use crate::rules::rules;

/// The runbook of an alert: what stands below its heading.
fn runbook(alert: &str) -> String {
    let page = repository().join("docs/troubleshooting.md");
    let page = std::fs::read_to_string(page).expect("docs/troubleshooting.md");
    let heading = format!("\n### {alert}\n");
    let (_, rest) = page
        .split_once(&heading)
        .unwrap_or_else(|| panic!("no runbook of {alert}"));
    let end = rest.find("\n#").unwrap_or(rest.len());
    rest.get(..end).unwrap_or(rest).to_owned()
}

/// The first command of a runbook.
fn first_command(alert: &str) -> String {
    let runbook = runbook(alert);
    let (_, block) = runbook
        .split_once("```bash\n")
        .unwrap_or_else(|| panic!("the runbook of {alert} has no command"));
    let (command, _) = block.split_once("\n```").expect("the end of the block");
    command.to_owned()
}

#[test]
fn every_alert_has_a_runbook_with_a_first_command_and_why_it_waits() {
    for (name, rule) in rules() {
        let text = runbook(&name);
        assert!(first_command(&name).contains("kubectl"), "{name}: {text}");
        let hold = rule["for"].as_str();
        let waits = hold.is_none_or(|hold| {
            let (number, unit) = hold.split_at(hold.len() - 1);
            let unit = if unit == "h" { "hour" } else { "minute" };
            text.contains(&format!("{number} {unit}"))
        });
        assert!(
            waits,
            "{name} does not say why it waits for {hold:?}:\n{text}"
        );
    }
}

#[test]
fn there_is_no_runbook_of_an_alert_that_is_not_there() {
    let page = repository().join("docs/troubleshooting.md");
    let page = std::fs::read_to_string(page).expect("docs/troubleshooting.md");
    let all = rules();
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    for heading in headings.filter(|heading| heading.starts_with("Causeway")) {
        assert!(all.contains_key(heading), "{heading}");
    }
}
