// Validates the description that a server gives of itself, generates a client from it, compiles
// smoke.ts against that client with strict types, and runs it. Usage: node check.mjs URL TOKEN FOLDER
import { copyFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import SwaggerParser from "@apidevtools/swagger-parser";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const [url, token, folder] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));

const answer = await fetch(`${url}/openapi.json`, { headers: { authorization: `Bearer ${token}` } });
const description = await answer.json();
// The validator resolves references in place, so it gets a copy.
await SwaggerParser.validate(structuredClone(description));
console.log("the description is valid");

symlinkSync(join(here, "node_modules"), join(folder, "node_modules"));
writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
writeFileSync(join(folder, "api.ts"), astToString(await openapiTS(description)));
copyFileSync(join(here, "smoke.ts"), join(folder, "smoke.ts"));
const program = ts.createProgram([join(folder, "smoke.ts")], {
  strict: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  types: [],
});
const compiled = program.emit();
const problems = [...ts.getPreEmitDiagnostics(program), ...compiled.diagnostics];
if (problems.length > 0) {
  console.error(ts.formatDiagnostics(problems, ts.createCompilerHost({})));
  process.exit(1);
}
console.log("the client is compiled");

const { smoke } = await import(pathToFileURL(join(folder, "smoke.js")).href);
await smoke(url, token);
console.log("the client works");
