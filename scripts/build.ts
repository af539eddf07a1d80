// Builds `dist/`, the content of the published package, if its sources have changed since the last build: the
// programs of `src/`, the client's type declarations, and static files that are served as they are.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, extname, join, relative } from 'node:path'
import type { Plugin } from 'vite'
import { buildDashboard } from './build-dashboard.ts'
import { buildIfChanged, ROOT } from './build-folder.ts'

const SRC = join(ROOT, 'src')
/** Entry points: the command, the client, threads and child processes. */
const PROGRAMS = ['cli/main.ts', 'client/index.ts', '**/{thread,*-thread,worker}.ts']
/** Expression in a source that the build replaces with the URL of its module. */
const PLACE = '__PLACE__'
/** Packages that are not bundled, because they consist of machine code or WebAssembly: those that users install. */
const INSTALLED: string[] = Object.keys(
  JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).dependencies,
)
/** Extensions of files that are compiled or bundled instead of copied. */
const COMPILED = new Set(['.ts', '.tsx', '.snap'])
/** Sources of the dashboard page, which `buildDashboard` bundles. */
const BROWSER = join(SRC, 'dashboard', 'browser')

/** Files of Swagger UI that pages load. They are copied, so that users do not install their twenty dependencies. */
const SWAGGER_UI = ['static/swagger-ui.css', 'static/swagger-ui-bundle.js']

export async function buildPackage(): Promise<void> {
  await buildDashboard()
  await buildIfChanged({
    folder: 'dist',
    name: 'the package',
    sources: [
      'src/**/*.*',
      'package-lock.json',
      'tsconfig*.json',
      'scripts/{build,build-folder}.ts',
    ],
    make,
  })
}

async function make(dist: string): Promise<void> {
  const { build } = await import('vite')
  const programs = globSync(PROGRAMS, {
    cwd: SRC,
    exclude: ['**/{contract,dashboard}/**', '**/test-*.ts'],
  })
  await build({
    configFile: false,
    root: ROOT,
    logLevel: 'warn',
    publicDir: false,
    plugins: [moduleUrls(), builtinModules(), licenses()],
    // One file opens faster than the hundreds of a web framework, so a node starts in two thirds of the time.
    ssr: { noExternal: true, external: INSTALLED },
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
  // Type errors do not stop the build, because `npm test` reports them.
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
  const swaggerUi = join(createRequire(import.meta.url).resolve('@fastify/swagger-ui'), '..')
  for (const name of SWAGGER_UI)
    cpSync(join(swaggerUi, name), join(dist, 'http/layout', basename(name)))
  chmodSync(join(dist, 'cli', 'main.js'), 0o755)
}

/**
 * Replaces `import.meta.url` with the URL that the module would have if it were not bundled with other modules, so that
 * relative paths of files and threads still resolve.
 */
function moduleUrls(): Plugin {
  return {
    name: 'module URLs',
    transform: {
      filter: { id: /\.ts$/, code: 'import.meta.url' },
      handler(code, id) {
        const path = relative(SRC, id).replace(/\.ts$/, '.js')
        const lines = code.split('\n').length
        return {
          code: code.replaceAll('import.meta.url', `${PLACE}(${JSON.stringify(path)})`),
          // The source map maps each line to itself, because the replacement does not move lines.
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

/** Matches an import of a module of Node in a chunk: its default or namespace, and its names. */
const BUILTIN = /^import (?:\* as )?([\w$]+)?(?:, )?(?:\{ ([^}]*) \})? from "(node:[\w/]+)";$/gm

/**
 * Replaces imports of Node's own modules by calls that return them. An import makes Node evaluate each of their exports,
 * of which some load further modules: 15 of the 60 ms that `daicho --help` takes more than an empty program.
 */
function builtinModules(): Plugin {
  return {
    name: 'builtin modules',
    renderChunk: (code) => ({
      code: code.replace(BUILTIN, (_line, whole = '', names = '', module) => {
        const members = names === '' ? '' : `{ ${names.replaceAll(' as ', ': ')} }`
        const found = `globalThis.process.getBuiltinModule("${module}")`
        const both = whole !== '' && members !== ''
        return `const ${whole || members} = ${found}${both ? `, ${members} = ${whole}` : ''};`
      }),
      map: null,
    }),
  }
}

/** Writes `licenses.txt`: name, version and licence of each package of which the bundle contains a part. */
function licenses(): Plugin {
  return {
    name: 'licences',
    generateBundle(_options, bundle) {
      const folders = Object.values(bundle)
        .flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []))
        .map((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id.replaceAll('\\', '/'))?.[0])
      const texts = [...new Set(folders)].filter((folder) => folder !== undefined).map(licenseText)
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: texts.sort().join('\n\n') })
    },
  }
}

function licenseText(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]e|copying|notice)/i.test(file))
  const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').trim())
  return [`${name} ${version} (${license})`, ...texts].join('\n\n')
}

if (import.meta.main) await buildPackage()
