// A conversion worker: a process that takes one job after the other, each sent when the one before
// has ended. It ends with whoever started it.
import { once } from 'node:events'
import { flushCompileCache } from 'node:module'
import { Socket } from 'node:net'
import { convert, type Job } from './convert.ts'
import { ConverterError } from './errors.ts'
import { type FromWorker, PRODUCT_FD } from './worker-messages.ts'

// A worker is killed in the end, which keeps nothing.
flushCompileCache()

const pipe = new Socket({ fd: PRODUCT_FD, readable: false, writable: true })

function send(message: FromWorker): void {
  process.send?.(message, undefined, undefined, (error: Error | null) => {
    // Nobody is left to work for.
    if (error !== null) process.exit()
  })
}

async function run(job: Job): Promise<void> {
  try {
    const { plan, pieces } = await convert(job)
    send({ kind: 'plan', plan })
    let sent = 0
    for (const { bytes, rows } of pieces) {
      sent += bytes.byteLength
      send({ kind: 'rows', rows })
      // When the pipe is full, nobody has read yet: wait instead of working ahead.
      if (!pipe.write(bytes)) await once(pipe, 'drain')
    }
    send({ kind: 'end', bytes: sent })
  } catch (error) {
    const code = error instanceof ConverterError ? error.code : null
    send({ kind: 'failed', code, message: error instanceof Error ? error.message : String(error) })
  }
}

process.on('message', (job: Job) => void run(job))
process.on('disconnect', () => process.exit())
pipe.on('error', () => process.exit())
