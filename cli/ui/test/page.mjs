// The page in a real Chromium, against made-up data: npm test. One name behind it runs that part alone.
import { launch } from "./browser.mjs";
import { Fixture } from "./fixture.mjs";
import * as parts from "./parts.mjs";

const only = process.argv[2];
const chosen = Object.entries(parts).filter(([name]) => only === undefined || name === only);
if (chosen.length === 0) throw new Error(`there is no part ${only}: ${Object.keys(parts).join(", ")}`);
const browser = await launch();
console.log(`Chromium ${browser.version()}`);
try {
  for (const [name, part] of chosen) {
    const begun = Date.now();
    const fixture = new Fixture();
    try {
      await part(browser, fixture);
    } catch (error) {
      error.message = `${name}: ${error.message}`;
      throw error;
    } finally {
      await fixture.stop();
    }
    console.log(`ok ${name}, ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  }
} finally {
  await browser.close();
}
