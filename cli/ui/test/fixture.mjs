// A server that speaks as `kubectl mcs ui` does, with made-up data. By itself: `npm run fixture [small|large|hostile|nothing]`.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import * as data from "./data.mjs";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const TOKEN = "0123456789abcdef0123456789abcdef";

const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "Cache-Control": "no-store",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "X-Frame-Options": "DENY",
};

const FILES = {
  "": ["index.html", "text/html; charset=utf-8"],
  "app.js": ["app.js", "text/javascript; charset=utf-8"],
  "style.css": ["style.css", "text/css; charset=utf-8"],
  "favicon.svg": ["favicon.svg", "image/svg+xml"],
};

/** Interval between two events that only show that the connection works. */
const ALIVE_MS = 15_000;

function send(response, name, value) {
  response.write(`event: ${name}\ndata: ${JSON.stringify(value)}\n\n`);
}

export class Fixture {
  /** What each connection to the events gets first. */
  state;
  port = 0;
  /** Paths of all POST requests. */
  posted = [];
  /** Answer to a POST that is refused. */
  refusal = "";
  /** Whether it sends nothing by itself, and does not answer requests for streams: a tunnel that drops packets. */
  silent = false;
  #timer;
  #server;
  #streams = new Set();
  #explains = new Map();

  constructor(state) {
    this.state = state;
  }

  get url() {
    return `http://127.0.0.1:${this.port}/${TOKEN}/`;
  }

  async start() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    await new Promise((resolve) => this.#server.listen(this.port, "127.0.0.1", resolve));
    this.port = this.#server.address().port;
    this.#timer = setInterval(() => this.silent || this.alive(), ALIVE_MS);
    return this;
  }

  /** Ends it with all its connections, as a program that is ended. */
  async stop() {
    clearInterval(this.#timer);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    this.#streams.clear();
    this.#explains.clear();
  }

  /** Sends the event without content to all pages. */
  alive() {
    for (const stream of this.#all()) stream.write("event: alive\ndata:\n\n");
  }

  /** Number of open streams. */
  get streams() {
    return this.#all().length;
  }

  #all() {
    return [this.#streams, ...this.#explains.values()].flatMap((one) => [...one]);
  }

  /** Begins again with other data, for pages that are open too. */
  reset(state) {
    this.state = state;
    for (const stream of this.#streams) this.#snapshot(stream);
  }

  /** Says that something changed; returns when, in milliseconds since 1970. */
  change(change) {
    const replace = (all, key, added = [], removed = []) => {
      const values = new Map(all.map((one) => [one[key], one]));
      for (const one of added) values.set(one[key], one);
      for (const one of removed) values.delete(one);
      return [...values.values()];
    };
    this.state = {
      ...this.state,
      server: change.server ?? this.state.server,
      clusters: replace(this.state.clusters, "name", change.clusters, change.removedClusters),
      services: replace(this.state.services, "key", change.services, change.removedServices),
    };
    for (const stream of this.#streams) send(stream, "change", change);
    return Date.now();
  }

  /** Says what a service has become; without an explanation it is gone. */
  explain(name, explanation) {
    if (explanation) this.state.explanations.set(name, explanation);
    else this.state.explanations.delete(name);
    for (const stream of this.#explains.get(name) ?? []) this.#explanation(stream, name);
    return Date.now();
  }

  #snapshot(stream) {
    const { server, clusters, services } = this.state;
    send(stream, "snapshot", { server, clusters, services });
  }

  #explanation(stream, name) {
    const found = this.state.explanations.get(name);
    if (found) send(stream, "explain", found);
    else send(stream, "gone", {});
  }

  async #answer(request, response) {
    const path = request.url.split("?")[0];
    const prefix = `/${TOKEN}/`;
    if (!path.startsWith(prefix)) {
      response.writeHead(403, HEADERS).end("no token\n");
      return;
    }
    const rest = path.slice(prefix.length);
    const file = FILES[rest];
    if (file) {
      const [name, type] = file;
      response.writeHead(200, { ...HEADERS, "Content-Type": type }).end(await readFile(join(dist, name)));
      return;
    }
    if (request.method === "POST") {
      this.posted.push(rest);
      response.writeHead(this.refusal === "" ? 202 : 409, HEADERS).end(this.refusal);
      return;
    }
    const one = /^api\/services\/([^/]+)\/([^/]+)\/events$/.exec(rest);
    if (rest !== "api/events" && !one) {
      response.writeHead(404, HEADERS).end("not found\n");
      return;
    }
    if (this.silent) return;
    response.writeHead(200, { ...HEADERS, "Content-Type": "text/event-stream" });
    const all = one ? this.#subscribers(`${decodeURIComponent(one[1])}/${decodeURIComponent(one[2])}`) : this.#streams;
    all.add(response);
    request.on("close", () => all.delete(response));
    if (one) this.#explanation(response, `${decodeURIComponent(one[1])}/${decodeURIComponent(one[2])}`);
    else this.#snapshot(response);
  }

  #subscribers(name) {
    const all = this.#explains.get(name) ?? new Set();
    this.#explains.set(name, all);
    return all;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const fixture = await new Fixture(data[process.argv[2] ?? "small"]()).start();
  console.log(fixture.url);
}
