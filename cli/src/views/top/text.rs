//! Text output of `top`.

use super::rates::ControllerRates;
use super::report::{Rates, Report};
use crate::observe::networking::NetworkReport;
use crate::term::screen::{Screen, Tone, printable, wrapped};
use crate::term::table::{Cell, Table};

/// Maximum age in seconds of a member's last event before the table marks the member. A healthy
/// member sends events more often.
const SILENT: f64 = 60.0;

/// Renders the controller, the members, the services, and the notes.
pub(crate) fn render(report: &Report, screen: Screen) -> String {
    let mut blocks = Vec::new();
    if let Some(controller) = &report.controller {
        blocks.push(wrapped(&line(controller), "", screen.width));
    }
    blocks.push(members(report).render_on(screen));
    if report.services.is_empty() {
        blocks.push(format!("No service changed in {:.0} s.\n", report.seconds));
    } else {
        blocks.push(services(report).render_on(screen));
    }
    let notes = report.notes.iter();
    let notes: String = notes
        .map(|note| wrapped(&printable(note), "", screen.width))
        .collect();
    if !notes.is_empty() {
        blocks.push(notes);
    }
    blocks.join("\n")
}

fn line(controller: &ControllerRates) -> String {
    let mut line = format!(
        "{} leads: {} writes/s, {} failed/s, {} retries/s; ",
        controller.name,
        rate(controller.writes_per_second),
        rate(controller.failed_writes_per_second),
        rate(controller.retries_per_second)
    );
    line.push_str(&match controller.queue_keys {
        0.0 => "no service waits; ".to_owned(),
        keys => format!(
            "{keys} services wait, the first for {}; ",
            seconds(controller.queue_oldest_seconds)
        ),
    });
    let both = controller
        .propagation_p50_seconds
        .zip(controller.propagation_p99_seconds);
    line.push_str(&match both {
        Some((half, most)) => format!(
            "{} changes/s reach their last consumer, half in {}, 99 % in {}",
            rate(controller.propagated_per_second),
            seconds(half),
            seconds(most)
        ),
        None => "no change reached its consumers meanwhile".to_owned(),
    });
    line
}

fn members(report: &Report) -> Table {
    let [network, reach] = NetworkReport::COLUMNS;
    let table = Table::new([
        "MEMBER",
        "STATE",
        network,
        reach,
        "CHANGES/S",
        "WRITES/S",
        "FAILED/S",
        "ENDPOINTS/S",
        "LAG",
        "LAST EVENT",
    ]);
    let mut table = table.differing(2..4);
    for member in &report.members {
        let state = match member.state.as_str() {
            "synced" => Tone::Good,
            "unreachable" => Tone::Bad,
            _ => Tone::Unsure,
        };
        let failed = member.failed_writes_per_second;
        let fails = failed.is_some_and(|failed| failed > 0.0);
        let silent = member.silent_seconds;
        let is_silent = silent.is_some_and(|silent| silent > SILENT);
        let bad = |bad| if bad { Tone::Bad } else { Tone::Plain };
        let [network, reach] = member.networking.cells();
        let [changes, writes, endpoints, lag] = cells(&member.rates);
        let cells = [
            member.name.clone().into(),
            Cell::new(member.state.as_str(), state),
            network,
            reach,
            changes,
            writes,
            Cell::new(failed.map(rate).unwrap_or_default(), bad(fails)),
            endpoints,
            lag,
            Cell::new(silent.map(seconds).unwrap_or_default(), bad(is_silent)),
        ];
        table.row(cells, None);
    }
    table
}

fn services(report: &Report) -> Table {
    let columns = [
        "NAMESPACE",
        "NAME",
        "CHANGES/S",
        "WRITES/S",
        "ENDPOINTS/S",
        "LAG",
    ];
    let mut table = Table::new(columns).names(2);
    for service in &report.services {
        let [changes, writes, endpoints, lag] = cells(&service.rates);
        let cells = [
            service.namespace.clone().into(),
            service.name.clone().into(),
            changes,
            writes,
            endpoints,
            lag,
        ];
        table.row(cells, None);
    }
    table
}

fn cells(rates: &Rates) -> [Cell; 4] {
    [
        rate(rates.changes_per_second),
        rate(rates.writes_per_second),
        rate(rates.endpoints_per_second),
        rates.lag_seconds.map(seconds).unwrap_or_default(),
    ]
    .map(Cell::from)
}

/// Formats a rate: `0`, one decimal below ten, otherwise no decimals.
fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

/// Formats a duration such as `12ms`, `1.5s` or `2m`.
fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.9995 => format!("{:.0}ms", seconds * 1000.0),
        seconds if seconds < 9.95 => format!("{seconds:.1}s"),
        seconds if seconds < 120.0 => format!("{seconds:.0}s"),
        seconds => format!("{:.0}m", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_said_in_one_line() {
        let mut controller = ControllerRates {
            name: "causeway-controller-0".to_owned(),
            writes_per_second: 41.24,
            ..ControllerRates::default()
        };
        assert_eq!(
            line(&controller),
            "causeway-controller-0 leads: 41 writes/s, 0 failed/s, 0 retries/s; no service waits; no change reached its consumers meanwhile"
        );
        controller.queue_keys = 3.0;
        controller.queue_oldest_seconds = 1.52;
        controller.propagated_per_second = 20.6;
        controller.propagation_p50_seconds = Some(0.012);
        controller.propagation_p99_seconds = Some(0.2);
        assert_eq!(
            line(&controller),
            "causeway-controller-0 leads: 41 writes/s, 0 failed/s, 0 retries/s; 3 services wait, the first for 1.5s; 21 changes/s reach their last \
             consumer, half in 12ms, 99 % in 200ms"
        );
    }

    #[test]
    fn times_are_short() {
        for (time, text) in [
            (0.0, "0ms"),
            (0.0004, "0ms"),
            (0.9994, "999ms"),
            (1.0, "1.0s"),
            (12.3, "12s"),
            (300.0, "5m"),
        ] {
            assert_eq!(seconds(time), text);
        }
    }
}
