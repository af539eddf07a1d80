// Builds the dashboard page into `src/dashboard/built/` if its sources have changed since the last build.
// `npm start`, `npm run build` and the browser tests call this.
import { join } from 'node:path'
import { buildIfChanged, ROOT } from './build-folder.ts'

export function buildDashboard(): Promise<void> {
  return buildIfChanged({
    folder: 'src/dashboard/built',
    name: 'the dashboard',
    sources: [
      'src/{dashboard/browser,http/layout,client,chain,base,exchange}/**/*.*',
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
    // `development` is false in test runs too, because a development build contains absolute paths.
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact', development: false } },
    worker: { format: 'es' },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      // Assets are never inlined, because the page's Content-Security-Policy forbids inline assets.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
    },
  })
}

if (import.meta.main) await buildDashboard()
