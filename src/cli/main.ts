#!/usr/bin/env -S MALLOC_MMAP_THRESHOLD_=131072 node --disable-warning=ExperimentalWarning --max-semi-space-size=8
// A namespace import, because a named import of `enableCompileCache` would fail in Node 20 before the version check.
import * as nodeModule from 'node:module'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { CommanderError } from 'commander'
import { createProgram } from './command-list.ts'
import { EXIT, findExit } from './exit.ts'
import { warn } from './output/output.ts'
import { EXIT_OF_SIGNAL, endOnSignals } from './signals.ts'

// V8 lets a heap grow by half, not up to four times, before it collects garbage. Measured with lists of 60 resources of
// 9.8 MB under conditional access rules, at the same throughput: a peak of 763 instead of 1,002 MB.
setFlagsFromString('--heap-growing-percent=50')
endOnSignals(process)

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
// Node 23 lacks `setReturnArrays` of `node:sqlite`; Node 22.16 and Node 24 have the function.
if (major < 24 && (major !== 22 || minor < 18)) {
  const needed = 'daicho needs Node 24 or newer, or Node 22 from 22.18'
  process.stderr.write(`${needed}; this is ${process.versions.node}\n`)
  process.exit(EXIT.configuration)
}

// Worker threads find the folder of the compile cache through the environment. There is no cache if the folder is not
// writable.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
  new URL('../../node_modules/.cache/compiled', import.meta.url),
)
nodeModule.enableCompileCache(process.env.NODE_COMPILE_CACHE)

// Without a listener, a failed write to stdout would print a stack trace. If the reader has closed the pipe, as `head`
// does, the program ends without a message, like a program that SIGPIPE ends.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT_OF_SIGNAL.SIGPIPE)
  process.stderr.write(`daicho: the output cannot be written: ${error.message}\n`)
  process.exit(EXIT.finding)
})

try {
  await createProgram().parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    process.exit(error.exitCode === 0 ? EXIT.success : EXIT.usage)
  }
  const exit = findExit(error)
  if (exit === null) throw error
  warn(exit.message)
  process.exit(exit.code)
}
