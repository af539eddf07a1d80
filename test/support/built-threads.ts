// Runs with every file of tests. Threads of what is tested run the programs that are published, as the
// commands that are started do: they start in less than half the time that the sources take.
import { existsSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import threads from 'node:worker_threads'

const SRC = fileURLToPath(new URL('../../src/', import.meta.url))
const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))

/** What was built of the program at `source`; itself when it is none of those that are published. */
function built(source: string | URL): string | URL {
  if (!(source instanceof URL) || source.protocol !== 'file:') return source
  const path = fileURLToPath(source)
  if (!path.startsWith(SRC)) return source
  const program = DIST + path.slice(SRC.length).replace(/\.ts$/, '.js')
  return existsSync(program) ? pathToFileURL(program) : source
}

class BuiltThread extends threads.Worker {
  constructor(program: string | URL, options?: threads.WorkerOptions) {
    super(built(program), options)
  }
}

// Files follow each other in one process: it is done for the first of them.
if (threads.Worker.name !== BuiltThread.name) {
  threads.Worker = BuiltThread
  syncBuiltinESMExports()
}
