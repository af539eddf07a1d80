// Builds the page of the dashboard into `src/dashboard/built/` when its sources have changed since the
// last time: `npm start`, `npm run build` and the browser tests all call this.
import { join } from 'node:path'
import { makeOnce, ROOT } from './made-once.ts'

/** Builds the page unless it is there already, made of the same sources. */
export function buildDashboard(): Promise<void> {
  return makeOnce({
    folder: 'src/dashboard/built',
    name: 'the dashboard',
    sources: [
      'src/{dashboard/browser,http/layout,client,chain,base}/**/*.*',
      'package-lock.json',
      'scripts/build-dashboard.ts',
    ],
    make,
  })
}

async function make(outDir: string): Promise<void> {
  const { build } = await import('vite')
  await build({
    configFile: false,
    root: join(ROOT, 'src/dashboard/browser'),
    base: './',
    logLevel: 'warn',
    mode: 'production',
    // Also where tests build it: what is made for development has the paths of this machine in it.
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact', development: false } },
    worker: { format: 'es' },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      // Nothing inline: the policy of the page forbids it.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
    },
  })
}

if (import.meta.main) await buildDashboard()
