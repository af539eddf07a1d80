// The conversion worker. Converts one job at a time, and exits when its parent process exits.

import { once } from 'node:events'
import { flushCompileCache } from 'node:module'
import { Socket } from 'node:net'
import { errorMessage } from '../base/errors.ts'
import { type ConversionMessage, convert, type Job, PRODUCT_FD } from './convert.ts'
import { ConverterError } from './errors.ts'

const DECODE_MS_MAX = 30_000
const MEMORY_CHECK_MS = 5
const MEMORY_BYTES_MAX = Number(process.argv[2])

// Writes the compile cache now instead of at the exit, because a worker is killed when it is no longer needed.
flushCompileCache()

const pipe = new Socket({ fd: PRODUCT_FD, readable: false, writable: true })

function send(message: ConversionMessage): void {
  process.send?.(message, undefined, undefined, (error: Error | null) => {
    // An error means that the parent process has exited.
    if (error !== null) process.exit()
  })
}

/** Reports that the image exceeds a limit. The parent kills the worker, because decoders cannot be interrupted. */
function tooLarge(message: string): void {
  send({ kind: 'failed', code: 'IMAGE_TOO_LARGE', message })
}

async function run(job: Job): Promise<void> {
  const deadline = setTimeout(
    () => tooLarge(`decoding the image takes longer than ${DECODE_MS_MAX / 1_000} seconds`),
    DECODE_MS_MAX,
  )
  // The memory is checked, because a few bytes in a header can make a decoder allocate any amount of memory.
  const memoryCheck = setInterval(() => {
    if (process.memoryUsage.rss() <= MEMORY_BYTES_MAX) return
    clearInterval(memoryCheck)
    tooLarge(
      `converting the image takes more than ${Math.trunc(MEMORY_BYTES_MAX / 1e6)} MB of memory`,
    )
  }, MEMORY_CHECK_MS)
  try {
    const { plan, pieces } = await convert(job)
    clearTimeout(deadline)
    send({ kind: 'plan', plan })
    let sent = 0
    for (const { bytes, rows } of pieces) {
      sent += bytes.byteLength
      send({ kind: 'rows', rows })
      // Waits while the pipe is full.
      if (!pipe.write(bytes)) await once(pipe, 'drain')
    }
    send({ kind: 'end', bytes: sent })
  } catch (error) {
    const code = error instanceof ConverterError ? error.code : null
    send({ kind: 'failed', code, message: errorMessage(error) })
  } finally {
    clearTimeout(deadline)
    clearInterval(memoryCheck)
  }
}

process.on('message', (job: Job) => void run(job))
process.on('disconnect', () => process.exit())
pipe.on('error', () => process.exit())
