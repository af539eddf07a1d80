// Fails if package-lock.json names a platform package without an entry for it: with a partial registry,
// `npm install` writes such a lock silently, and `npm ci` then fails elsewhere.
import { readFileSync } from 'node:fs'

interface LockEntry {
  version?: string
  optionalDependencies?: Record<string, string>
}

const lock: { packages?: Record<string, LockEntry> } = JSON.parse(
  readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'),
)
const entries = Object.entries(lock.packages ?? {})
const missing = entries.flatMap(([path, entry]) =>
  Object.keys(entry.optionalDependencies ?? {})
    .filter((name) => !entries.some(([other]) => other.endsWith(`node_modules/${name}`)))
    .map((name) => `${path} ${entry.version} needs ${name}, which is not in the lock`),
)
for (const line of missing) console.error(line)
process.exit(missing.length === 0 ? 0 : 1)
