//! `xtask`: generates the files of the repository that come from others, and makes the images and
//! the chart that a release publishes. `make` runs it.

mod chart;
mod command;
mod dashboards;
mod generated;
mod images;
mod manifests;

use std::path::PathBuf;

use clap::Parser;

/// Generates files of this repository, and makes the images and the chart of a release
#[derive(Debug, Parser)]
#[command(name = "xtask", version)]
enum Task {
    /// Write the definitions, the dashboards and the chart's alerting rules below manifests/
    GenerateManifests(manifests::Args),
    /// Render the manifests of a hub from the Helm chart, and give the chart the workspace's
    /// version
    RenderManifests(chart::RenderArgs),
    /// Pack the Helm chart, the same bytes each time, and print the path of the archive
    PackageChart(chart::PackageArgs),
    /// Build the OCI images and their SBOMs from the commit that is checked out
    BuildImages(images::Args),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::GenerateManifests(args) => manifests::generate(&args),
        Task::RenderManifests(args) => chart::render(&args),
        Task::PackageChart(args) => chart::package(&args),
        Task::BuildImages(args) => images::build(args),
    }
}

/// Returns the root of the repository that this program was compiled from.
fn repository() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map(PathBuf::from).unwrap_or(own)
}
