// What the fixture server says: a small fleet with everything that can be seen, a large one, and one whose names are hostile.

const ago = (minutes) => new Date(Date.now() - minutes * 60_000).toISOString();

export const SERVER = {
  version: "0.1.0-dev",
  context: "hub",
  hub: "https://hub.example:6443",
  synced: true,
  connected: true,
};

export function cluster(name, more = {}) {
  const ready = { type: "Ready", status: "True", reason: "Synced", message: "all watches stand", since: ago(190) };
  return {
    name,
    state: "Ready",
    reason: "Synced",
    message: "all watches stand",
    since: ago(190),
    zones: [],
    version: "v1.36.1",
    apiEndpoint: `https://${name}.example:6443`,
    syncMode: "Push",
    drained: false,
    connected: true,
    conditions: [
      ready,
      { type: "ClusterSet", status: "True", reason: "Served", message: "ServiceExports and ServiceImports are served", since: ago(190) },
      { type: "DeletionsSuspended", status: "False", reason: "NoneMissing", message: "", since: ago(190) },
    ],
    ...more,
  };
}

export function disconnected(one, why = "connect: connection refused", minutes = 4) {
  const message = `the API server of ${one.name} does not answer: ${why}; what it gave is kept`;
  const conditions = one.conditions.map((condition) =>
    condition.type === "Ready" ? { ...condition, status: "False", reason: "Unreachable", message, since: ago(minutes) } : condition,
  );
  return {
    ...one,
    state: "NotReady",
    reason: "Unreachable",
    message,
    since: ago(minutes),
    connected: false,
    disconnectedSince: ago(minutes),
    disconnectedWhy: why,
    conditions,
  };
}

export function service(namespace, name, providers, consumers, more = {}) {
  const kind = more.kind ?? "MultiClusterService";
  const given = providers.map(([cluster, ready, endpoints = ready, problem]) => ({ cluster, endpoints, ready, problem }));
  const all = given.reduce((sum, one) => sum + one.endpoints, 0);
  const ready = given.reduce((sum, one) => sum + one.ready, 0);
  const suffix = kind === "ServiceExport" ? "svc.clusterset.local" : "svc";
  return {
    key: `${kind}/${namespace}/${name}`,
    kind,
    namespace,
    name,
    state: "Ready",
    reason: "Synced",
    message: `${ready} endpoints in ${consumers.length} consumers`,
    address: `${name}.${namespace}.${suffix}`,
    created: ago(75),
    ports: ["http 80"],
    conditions:
      kind === "ServiceExport" ? [] : [{ type: "Ready", status: "True", reason: "Synced", message: "", since: ago(70) }],
    providers: given,
    consumers: consumers.map((one) => ({ cluster: one, endpoints: all, ready, missing: 0, standby: 0 })),
    problems: [],
    ...more,
  };
}

/** The explanation of a service, in which all is where it should be but for what `change` makes of it. */
export function explanation(of, change = () => {}) {
  let last = 0;
  const providers = of.providers.map(({ cluster, endpoints, ready }) => ({
    cluster,
    diagnoses: [],
    endpoints: Array.from({ length: endpoints }, (_, at) => ({
      addresses: [`10.${Math.floor(last / 200)}.${1 + (last++ % 200)}.${10 + at}`],
      slice: `${of.name}-x7k2p`,
      node: `node-${1 + (at % 3)}`,
      zone: `zone-${"abc"[at % 3]}`,
      ready: at < ready,
      serving: at < ready,
      terminating: false,
      consumers: of.consumers
        .filter((one) => one.cluster !== cluster)
        .map((one) => ({
          cluster: one.cluster,
          state: "Present",
          slice: `${cluster}-${of.name}-x7k2p`,
          reason: at < ready ? "Copied" : "NotReady",
          message: at < ready ? "copied" : `it is in ${one.cluster}, and gets no traffic for it is not ready`,
        })),
    })),
  }));
  const consumers = of.consumers.map((one) => ({ cluster: one.cluster, diagnoses: [] }));
  const exposure = {
    exposure: of.kind === "ServiceExport" ? "ClusterSet" : "Native",
    address: of.address,
    diagnoses: [],
    consumers,
    providers,
  };
  const made = { namespace: of.namespace, name: of.name, ready: true, diagnoses: [], exposures: [exposure] };
  change(made, exposure);
  return made;
}

const FOREIGN = {
  reason: "ForeignService",
  message: "Service shop/cart of member3 is somebody else's and lacks http 80/TCP; it has other 81/TCP",
  remedy:
    "in member3: kubectl -n shop edit service cart to have the ports; or, if nobody needs it: kubectl -n shop delete service cart",
};

/** Five clusters in two regions and one without, seven services in every state. */
export function small() {
  const clusters = [
    cluster("member1", { region: "eu-west", zones: ["eu-west-1a", "eu-west-1b"] }),
    cluster("member2", { region: "eu-west", zones: ["eu-west-1a"], paths: [{ cluster: "member1", path: "good", since: ago(190) }] }),
    cluster("member3", { region: "us-east", zones: ["us-east-1c"], paths: [{ cluster: "member4", path: "bad", since: ago(7) }] }),
    cluster("member4", { region: "us-east", network: "edge", reach: "node-ports" }),
    cluster("edge", { version: "v1.34.9", drained: true }),
  ];
  const foo = service("shop", "foo", [["member1", 3]], ["member2", "member3"]);
  const cart = service("shop", "cart", [["member2", 2, 4]], ["member1", "member3"], {
    state: "NotReady",
    reason: "ServiceConflict",
    message: FOREIGN.message,
    ports: ["http 80", "metrics 9090"],
  });
  cart.consumers[1] = { ...cart.consumers[1], endpoints: 0, ready: 0, missing: 2, missingOf: { member2: 2 }, problem: FOREIGN };
  const near = service("shop", "checkout", [["member1", 2], ["member3", 2]], ["member2", "member4"]);
  near.consumers[0] = {
    ...near.consumers[0],
    standby: 2,
    serving: "region (member1): 2 of 2 ready",
    standbyFrom: "any (member3): 2 of 2 ready",
  };
  const services = [
    foo,
    cart,
    near,
    service("shop", "foo", [["member1", 3]], ["member2", "member3", "member4"], { kind: "ServiceExport", ports: ["http 80"] }),
    service("data", "postgres", [["member3", 1]], ["member4"], { ports: ["5432"], created: ago(60 * 24 * 12) }),
    service("data", "kafka", [["member4", 12]], ["member1", "member2", "member3"], { ports: [] }),
    service("jobs", "runner", [["member2", 0, 2]], ["member4"], {
      state: "Pending",
      reason: "NoEndpoints",
      message: "no provider has a ready endpoint",
    }),
  ];
  services[5].providers[0].reach = "node-ports";
  const explanations = new Map(services.map((one) => [`${one.namespace}/${one.name}`, explanation(one)]));
  const both = explanation(foo);
  both.exposures.push(explanation(services[3]).exposures[0]);
  explanations.set("shop/foo", both);
  explanations.set("shop/cart", explanation(cart, (made, exposure) => {
    made.ready = false;
    exposure.consumers[1].diagnoses.push(FOREIGN);
    for (const one of exposure.providers[0].endpoints) {
      one.consumers = one.consumers.map((consumer) =>
        consumer.cluster === "member3" ? { cluster: "member3", state: "Missing", ...FOREIGN } : consumer,
      );
    }
  }));
  explanations.set("shop/checkout", explanation(near, (_, exposure) => {
    exposure.consumers[0].servingFrom = [{ tier: "region", clusters: ["member1"], ready: 2, endpoints: 2 }];
    exposure.consumers[0].standby = [{ tier: "any", clusters: ["member3"], ready: 2, endpoints: 2 }];
    for (const one of exposure.providers[1].endpoints) {
      const [first] = one.consumers;
      Object.assign(first, { reason: "Standby", message: "it is in member2 as a standby endpoint: nearer ones are ready" });
    }
  }));
  return { server: SERVER, clusters, services, explanations };
}

/** The next number of a sequence that is the same each time. */
function sequence(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** As many clusters, in regions of ten, and services as asked for. */
export function large(clusterCount = 100, serviceCount = 1_000) {
  const next = sequence(1645);
  const regions = ["eu-west", "eu-north", "eu-south", "us-east", "us-west", "ap-south", "ap-east", "sa-east", "af-south", "me-central"];
  const name = (at) => `member${at + 1}`;
  const clusters = Array.from({ length: clusterCount }, (_, at) =>
    cluster(name(at), { region: regions[Math.floor(at / (clusterCount / regions.length))] }),
  );
  clusters[7] = disconnected(clusters[7]);
  clusters[42] = disconnected(clusters[42], "i/o timeout", 61);
  const services = Array.from({ length: serviceCount }, (_, at) => {
    const home = next(clusterCount);
    const providers = [[name(home), 1 + next(8)]];
    if (at % 3 === 0) providers.push([name((home + 1 + next(20)) % clusterCount), 1 + next(4)]);
    const consumers = new Set();
    while (consumers.size < 3 + (at % 3)) consumers.add(name((home + 1 + next(clusterCount - 1)) % clusterCount));
    const broken = at % 97 === 0 ? { state: "NotReady", reason: "NoEndpoints", message: "no provider has a ready endpoint" } : {};
    if (at % 97 === 0) providers.forEach((one) => one.splice(1, 1, 0, one[1]));
    return service(`team${at % 40}`, `service${at}`, providers, [...consumers], broken);
  });
  return { server: SERVER, clusters, services, explanations: new Map(services.map((one) => [`${one.namespace}/${one.name}`, explanation(one)])) };
}

export const HOSTILE = `<img src=x onerror="alert('mine')">`;
const SCRIPT = `"><script src="https://attacker.example/x.js"></script><a href="javascript:alert(1)">x</a>`;

/** Every string that a value holds, made hostile; keys stay, and so do states, times and what the page itself sends. */
function poisoned(value, text) {
  const kept = new Set(["state", "kind", "key", "exposure", "created", "since", "disconnectedSince", "status"]);
  if (Array.isArray(value)) return value.map((one) => poisoned(one, text));
  if (value === null || typeof value !== "object") return typeof value === "string" ? `${text} ${value}` : value;
  const entries = Object.entries(value).map(([key, one]) => [key, kept.has(key) && typeof one === "string" ? one : poisoned(one, text)]);
  return Object.fromEntries(entries);
}

/** A member that says what it likes, in each field. */
export function hostile() {
  const { clusters, services, explanations } = small();
  const text = `${HOSTILE} ${SCRIPT}`;
  const bad = poisoned({ clusters: [...clusters.slice(1), disconnected(clusters[0])], services }, text);
  const all = [...explanations.values()].map((one) => poisoned(one, text));
  for (const one of bad.services) one.key = `${one.kind}/${one.namespace}/${one.name}`;
  return { server: { ...SERVER, problem: text, remedy: text }, ...bad, explanations: new Map(all.map((one) => [`${one.namespace}/${one.name}`, one])) };
}

export function nothing() {
  return { server: SERVER, clusters: [], services: [], explanations: new Map() };
}
