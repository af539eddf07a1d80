// A conversion thread: takes one job after the other, each sent when the one before has ended.
import assert from 'node:assert/strict'
import { parentPort } from 'node:worker_threads'
import { convert, type Job } from './convert.ts'
import { ConverterError } from './errors.ts'
import type { FromThread, ToThread } from './thread-messages.ts'

const port = parentPort
assert(port !== null, 'this file is started as a worker thread')

/** Pieces that may still be sent, and whoever waits for there to be one. */
let credit = 0
let onCredit: (() => void) | null = null

function send(message: FromThread, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(message, transfer)
}

async function run(job: Job): Promise<void> {
  credit = 0
  try {
    const { plan, pieces } = await convert(job)
    send({ kind: 'plan', plan })
    for (const piece of pieces) {
      if (credit === 0) {
        await new Promise<void>((resolve) => {
          onCredit = resolve
        })
      }
      credit -= 1
      send({ kind: 'piece', piece }, [piece.bytes.buffer])
    }
    send({ kind: 'end' })
  } catch (error) {
    const code = error instanceof ConverterError ? error.code : null
    send({ kind: 'failed', code, message: error instanceof Error ? error.message : String(error) })
  }
}

port.on('message', (message: ToThread) => {
  if (message.kind === 'job') {
    void run(message.job)
    return
  }
  credit += message.count
  onCredit?.()
  onCredit = null
})
