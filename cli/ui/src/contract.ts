/** What the server of `kubectl mcs ui` sends, as it sends it. Every string may come from a member: it is only ever shown as text. */

export interface Server {
  version: string;
  /** The kubeconfig's context, or empty. */
  context: string;
  /** The URL of the hub. */
  hub: string;
  /** Where only one namespace is shown. */
  namespace?: string;
  /** Whether everything was read once. */
  synced: boolean;
  /** Whether the hub's watches stand. */
  connected: boolean;
  /** RFC 3339. */
  disconnectedSince?: string;
  disconnectedWhy?: string;
  /** What is wrong with causeway itself. */
  problem?: string;
  remedy?: string;
  /** Runs of verify that the page starts. Absent without `--verify`. */
  verify?: Verify;
}

export interface Verify {
  running?: { service: string; since: string; step: string };
  /** The last run. */
  last?: VerifyRun;
}

export interface VerifyRun {
  /** `shop/foo`. */
  service: string;
  /** Start of the run, RFC 3339. The result that the run stores on the hub is not older. */
  time: string;
  /** Whether every path was tried and works. */
  works: boolean;
  /** Whether a path is known to fail. */
  fails: boolean;
  /** Result, or the error that ended the run. */
  summary: string;
  /** Reasons that some paths were not tried. */
  untried: string[];
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  /** RFC 3339. */
  since?: string;
}

/** Something that is wrong, and what to type. */
export interface Problem {
  reason: string;
  message: string;
  remedy?: string;
}

export interface Cluster {
  name: string;
  /** What the hub says: `Ready`, `NotReady`, `Pending` or `Deleting`. */
  state: string;
  reason: string;
  message: string;
  /** RFC 3339. */
  since?: string;
  region?: string;
  zones: string[];
  /** Absent for the network of all clusters without a name. */
  network?: string;
  /** How clusters of other networks reach it, if they do. */
  reach?: string;
  version: string;
  apiEndpoint: string;
  syncMode: string;
  /** Whether nothing that it provides is used. */
  drained: boolean;
  /** Message about the deletions that the controller suspends in it. */
  deletionsSuspended?: string;
  /** Whether the watches of the program itself stand. */
  connected: boolean;
  /** RFC 3339; absent until it was tried. */
  disconnectedSince?: string;
  disconnectedWhy?: string;
  conditions: Condition[];
  /** Reports of causeway-agent in it on paths to other clusters. A path without one is unknown. Absent if it reports none. */
  paths?: PathReport[];
}

export interface PathReport {
  /** Cluster whose endpoints are probed. */
  cluster: string;
  /** `good` or `bad`. */
  path: string;
  /** RFC 3339. */
  since: string;
}

export interface Provider {
  cluster: string;
  endpoints: number;
  ready: number;
  /** Way by which clusters of other networks reach it, if the service or its Cluster declares one. */
  reach?: string;
  problem?: Problem;
}

export interface Consumer {
  cluster: string;
  /** Those of all providers that are in it. */
  endpoints: number;
  /** Those of them that are ready. */
  ready: number;
  /** Ready endpoints that should be in it and are not. */
  missing: number;
  /** Those that are missing, by provider. Absent if none is. */
  missingOf?: Record<string, number>;
  /** Those that get traffic only when nearer ones fail. */
  standby: number;
  /** Which providers serve it, in words. */
  serving?: string;
  standbyFrom?: string;
  problem?: Problem;
  /** Providers with a problem in it. Absent if the problem concerns all of them. */
  problemOf?: string[];
}

export interface Service {
  /** `MultiClusterService/shop/foo` or `ServiceExport/shop/foo`. */
  key: string;
  kind: string;
  namespace: string;
  name: string;
  /** `Ready`, `NotReady`, `Pending` or `Deleting`. */
  state: string;
  reason: string;
  message: string;
  /** The name by which clients reach it, or empty. */
  address: string;
  /** RFC 3339. */
  created?: string;
  ports: string[];
  conditions: Condition[];
  providers: Provider[];
  consumers: Consumer[];
  /** Of the service as a whole. */
  problems: Problem[];
}

export interface Snapshot {
  server: Server;
  clusters: Cluster[];
  services: Service[];
}

/** Whole new values, by name or key. */
export interface Change {
  server?: Server;
  clusters?: Cluster[];
  services?: Service[];
  removedClusters?: string[];
  removedServices?: string[];
}

/** As `kubectl mcs explain NAME -o json` prints it. */
export interface Explanation {
  namespace: string;
  name: string;
  ready: boolean;
  diagnoses: Problem[];
  exposures: Exposure[];
  /** Last result of `kubectl mcs verify`. */
  verified?: Verified;
  /** Cause why that result is unknown. */
  verifiedUnknown?: string;
}

export interface Verified {
  /** RFC 3339. */
  time: string;
  summary: string;
  /** Number of parts that the run did not try. Absent for none. */
  untried?: number;
  results: Reached[];
}

/** Paths from one origin to one destination. */
export interface Reached {
  /** Outcome of the first path that fails. */
  problem?: string;
  /** Number of paths with an unknown outcome. Absent for none. */
  unknown?: number;
}

export interface Exposure {
  /** `Native` or `ClusterSet`. */
  exposure: string;
  address: string;
  diagnoses: Problem[];
  consumers: ExposureConsumer[];
  providers: ExposureProvider[];
}

export interface Tier {
  tier: string;
  clusters: string[];
  ready: number;
  endpoints: number;
}

export interface ExposureConsumer {
  cluster: string;
  servingFrom?: Tier[];
  standby?: Tier[];
  diagnoses: Problem[];
}

export interface ExposureProvider {
  cluster: string;
  diagnoses: Problem[];
  endpoints: Endpoint[];
}

export interface Endpoint {
  addresses: string[];
  slice?: string;
  node?: string;
  zone?: string;
  ready: boolean;
  serving: boolean;
  terminating: boolean;
  consumers: EndpointConsumer[];
}

export interface EndpointConsumer extends Problem {
  cluster: string;
  /** `Present` or `Missing`. */
  state: string;
  slice?: string;
}
