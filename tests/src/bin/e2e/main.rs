//! `make e2e`: causeway as people install it, on real nodes: a hub with two, two members with one
//! each. Images are pulled from a registry, programs run as pods, and pods of one cluster reach
//! pods of the others. member2 is of a network of its own: no route leads to its pods or from them.

mod admissions;
mod disruptions;
mod installed;
mod networks;
mod person;
mod processes;
mod tunnel;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use causeway_tests::machine;
use causeway_tests::{Cluster, Fleet};
use clap::{Parser, ValueEnum};

use crate::admissions::Admissions;
use crate::disruptions::Disruptions;
use crate::person::Person;
use crate::workloads::Workloads;

/// Runs causeway from images on real nodes, and looks at all that only pods can show
#[derive(Debug, Parser)]
struct Args {
    /// Directory of the images, as `make image` fills it
    images: PathBuf,
    /// Steps to play after the installation by Helm [default: all]
    #[arg(value_enum, value_name = "STEP")]
    steps: Vec<Step>,
}

/// What follows the installation by Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Restart, evict, drain and stop pods
    Disruptions,
    /// Compare NetworkPolicies with ports
    Policies,
    /// Install again, as README.md does
    Readme,
    /// Dial from pods what services lead to
    Verify,
    /// Reach pods of another network by node ports
    Networks,
    /// Install as README.md does, and reach the member of that network by an agent
    Tunnel,
}

/// The clusters, and a person who is allowed everything in them.
struct Clusters {
    fleet: Fleet,
    person: Person,
    begun: Instant,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(missing) = machine::prerequisites() {
        eprintln!("real nodes are not to be had here: {missing}");
        return ExitCode::FAILURE;
    }
    let clusters = Clusters::set(&args.images).await;
    clusters.play(&args.steps).await;
    let took = clusters.begun.elapsed().as_secs();
    drop(clusters);
    println!("\nAll of it took {took} s.\ne2e: ok");
    ExitCode::SUCCESS
}

impl Clusters {
    async fn set(images: &std::path::Path) -> Self {
        let begun = Instant::now();
        let fleet = Fleet::builder()
            .named_members(["member1", "member2"])
            .clusterset()
            .separate_network("member2")
            .nodes("hub", 2)
            .nodes("member1", 1)
            .nodes("member2", 1)
            .start()
            .await;
        let person = Person::new(&fleet);
        let clusters = Self {
            fleet,
            person,
            begun,
        };
        clusters.did("a hub with two nodes and two members with one each are ready");
        let pushed = clusters.person.pushes(images).await;
        clusters.did(&format!("images are pushed\n{}", pushed.trim_end()));
        clusters
    }

    fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    fn member(&self) -> &Cluster {
        self.fleet.member("member1")
    }

    /// Says what has been seen, and when.
    fn did(&self, what: &str) {
        let at = self.begun.elapsed().as_secs_f64();
        println!("{at:7.1} s  {}", what.replace('\n', "\n           "));
    }

    async fn play(&self, steps: &[Step]) {
        let plays = |step| steps.is_empty() || steps.contains(&step);
        installed::by_helm(self).await;
        let workloads = Workloads::start(self).await;
        workloads.reach_each_other(self).await;
        if plays(Step::Verify) {
            workloads.verify(self).await;
        }
        if plays(Step::Disruptions) {
            let admissions = Admissions::begin(self.hub()).await;
            let disruptions = Disruptions::of(self);
            disruptions.rolling_restart().await;
            disruptions.drain_of_each_node().await;
            admissions.all_answered(self).await;
            disruptions.budget_is_respected().await;
            disruptions.stopped_process_is_restarted().await;
        }
        if plays(Step::Policies) {
            installed::policies_let_in_what_is_served(self).await;
        }
        let by_tunnel = plays(Step::Tunnel);
        if plays(Step::Readme) || by_tunnel {
            installed::by_readme(self).await;
            workloads.reach_each_other(self).await;
        }
        if plays(Step::Networks) || by_tunnel {
            networks::reach_each_other(self).await;
        }
        if by_tunnel {
            tunnel::carries_a_member(self).await;
        }
    }
}
