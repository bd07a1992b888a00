// Bundles what cases.html uses of NiiVue into nnunet_dro/viewer/assets, with its version, hash and licences.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const assets = join(here, "..", "nnunet_dro", "viewer", "assets");
const modules = join(here, "node_modules");

const result = await build({
  entryPoints: [join(here, "entry.js")],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "niivue",
  target: "es2021",
  // The page may be read in any encoding by tools: only the licences hold letters outside ASCII.
  charset: "ascii",
  legalComments: "none",
  alias: { zarrita: join(here, "no-zarr.js") },
  metafile: true,
  write: false,
});

// Whatever a package's folder calls its licence; NiiVue's own is not in its package.
const licenceOf = (name) => {
  if (name === "@niivue/niivue") return readFileSync(join(here, "niivue-LICENSE.txt"), "utf8");
  const folder = join(modules, name);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence file: add its text here`);
  return readFileSync(join(folder, file), "utf8");
};
const named = Object.entries(Object.values(result.metafile.outputs)[0].inputs)
  .filter(([path, { bytesInOutput }]) => path.includes("node_modules/") && bytesInOutput > 0)
  .map(([path]) => path.split("node_modules/").at(-1).match(/^(?:@[^/]+\/)?[^/]+/)[0]);
const packages = [...new Set(named)].sort().map((name) => {
  const { version, license } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
  return { name, version, license };
});

const texts = packages.map(({ name, version, license }) => `${name} ${version} (${license})\n\n${licenceOf(name).trim()}`);
texts.push(
  "The typeface in NiiVue is Roboto, copyright Google Inc., licensed under the Apache License 2.0,\n" +
    "https://www.apache.org/licenses/LICENSE-2.0",
);
const notices = texts.join(`\n\n${"-".repeat(80)}\n\n`).replaceAll("\r\n", "\n") + "\n";
// The notices have to travel with the code, which every page contains.
const bundle = `/*!\n${notices.replaceAll("*/", "* /")}*/\n${result.outputFiles[0].text}`;
const sha256 = createHash("sha256").update(bundle).digest("hex");
const record = { version: packages.find(({ name }) => name === "@niivue/niivue").version, sha256, packages };

writeFileSync(join(assets, "niivue.min.js"), bundle);
writeFileSync(join(assets, "niivue.json"), JSON.stringify(record, null, 2) + "\n");
writeFileSync(join(assets, "THIRD_PARTY.txt"), notices);
console.log(`niivue.min.js: ${bundle.length.toLocaleString("en")} bytes, SHA-256 ${sha256}`);
