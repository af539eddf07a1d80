// Fails if package-lock.json refers to a platform package but has no entry for the package. With an incomplete
// registry, `npm install` writes such a lock without an error, and `npm ci` then fails on other computers.
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
