// Runs with every file of tests. Threads of what is tested run the programs that are published, as the
// commands that are started do: they start in less than half the time that the sources take.
import { syncBuiltinESMExports } from 'node:module'
import { basename } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import threads from 'node:worker_threads'

const SRC = fileURLToPath(new URL('../../src/', import.meta.url))
const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))

/** What was built of the program at `source`; itself when it is a test's own. One that the build lacks fails. */
function built(source: string | URL): string | URL {
  if (!(source instanceof URL) || source.protocol !== 'file:') return source
  const path = fileURLToPath(source)
  if (!path.startsWith(SRC) || basename(path).startsWith('test-')) return source
  return pathToFileURL(DIST + path.slice(SRC.length).replace(/\.ts$/, '.js'))
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
