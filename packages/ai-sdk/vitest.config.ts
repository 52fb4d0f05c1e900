import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const at = (path: string) => fileURLToPath(new URL(`node_modules/${path}`, import.meta.url));

/** Every test runs with both major versions of the AI SDK. */
export default defineConfig({
  test: {
    projects: [
      { name: 'v6', ai: 'ai-v6', react: 'ai-sdk-react-v6' },
      { name: 'v7', ai: 'ai', react: '@ai-sdk/react' },
    ].map(({ name, ai, react }) => ({
      resolve: {
        alias: [
          { find: /^ai$/, replacement: at(ai) },
          { find: /^@ai-sdk\/react$/, replacement: at(react) },
        ],
      },
      test: { name, include: ['test/**/*.test.{ts,tsx}'], testTimeout: 15_000, env: { AI_SDK: name } },
    })),
  },
});
