import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // The page is served from one binary at any port: every address in it is relative.
  base: './',
  plugins: [svelte()],
  // Beside it lies a file that is always there, so that Cargo sees when a page comes.
  build: { outDir: 'dist/page', target: 'es2022', assetsInlineLimit: 0, chunkSizeWarningLimit: 700 },
  worker: { format: 'es' },
  // The paper's example lies with the other examples of the tree.
  server: { fs: { allow: ['../..'] } },
  test: {
    // One browser at a time: the machine may have two cores.
    fileParallelism: false,
    projects: [
      { extends: true, test: { name: 'logic', include: ['src/**/*.test.ts'], environment: 'node' } },
      {
        extends: true,
        test: {
          name: 'browser',
          include: ['tests/browser/*.test.ts'],
          environment: 'node',
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
});
