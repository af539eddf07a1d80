// Runs with every test file. Makes worker threads run the built programs, which start in less than half the time of
// the sources. The threads of a ledger that start most often run in the thread of the test, except in files named
// `.alone` and in files that call `useRealThreads`. Tests with `daicho` processes have real threads too.
import { syncBuiltinESMExports } from 'node:module'
import { basename } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import threads from 'node:worker_threads'
import { hasRealThreads, inlineThread, isInline, useRealThreads } from './inline-threads.ts'

const SRC = fileURLToPath(new URL('../../src/', import.meta.url))
const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))

/**
 * Returns the built program of `source`, or `source` itself if it belongs to a test. Fails if the program was
 * not built.
 */
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

/** Takes the place of the class, which must not create a thread that runs here. */
const Replaced = new Proxy(BuiltThread, {
  construct(Thread, [program, options]: ConstructorParameters<typeof BuiltThread>) {
    if (!hasRealThreads() && isInline(options?.name)) return inlineThread(options)
    return new Thread(program, options)
  },
})

// A process that runs several test files replaces the class only once.
if (threads.Worker.name !== BuiltThread.name) {
  threads.Worker = Replaced
  syncBuiltinESMExports()
}
useRealThreads(process.env.DAICHO_TEST_REAL_THREADS === '1')
