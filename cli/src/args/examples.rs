//! What the help of a command ends with.

pub(super) const JOIN_EXAMPLES: &str = "Examples:
  # Join the cluster of a kubeconfig as member1
  kubectl mcs join member1 --member-kubeconfig ~/.kube/member1

  # One kubeconfig with several contexts; the hub reaches the member at another address than this machine does
  kubectl mcs join member2 --member-kubeconfig ~/.kube/config --member-context prod-2 --api-endpoint https://10.0.0.2:6443

  # Say where it is, where its nodes do not
  kubectl mcs join member1 --member-kubeconfig ~/.kube/member1 --region eu-west-1 --zone eu-west-1a,eu-west-1b

  # Its pods are not reachable from clusters of other networks; those reach it by ports of its nodes
  kubectl mcs join edge1 --member-kubeconfig ~/.kube/edge1 --network edge --reach node-ports

  # The hub cannot dial it: an agent in the member connects to causeway-tunnel of the hub
  kubectl mcs join edge1 --member-kubeconfig ~/.kube/edge1 --pull --tunnel tunnel.example

  # Nobody reaches it from here: a file by which it enrols, good once and for ten minutes, to be applied there
  kubectl mcs join edge1 --pull --tunnel tunnel.example -o yaml > edge1.yaml

  # Keep the objects in git: those of the member, and those of the hub without the token
  kubectl mcs join member1 --member-kubeconfig ~/.kube/member1 --dry-run=client --only=member -o yaml > member1.yaml
  kubectl mcs join member1 --member-kubeconfig ~/.kube/member1 --dry-run=client --only=hub -o yaml > hub-member1.yaml

A dry run reads both clusters and changes neither. So there is no token yet: it prints the command that copies it to the hub, once the objects are applied.";

pub(super) const UNJOIN_EXAMPLES: &str = "Examples:
  # Show what would be deleted
  kubectl mcs unjoin member1 --member-kubeconfig ~/.kube/member1 --dry-run=client

  # Remove member1, and causeway's account from it
  kubectl mcs unjoin member1 --member-kubeconfig ~/.kube/member1

Refuses the kubeconfig of a cluster that is joined under another name. An interrupted run can be repeated.";

pub(super) const STATUS_EXAMPLES: &str = "Examples:
  # Members, and the services of every namespace
  kubectl mcs status -A

  # In a script: wait until Service shop/foo can be reached, at most two minutes
  kubectl mcs status foo -n shop --wait --timeout 2m

  # Watch what changes
  kubectl mcs status -A -w

  # As a stream of objects: the services that are not ready any more
  kubectl mcs status -A -w -o json | jq 'select(.kind == \"Service\" and .object.ready == false)'

Exports and imports are read from the members, with the credentials that the hub stores for each. Members that do not \
answer are named. Exports that disagree (CONFLICT) are served by the rules of the Multi-Cluster Services API, so they count as healthy. \
A service that Karmada's own controllers manage (ManagedByKarmada) is healthy if the members hold every ready endpoint.

Required rights on the hub: list MultiClusterServices; to show members, list Clusters; to show exports, get the Secrets of the members. With \
--watch, watch the first two, too.";

pub(super) const EXPLAIN_EXAMPLES: &str = "Examples:
  # Show which endpoints of Service shop/foo reach which clusters, and how to fix those that do not
  kubectl mcs explain foo -n shop

  # Show every endpoint on its own line
  kubectl mcs explain foo -n shop --endpoints

  # Read a member of which the hub stores no token by your own kubeconfig
  kubectl mcs explain foo -n shop --member-kubeconfig edge1=$HOME/.kube/edge1

Reads the hub, and the members with the credentials that the hub stores for each, and changes nothing. Required rights on the hub: list \
MultiClusterServices, get Services and the Namespace itself, list Clusters, get the Secrets of the members. Optional: get namespace kube-system \
and the Lease of the controller; on Karmada list Works and get ResourceBindings; for names in DNS list dnsendpoints.externaldns.k8s.io \
and MultiClusterServices in all namespaces.

Exit code: 0 every ready endpoint is in every consumer, and no problem is known; 1 otherwise; 2 wrong usage; \
3 the hub cannot be reached, or only members, a Namespace or names that could not be read are in question.";

pub(super) const DRAIN_EXAMPLES: &str = "Examples:
  # Show which services would lose member1
  kubectl mcs drain member1 --dry-run

  # Before maintenance: wait until no other cluster sends traffic there through causeway
  kubectl mcs drain member1 --wait

  # Use it again
  kubectl mcs drain member1 --undo

Works for unreachable clusters, too. Sets the annotation mcs.causeway.dev/withdraw on the Cluster; --undo removes it. What the cluster consumes, \
and its own Services and pods, stay as they are. Required rights on the hub: list and patch Clusters; to show what is affected, list \
MultiClusterServices; for --wait, get namespace kube-system and the Secrets of the members.";

pub(super) const CONFIRM_DELETIONS_EXAMPLES: &str = "Examples:
  # Show how many deletions are suspended
  kubectl mcs confirm-deletions member1 --dry-run

  # Half of the services were deleted on purpose: withdraw them now
  kubectl mcs confirm-deletions member1 --wait

When a list of a cluster lacks more than ten objects and a fifth of what was there, the controller suspends their deletions until a second \
list, half a minute later and over a new connection, lacks them too. This requests that list at once; what it lacks is deleted. Sets the \
annotation mcs.causeway.dev/confirm-deletions on the Cluster to the time; later deletions are suspended again. Required rights on the hub: \
get and patch Clusters; for --wait, watch them too.

Exit code: 0 no deletions are suspended, or they were confirmed; 1 still suspended after --timeout, or the cluster is not joined; \
2 wrong usage; 3 the hub cannot be reached.";

pub(super) const CHECK_EXAMPLES: &str = "Examples:
  # Check an installation
  kubectl mcs check

  # Show only the problems
  kubectl mcs check -o json | jq '.checks[] | select(.state == \"Unhealthy\")'

Checks the CRDs, the registration of the webhook, its certificate and endpoints, the Deployments in causeway-system, the Lease of the \
controller, the rights of both accounts and the Clusters, and has the hub create a MultiClusterService in a dry run. Changes nothing. \
What you may not read is Unknown; a part that does not apply is Skipped.

Exit code: 0 no problem is known; 1 a check is Unhealthy; 2 wrong usage; 3 the hub cannot be reached, or a check is Unknown.";

pub(super) const COMPLETION_EXAMPLES: &str = "Examples:
  # Complete kubectl mcs, where kubectl itself is completed: this program under another name in the PATH
  sudo ln -s \"$(command -v kubectl-mcs)\" /usr/local/bin/kubectl_complete-mcs

  # Complete kubectl-mcs in this shell
  source <(kubectl mcs completion bash)

kubectl runs kubectl_complete-mcs to complete the words after kubectl mcs: commands, flags, their values, and the names of contexts, \
namespaces, Clusters and MultiClusterServices. These are read with your rights; where the hub does not answer within two seconds, no name is offered.";
