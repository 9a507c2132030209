// Builds the page from src/ into dist/, which the program embeds. `--check` writes nothing, and says what of dist/ is not what the
// sources give. The same sources and the same package-lock.json give the same bytes.
import { build } from "esbuild";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");

/** The packages that the bundle holds, by the files that went into it. */
async function packages(metafile) {
  const names = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const found = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) names.add(found[1]);
  }
  return Promise.all([...names].sort().map(describe));
}

/** A package's name, version and licence, and the text that it asks to be kept. */
async function describe(name) {
  const directory = join(here, "node_modules", name);
  const { version, license, repository } = JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
  if (!["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD"].includes(license)) {
    throw new Error(`${name} ${version} is under ${license}, which the page may not hold`);
  }
  const file = (await readdir(directory)).find((one) => /^licen[cs]e/i.test(one));
  if (!file) throw new Error(`${name} ${version} brings no text of its licence`);
  const text = (await readFile(join(directory, file), "utf8")).replaceAll("\r\n", "\n").trim();
  const source = (repository?.url ?? repository ?? "").replace(/^git\+/, "");
  return { name, version, license, source, text };
}

/** Each package with its licence, in words that the licences of the programs use too. */
function licences(all) {
  const one = ({ name, version, license, source, text }) => `${name} ${version}\n${license}, ${source}\n\n${text}\n`;
  return all.map(one).join("\n\n");
}

async function files() {
  const result = await build({
    absWorkingDir: here,
    entryPoints: ["src/main.tsx"],
    bundle: true,
    minify: true,
    format: "iife",
    target: ["es2022"],
    charset: "utf8",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    metafile: true,
    write: false,
    logLevel: "warning",
  });
  const style = await build({
    absWorkingDir: here,
    entryPoints: ["src/style.css"],
    bundle: true,
    minify: true,
    target: ["chrome123", "firefox120", "safari17.5"],
    write: false,
    logLevel: "warning",
  });
  const held = await packages(result.metafile);
  const notices = licences(held);
  return {
    "index.html": await readFile(join(here, "src/index.html"), "utf8"),
    "favicon.svg": await readFile(join(here, "src/favicon.svg"), "utf8"),
    "app.js": `/*!\n${notices.replaceAll("*/", "* /")}*/\n${result.outputFiles[0].text}`,
    "style.css": style.outputFiles[0].text,
    "licenses.json": `${JSON.stringify(held, null, 2)}\n`,
  };
}

async function check(made) {
  const differ = [];
  for (const [name, text] of Object.entries(made)) {
    const kept = await readFile(join(dist, name), "utf8").catch(() => "");
    if (kept !== text) differ.push(`cli/ui/dist/${name}`);
  }
  for (const name of await readdir(dist).catch(() => [])) {
    if (!(name in made)) differ.push(`cli/ui/dist/${name}`);
  }
  if (differ.length > 0) {
    console.error(`not what cli/ui/src gives: ${differ.join(", ")}; run: make ui`);
    process.exitCode = 1;
  }
}

const made = await files();
if (process.argv.includes("--check")) {
  await check(made);
} else {
  await mkdir(dist, { recursive: true });
  await Promise.all(Object.entries(made).map(([name, text]) => writeFile(join(dist, name), text)));
  const sizes = Object.entries(made).map(([name, text]) => `${name} ${Math.ceil(Buffer.byteLength(text) / 1024)} KiB`);
  console.log(sizes.join(", "));
}
