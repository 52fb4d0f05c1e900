import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The tests of this repository build the page with the AI SDK v6, too: `HELIX_AI=v6 npm run build`.
const packages = new URL('../../packages/ai-sdk/node_modules/', import.meta.url).pathname;
const v6 = [
  { find: /^ai$/, replacement: `${packages}ai-v6` },
  { find: /^@ai-sdk\/react$/, replacement: `${packages}ai-sdk-react-v6` },
];

const target = process.env.HELIX_URL ?? 'http://127.0.0.1:8787';

export default defineConfig({
  plugins: [react()],
  server: {
    host: '127.0.0.1',
    proxy: {
      '/api': {
        target,
        // A server without tokens refuses pages of other origins. To it, this page is its own.
        changeOrigin: true,
        headers: { origin: target },
        // A stream that breaks on the way breaks for the page, too: the proxy alone would leave it open.
        configure: (proxy) =>
          proxy.on('proxyRes', (from, _request, to) => from.on('close', () => from.complete || to.destroy())),
      },
    },
  },
  // In this repository the package is a link, with copies of these of its own.
  resolve: {
    dedupe: ['react', 'react-dom', 'ai', '@ai-sdk/react'],
    alias: process.env.HELIX_AI === 'v6' ? v6 : [],
  },
  build: { outDir: process.env.HELIX_AI === 'v6' ? 'dist-v6' : 'dist' },
});
