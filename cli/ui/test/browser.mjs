// A real Chromium, and what is asked of every page in it.
import assert from "node:assert/strict";
import { accessSync, constants, mkdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
/** Where pictures are kept. */
export const pictures = process.env.UI_PICTURES ?? join(root, "target/ui");
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const WIDE = { width: 1280, height: 800 };
export const NARROW = { width: 360, height: 740 };
/** How long a busy machine may take for anything. */
const PATIENCE_MS = 60_000;

/** The system's Chromium: its own name differs from one system to the next. */
function executable() {
  const names = ["chromium", "chromium-browser", "google-chrome"];
  for (const directory of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of names) {
      try {
        accessSync(join(directory, name), constants.X_OK);
        return join(directory, name);
      } catch {
        // Not there.
      }
    }
  }
  throw new Error(`none of ${names.join(", ")} is in PATH`);
}

export async function launch() {
  mkdirSync(pictures, { recursive: true });
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? executable(),
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"],
    timeout: PATIENCE_MS,
  });
}

/** A page that must not log an error, open a dialog or ask another server. */
export class Watched {
  errors = [];
  /** Lines of the console that are expected for now. */
  expected = undefined;

  static async open(browser, url, options = {}) {
    const context = await browser.newContext({ viewport: WIDE, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const watched = new Watched();
    watched.context = context;
    watched.page = await context.newPage();
    const { page } = watched;
    const base = new URL(url).origin;
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") watched.#error(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => watched.#error(`exception: ${error.stack}`));
    page.on("dialog", (dialog) => {
      watched.#error(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      const asked = new URL(request.url());
      if (asked.protocol !== "data:" && asked.origin !== base) watched.#error(`request: ${request.url()}`);
    });
    await page.goto(url);
    return watched;
  }

  #error(text) {
    if (!this.expected?.test(text)) this.errors.push(text);
  }

  assertClean(what) {
    assert.deepEqual(this.errors, [], what);
  }

  async close() {
    await this.context.close();
  }

  /** Goes to a place of the page, without a reload. */
  async go(hash) {
    await this.page.evaluate((to) => {
      location.hash = to;
    }, hash);
    await this.settled();
  }

  /** Waits until what was asked for is drawn. */
  async settled() {
    await this.page.waitForFunction(() => document.querySelector("main")?.childElementCount > 0);
    await this.page.evaluate(
      () => new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(resolve)), 150)),
    );
  }

  /** Waits until a check holds in the page. */
  async becomes(check, argument) {
    await this.page.waitForFunction(check, argument);
  }

  async says(text) {
    await this.page.waitForFunction((wanted) => document.body.innerText.includes(wanted), text);
  }

  async saysNoMore(text) {
    await this.page.waitForFunction((wanted) => !document.body.innerText.includes(wanted), text);
  }

  async picture(name) {
    await this.page.screenshot({ path: join(pictures, `${name}.png`) });
  }

  /** What axe-core finds, in words. */
  async axe(where) {
    await this.page.evaluate(axe);
    const violations = await this.page.evaluate(async () => {
      const { violations: all } = await window.axe.run(document, { preload: false, resultTypes: ["violations"] });
      return all.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((one) => `${one.html} ${one.failureSummary}`).join(" | ")}`);
    });
    assert.deepEqual(violations, [], `axe-core, ${where}`);
  }

  /** At no width is there anything beside the window. */
  async assertFits(where) {
    const [content, width] = await this.page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(content <= width, `${where}: ${content} pixels wide in a window of ${width}`);
  }

  /**
   * When a selector holds a text, or holds it no more, painted: in milliseconds since 1970. The result is a promise within an
   * object, so that the watch is in place before the text is made to come.
   */
  async whenPainted(selector, text, absent = false) {
    await this.page.evaluate(
      ([where, wanted, not]) => {
        window.painted = new Promise((resolve) => {
          const is = () => [...document.querySelectorAll(where)].some((one) => one.textContent.includes(wanted)) !== not;
          const done = () => requestAnimationFrame(() => setTimeout(() => resolve(Date.now())));
          if (is()) return done();
          const observer = new MutationObserver(() => {
            if (!is()) return;
            observer.disconnect();
            done();
          });
          observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
          return undefined;
        });
      },
      [selector, text, absent],
    );
    return { at: () => this.page.evaluate(() => window.painted) };
  }
}
