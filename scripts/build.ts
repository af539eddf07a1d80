// Builds `dist/`, which the published package holds, when its sources have changed since the last time: the
// programs of `src/`, the types of the client, and the files beside the sources that are served as they are.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, globSync } from 'node:fs'
import { extname, join, relative } from 'node:path'
import type { Plugin } from 'vite'
import { buildDashboard } from './build-dashboard.ts'
import { makeOnce, ROOT } from './made-once.ts'

const SRC = join(ROOT, 'src')
/** What is started: the command, the client that is imported, threads and processes. */
const PROGRAMS = ['cli/main.ts', 'client/index.ts', '**/{thread,*-thread,worker}.ts']
/** What stands in a source for the place of its module in the build. */
const PLACE = '__PLACE__'
/** What the compiler makes of a source takes its place. */
const COMPILED = new Set(['.ts', '.tsx', '.snap'])
/** What the page of the dashboard is built of is in what was built. */
const BROWSER = join(SRC, 'dashboard', 'browser')

/** Builds `dist/` unless it is there already, made of the same sources. */
export async function buildPackage(): Promise<void> {
  await buildDashboard()
  await makeOnce({
    folder: 'dist',
    name: 'the package',
    sources: ['src/**/*.*', 'package-lock.json', 'tsconfig*.json', 'scripts/{build,made-once}.ts'],
    make,
  })
}

async function make(dist: string): Promise<void> {
  const { build } = await import('vite')
  const programs = globSync(PROGRAMS, { cwd: SRC, exclude: ['**/test-*.ts', 'dashboard/**'] })
  await build({
    configFile: false,
    root: ROOT,
    logLevel: 'warn',
    publicDir: false,
    plugins: [placesOfModules()],
    build: {
      outDir: dist,
      emptyOutDir: true,
      ssr: true,
      target: 'esnext',
      minify: false,
      sourcemap: true,
      rolldownOptions: {
        input: Object.fromEntries(programs.map((path) => [path.slice(0, -3), join(SRC, path)])),
        output: {
          entryFileNames: '[name].js',
          chunkFileNames: 'shared/[name]-[hash].js',
        },
      },
    },
  })
  // Without looking for errors in types: `npm test` has done that.
  const types = spawnSync('tsc', ['-p', 'tsconfig.build.json', '--outDir', dist], {
    cwd: ROOT,
    stdio: 'inherit',
  })
  if (types.status !== 0) throw new Error(`tsc could not write the types: ${types.status}`)
  cpSync(SRC, dist, {
    recursive: true,
    filter: (path) =>
      !path.endsWith('__snapshots__') && path !== BROWSER && !COMPILED.has(extname(path)),
  })
  chmodSync(join(dist, 'cli', 'main.js'), 0o755)
}

/**
 * Several modules become one file. What they read, and the threads that they start, stands where it stood
 * from each of them; so `import.meta.url` becomes the place that the module would have in the build.
 */
function placesOfModules(): Plugin {
  return {
    name: 'places of modules',
    transform: {
      filter: { id: /\.ts$/, code: 'import.meta.url' },
      handler(code, id) {
        const path = relative(SRC, id).replace(/\.ts$/, '.js')
        const lines = code.split('\n').length
        return {
          code: code.replaceAll('import.meta.url', `${PLACE}(${JSON.stringify(path)})`),
          // Each line is where it was.
          map: {
            version: 3,
            sources: [id],
            names: [],
            mappings: `AAAA${';AACA'.repeat(lines - 1)}`,
          },
        }
      },
    },
    renderChunk(code, { fileName }) {
      if (!code.includes(PLACE)) return null
      const up = '../'.repeat(fileName.split('/').length - 1) || './'
      return {
        code: code.replace(/__PLACE__\("([^"]+)"\)/g, `new URL("${up}$1", import.meta.url).href`),
        map: null,
      }
    },
  }
}

if (import.meta.main) await buildPackage()
