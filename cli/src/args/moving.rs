//! What `adopt` and `hand-over` may be told.

use std::time::Duration;

use clap::Args;

use super::{DefaultWaitArgs, InsecureArgs, LeaseArgs, OutputArgs, duration};

pub(crate) const ADOPT_EXAMPLES: &str = "Examples:
  # See the commands that would move Service shop/foo from Karmada's controllers to causeway
  kubectl mcs adopt foo -n shop --dry-run

  # Move it, and wait until nothing of Karmada's is left of it
  kubectl mcs adopt foo -n shop

  # Move every service that Karmada carries or carried
  kubectl mcs adopt --all --timeout 5m

First start karmada-controller-manager with --feature-gates=MultiClusterService=false. Whether it is so is seen by an annotation on the \
MultiClusterService, mcs.causeway.dev/probe, that Karmada's controllers would answer. Then, in this order: the finalizers go off every Work of the \
service, so that Karmada deletes nothing in a member; the Works go; once causeway's copies hold every ready endpoint of a source, Karmada's \
EndpointSlice of that source goes from the consumer; Karmada's finalizer goes off the MultiClusterService. What is not replaced is left, and told. It may \
be interrupted at any point, and run again. Of a MultiClusterService that is being deleted, what is left of Karmada's goes, and so its deletion ends. Karmada \
goes on propagating the Service itself.

Each write is shown as the command that does the same. It is made with your own rights on the hub: list MultiClusterServices and Works, patch and \
delete Works, patch MultiClusterServices, get Services, list Clusters, get the Secrets of the members, by which these are reached, and namespace kube-system; and, to be \
told more, get Leases in causeway-system and karmada-system, and ResourceBindings.

Exit code: 0 it is adopted, or nothing is to be done; 1 it was refused, or part of it is left; 2 wrong usage; 3 the hub could not be asked.";

pub(crate) const HAND_OVER_EXAMPLES: &str = "Examples:
  # Give Service shop/foo to Karmada's controllers, and wait until nothing of causeway's is left of it
  kubectl mcs hand-over foo -n shop

  # See what holds it up
  kubectl mcs hand-over foo -n shop --wait=false

  # Give all of them to Karmada, before causeway is uninstalled
  kubectl mcs hand-over --all --timeout 10m

First start karmada-controller-manager with --feature-gates=MultiClusterService=true. Then Karmada collects and dispatches EndpointSlices, and \
causeway's controller withdraws each of its copies once Karmada's of the same source stands in the consumer. This waits for that, and takes causeway's finalizer off \
the MultiClusterService at the end. causeway's controller has to run until then.

It is done with your own rights on the hub: list and patch MultiClusterServices, list Works, get Services, list Clusters, get the Secrets of the \
members, by which these are reached, and namespace kube-system; and, to be told more, get Leases in causeway-system and karmada-system, and ResourceBindings.

Exit code: 0 nothing of causeway's is left of it in any member; 1 it was refused, or something is left; 2 wrong usage; 3 the hub could not be asked.";

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| wait.help("Wait until it is done; false: do what can be done now")))]
#[command(mut_arg("timeout", |timeout| timeout.help("How long to wait, for each service").default_value("2m")))]
#[command(mut_arg("allow_insecure_members", |allow| {
    allow.help("Read and write members whose certificate cannot be verified too, as a controller does that has this flag")
}))]
pub(crate) struct MoveArgs {
    /// Name of the MultiClusterService
    #[arg(required_unless_present = "all")]
    pub name: Option<String>,
    /// All of them, in every namespace unless --namespace is given, one after the other
    #[arg(long, conflicts_with = "name", env = "CAUSEWAY_ALL", hide_env = true)]
    pub all: bool,
    /// Only show what would be written; nothing is changed
    #[arg(long, env = "CAUSEWAY_DRY_RUN", hide_env = true)]
    pub dry_run: bool,
    #[command(flatten)]
    pub waiting: DefaultWaitArgs,
    /// How long to watch whether Karmada's controllers write
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration, env = "CAUSEWAY_OBSERVE", hide_env = true)]
    pub observe: Duration,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Command, CommandLine, MoveArgs};

    fn adopt(line: &str) -> MoveArgs {
        let words = "kubectl-mcs adopt"
            .split(' ')
            .chain(line.split_whitespace());
        match CommandLine::try_parse_from(words).expect(line).command {
            Command::Adopt(args) => args,
            other => panic!("not adopt: {other:?}"),
        }
    }

    #[test]
    fn it_waits_unless_told_otherwise() {
        for (line, wait) in [
            ("foo", true),
            ("foo --wait", true),
            ("--all --wait=true", true),
            ("foo --wait=false", false),
        ] {
            assert_eq!(adopt(line).waiting.wait, wait, "{line}");
        }
    }
}
