// Builds the page anew, and fails when what is checked in differs.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const fresh = mkdtempSync(join(tmpdir(), "studio-"));

function files(folder) {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(names.map((entry) => {
    const path = join(entry.parentPath, entry.name);
    return [relative(folder, path), readFileSync(path)];
  }));
}

try {
  const built = spawnSync(process.execPath, [join(root, "node_modules/vite/bin/vite.js"), "build", "--outDir", fresh, "--emptyOutDir", "--logLevel", "warn"], { cwd: root, stdio: "inherit" });
  if (built.status !== 0) process.exit(built.status ?? 1);
  const [old, now] = [files(join(root, "dist")), files(fresh)];
  const stale = [...new Set([...old.keys(), ...now.keys()])].filter((name) => !old.get(name)?.equals(now.get(name) ?? Buffer.alloc(0)));
  if (stale.length) {
    console.error(`packages/studio/dist is stale: ${stale.join(", ")}; run npm run build in packages/studio`);
    process.exit(1);
  }
  console.log(`packages/studio/dist is what its source says, ${now.size} files`);
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
