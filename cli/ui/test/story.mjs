// Watches a page of the real `kubectl mcs ui` for whoever drives the story: a line of JSON in, lines of JSON out.
//
// in:  {"hash": "#/table", "selector": "main", "text": "shop/foo", "absent": false, "picture": "name"}
// out: {"watching": true} once the page is watched, then {"painted": milliseconds since 1970} once it says so, or says so no more.
//
// At the end of the input the page must never have been loaded again, and never have logged an error.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { launch, Watched } from "./browser.mjs";

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const browser = await launch();
try {
  const watched = await Watched.open(browser, process.argv[2]);
  await watched.settled();
  await watched.page.evaluate(() => {
    window.neverLoadedAgain = true;
  });
  for await (const line of createInterface({ input: process.stdin })) {
    const { hash, selector, text, absent = false, picture } = JSON.parse(line);
    if (hash !== undefined) await watched.go(hash);
    const painted = await watched.whenPainted(selector, text, absent);
    say({ watching: true });
    say({ painted: await painted.at() });
    if (picture) await watched.picture(picture);
  }
  assert.ok(await watched.page.evaluate(() => window.neverLoadedAgain), "the page was loaded again");
  watched.assertClean("a page without an error");
} finally {
  await browser.close();
}
