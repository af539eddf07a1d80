import { expect, it } from 'vitest'
import { startWorker, type WorkerEvents } from './worker.ts'

/** Starts a thread that runs `code`, where `port` is its port and `data` its data. */
function start(code: string, workerData: unknown = null) {
  const program = `import { parentPort as port, workerData as data } from 'node:worker_threads';${code}//`
  return startWorker<string, string>({
    name: 'test',
    program: ['file:///any.js', `data:text/javascript,${encodeURIComponent(program)}`],
    workerData,
    keepsAlive: true,
  })
}

/** Returns a receiver that logs all events, and a promise of the log when the thread has ended. */
function logged(): { events: WorkerEvents<string>; log: Promise<string[]> } {
  const lines: string[] = []
  const ended = Promise.withResolvers<string[]>()
  return {
    events: {
      message: (reply) => lines.push(reply),
      failed: ({ message }) => lines.push(`failed: ${message}`),
      ended: () => {
        lines.push('ended')
        ended.resolve(lines)
      },
    },
    log: ended.promise,
  }
}

it('passes requests and data to a thread, and its replies and its end to the receiver', async () => {
  const worker = start(
    `port.on('message', (name) => { port.postMessage(data + name); if (name === 'b') port.close() })`,
    'data ',
  )
  const { events, log } = logged()
  worker.listen(events)
  worker.post('a')
  await worker.close('b')
  expect(await log).toEqual(['data a', 'data b', 'ended'])
  // A thread that has ended needs no further request.
  await worker.close('c')
})

it('keeps the events of a thread until somebody listens, even its end', async () => {
  const worker = start(`port.postMessage('one'); port.postMessage('two'); throw new Error('x')`)
  const first = Promise.withResolvers<string>()
  // Node sends errors apart from messages, so the error can even come before the first message.
  const early: string[] = []
  worker.listen({
    message: (reply) => {
      worker.listen(null)
      first.resolve(reply)
    },
    failed: ({ message }) => early.push(`failed: ${message}`),
  })
  expect(await first.promise).toBe('one')
  await worker.close('ignored')
  const { events, log } = logged()
  worker.listen(events)
  const lines = await log
  expect(lines.at(-1)).toBe('ended')
  expect([...early, ...lines].sort()).toEqual(['ended', 'failed: x', 'two'])
})

it('reports a thread that cannot start as failed and ended', async () => {
  const worker = startWorker<string, string>(
    { name: 'test', program: [import.meta.url, './none'] },
    {
      startThread: () => {
        throw new Error('no memory')
      },
    },
  )
  const { events, log } = logged()
  worker.listen(events)
  worker.post('ignored')
  expect(await log).toEqual(['failed: no memory', 'ended'])
  await worker.close('ignored')
  await worker.terminate()
})
