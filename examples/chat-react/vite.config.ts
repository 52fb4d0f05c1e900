import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const target = process.env.HELIX_URL ?? 'http://127.0.0.1:8787';

export default defineConfig({
  plugins: [react()],
  server: { host: '127.0.0.1', proxy: { '/api': { target, changeOrigin: true } } },
  // The package is a link in this repository: its own copies of React and of the AI SDK must not be used.
  resolve: { preserveSymlinks: true },
});
