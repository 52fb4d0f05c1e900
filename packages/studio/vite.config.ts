import { fileURLToPath } from "node:url";

import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { type Plugin, defineConfig } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The server of `npm run dev`: run `helix dev` beside it. */
const server = process.env.HELIX_URL ?? "http://127.0.0.1:8787";
const routes = ["/api", "/agents", "/sessions", "/status", "/pending", "/sse", "/start", "/resume", "/submit-tool-result", "/interrupt", "/abort", "/healthz"];

/** Writes the list of the files that `crates/cli/src/page.rs` embeds, as a Rust expression. */
function listForRust(): Plugin {
  return {
    name: "list-for-rust",
    enforce: "post",
    generateBundle(_options, bundle) {
      const names = Object.keys(bundle).filter((name) => name !== "index.html").sort();
      const lines = names.map((name) => `    ("${name}", include_bytes!("${name}").as_slice()),\n`);
      this.emitFile({ type: "asset", fileName: "files.rs", source: `// Written by \`npm run build\` in packages/studio.\n[\n${lines.join("")}]\n` });
    },
  };
}

export default defineConfig({
  // The page itself is served at `/`, `/s/{session}` and `/inbox`.
  base: "/studio/",
  plugins: [react(), tailwindcss(), listForRust()],
  resolve: {
    alias: [
      // The Markdown of a model never becomes HTML, so its parser is left out of the bundle.
      { find: "rehype-raw", replacement: here("src/lib/no-raw-html.ts") },
      // The package beside this one, from its source: it needs no build of its own first.
      { find: /^@helix-agents\/ai-sdk\/(\w+)$/, replacement: here("../ai-sdk/src/$1.ts") },
    ],
    dedupe: ["ai", "@ai-sdk/react", "react", "react-dom"],
  },
  server: {
    host: "127.0.0.1",
    fs: { allow: [here("..")] },
    proxy: Object.fromEntries(routes.map((route) => [route, { target: server, changeOrigin: true }])),
  },
  build: {
    target: "es2022",
    assetsDir: ".",
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      output: {
        // One script: what the libraries would load later (diagrams, highlighting) is left out of it anyway.
        codeSplitting: false,
        entryFileNames: "studio-[hash].js",
        assetFileNames: "[name]-[hash][extname]",
      },
    },
  },
});
