import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseJson } from '../../base/json.ts'
import { readArchive } from './archive.ts'
import {
  FileSet,
  isNetworkFile,
  NETWORK_BYTES_MAX,
  type NetworkFiles,
  type NetworkSource,
  unreadable,
} from './files.ts'

/** Directories and files that are looked at in a network's directory at most. */
const ENTRIES_MAX = 20_000
/** Where the files of a network can be; others are not walked. */
const FOLDERS = ['models', 'lib', 'node_modules']

/** The network in the directory, or in the `.bna` archive, at `path`. Errors: NETWORK_UNREADABLE. */
export function readNetwork(path: string): NetworkSource {
  try {
    const stat = lstatSync(path)
    if (stat.isSymbolicLink()) throw unreadable(`${path} is a symbolic link`)
    if (stat.isDirectory()) return { files: readDirectory(path), packed: null }
    if (stat.size > 2 * NETWORK_BYTES_MAX) throw unreadable(`${path} is too large for a network`)
    const packed = readFileSync(path)
    return { files: readArchive(packed), packed }
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) {
      throw unreadable(`${path} cannot be read: ${error.message}`, error)
    }
    throw error
  }
}

function readDirectory(root: string): NetworkFiles {
  const set = new FileSet()
  const dependencies = dependenciesOf(join(root, 'package.json'))
  let seen = 0
  const walk = (folder: string): void => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      seen += 1
      if (seen > ENTRIES_MAX) throw unreadable(`${root} has too many files to be a network`)
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      const isWanted = isNetworkFile(path)
      if (entry.isDirectory()) {
        if (isOnTheWay(path, dependencies)) walk(path)
      } else if (entry.isSymbolicLink() && (isWanted || FOLDERS.includes(path))) {
        // It could lead anywhere on the machine, and what it leads to would be packed and recorded.
        throw unreadable(`${path} is a symbolic link`)
      } else if (entry.isFile() && isWanted) {
        const file = join(root, path)
        if (lstatSync(file).size > NETWORK_BYTES_MAX) throw unreadable(`${path} is too large`)
        set.add(path, readFileSync(file))
      }
    }
  }
  walk('')
  return set.files()
}

/** Of `node_modules`, only the packages that the network depends on itself. */
function isOnTheWay(path: string, dependencies: readonly string[]): boolean {
  const [top = '', ...rest] = path.split('/')
  if (!FOLDERS.includes(top)) return false
  if (top !== 'node_modules' || rest.length === 0) return true
  const within = rest.join('/')
  return dependencies.some(
    (name) => within === name || within.startsWith(`${name}/`) || name.startsWith(`${within}/`),
  )
}

function dependenciesOf(path: string): string[] {
  try {
    const { dependencies }: { dependencies?: object } = parseJson(readFileSync(path, 'utf8'))
    return Object.keys(dependencies ?? {})
  } catch {
    // Missing or damaged: whoever reads the package says so.
    return []
  }
}
