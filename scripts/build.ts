// Builds `dist/`, which the published package holds: JavaScript and types of `src/`, and the files
// beside the sources that are served as they are.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildDashboard } from './build-dashboard.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const [src, dist] = [join(root, 'src'), join(root, 'dist')]
/** What the compiler makes of a source takes its place. */
const COMPILED = new Set(['.ts', '.tsx', '.snap'])
/** What the page of the dashboard is built of is in what was built. */
const BROWSER = join(src, 'dashboard', 'browser')

await buildDashboard()
rmSync(dist, { recursive: true, force: true })
// Without looking for errors in types: `npm test` has done that.
const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
cpSync(src, dist, {
  recursive: true,
  filter: (path) =>
    !path.endsWith('__snapshots__') && path !== BROWSER && !COMPILED.has(extname(path)),
})
chmodSync(join(dist, 'cli', 'main.js'), 0o755)
