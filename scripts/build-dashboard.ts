// Builds the page of the dashboard into `src/dashboard/built/` when its sources have changed since the
// last time: `npm start`, `npm run build` and the browser tests all call this.
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const built = join(root, 'src/dashboard/built')
/** The hash of the sources that the page was built of. */
const MARK = '.sources'
const mark = join(built, MARK)
/** Everything that may go into the page. */
const SOURCES = [
  'src/{dashboard/browser,http/look,client,chain,base}/**/*.*',
  'package-lock.json',
  'scripts/build-dashboard.ts',
]

/** Builds the page unless it is there already, made of the same sources. */
export async function buildDashboard(): Promise<void> {
  const sources = hashOfSources()
  if (isBuiltOf(sources)) return
  console.error('daicho: building the dashboard, once …')
  const { build } = await import('vite')
  // Beside it first: whoever reads while somebody else builds sees a whole page, the old or the new.
  const making = `${built}.${process.pid}`
  await build({
    configFile: false,
    root: join(root, 'src/dashboard/browser'),
    base: './',
    logLevel: 'warn',
    mode: 'production',
    // Also where tests build it: what is made for development has the paths of this machine in it.
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact', development: false } },
    worker: { format: 'es' },
    build: {
      outDir: making,
      emptyOutDir: true,
      target: 'es2023',
      // Nothing inline: the policy of the page forbids it.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
    },
  })
  writeFileSync(join(making, MARK), sources)
  if (isBuiltOf(sources)) {
    // Somebody else was first, and may be reading it already.
    rmSync(making, { recursive: true })
    return
  }
  rmSync(built, { recursive: true, force: true })
  renameSync(making, built)
}

function isBuiltOf(sources: string): boolean {
  return existsSync(mark) && readFileSync(mark, 'utf8') === sources
}

function hashOfSources(): string {
  const hash = createHash('sha256')
  for (const path of globSync(SOURCES, { cwd: root }).sort()) {
    hash.update(`${path}\n`)
    hash.update(readFileSync(join(root, path)))
  }
  return hash.digest('hex')
}

if (import.meta.main) await buildDashboard()
