// Bundles the SQL editor into the static files of the service, with the licences of everything in the bundle.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const STATIC = "../src/setwise/service/pages/static";
const digest = createHash("sha256");
for (const name of ["package.json", "package-lock.json", "sql_editor.mjs"]) digest.update(readFileSync(name));
const banner = `/* Built by make editor; do not edit. Sources: editor/, sha256 ${digest.digest("hex")}. Licences: sql_editor.LICENSES.txt */`;
const made = await build({
  entryPoints: ["sql_editor.mjs"], bundle: true, minify: true, format: "esm", target: "es2022", charset: "utf8",
  legalComments: "none", banner: { js: banner }, outfile: `${STATIC}/sql_editor.js`, metafile: true,
});
const packages = new Set(Object.keys(made.metafile.inputs)
  .map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
const texts = [...packages].sort().map((name) => {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  const file = readdirSync(`node_modules/${name}`).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${version} (${license})\n\n${readFileSync(`node_modules/${name}/${file}`, "utf8").trim()}\n`;
});
writeFileSync(`${STATIC}/sql_editor.LICENSES.txt`, texts.join(`\n${"-".repeat(72)}\n\n`));
