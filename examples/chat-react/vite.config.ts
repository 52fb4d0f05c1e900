import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const target = process.env.HELIX_URL ?? 'http://127.0.0.1:8787';

export default defineConfig({
  plugins: [react()],
  server: {
    host: '127.0.0.1',
    // A server without tokens refuses pages of other origins. To it, this page is its own.
    proxy: { '/api': { target, changeOrigin: true, headers: { origin: target } } },
  },
  // In this repository the package is a link, with copies of these of its own.
  resolve: { dedupe: ['react', 'react-dom', 'ai', '@ai-sdk/react'] },
});
