// Builds `clients/typescript/dist`, the content of the package `@daicho/client`, if its sources have changed: the
// client in one file for Node and browsers, and its type declarations. `npm pack` in that folder calls this.
import { spawnSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { buildIfChanged, ROOT } from './build-folder.ts'

export function buildClient(): Promise<void> {
  return buildIfChanged({
    folder: 'clients/typescript/dist',
    name: 'the client',
    sources: [
      'src/{client,chain,base}/**/*.ts',
      'package-lock.json',
      'tsconfig*.json',
      'scripts/{build-client,build-folder}.ts',
    ],
    make,
  })
}

async function make(outDir: string): Promise<void> {
  const { build } = await import('vite')
  await build({
    configFile: false,
    root: ROOT,
    logLevel: 'warn',
    publicDir: false,
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      minify: false,
      lib: { entry: join(ROOT, 'src/client/index.ts'), formats: ['es'], fileName: 'index' },
    },
  })
  const types = spawnSync('tsc', ['-p', 'tsconfig.build.json', '--outDir', outDir], {
    cwd: ROOT,
    stdio: 'inherit',
  })
  if (types.status !== 0) throw new Error(`tsc could not write the types: ${types.status}`)
  cpSync(join(ROOT, 'node_modules/@noble/hashes/LICENSE'), join(outDir, 'noble-hashes.LICENSE'))
}

if (import.meta.main) await buildClient()
