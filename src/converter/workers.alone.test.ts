import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { children, childrenCount, pidsOfChildren } from '../../test/converter/children.ts'
import { convert, type Job } from './convert.ts'
import { parseOptions } from './options.ts'
import { ConversionWorkers, WORKER_LIMITS, type WorkerLimits } from './workers.ts'

const forever = () => new AbortController().signal

let image: Buffer
let opened: ConversionWorkers[] = []
beforeAll(async () => {
  const noise = { type: 'gaussian', mean: 128, sigma: 60 } as const
  const create = { width: 300, height: 300, channels: 3, background: 'white', noise } as const
  image = await sharp({ create }).png().toBuffer()
})
afterEach(async () => {
  await Promise.all(opened.map((workers) => workers.close()))
  opened = []
})

function workersWith(limits: Partial<WorkerLimits> = {}): ConversionWorkers {
  const workers = new ConversionWorkers({ ...WORKER_LIMITS, nice: 0, ...limits })
  opened.push(workers)
  return workers
}

function job(fields: Record<string, string> = {}, bytes: Uint8Array = image): Job {
  const options = parseOptions(new Map(Object.entries(fields)), { px: 2, width: 100 })
  return { bytes, name: 'a.png', options, cellsMax: 10_000_000, product: 'workbook' }
}

const LARGE = { width: '1200', height: '1200' }

describe('conversion workers', () => {
  it('conversion workers return the same bytes as a conversion in the main process, for several jobs', async () => {
    const workers = workersWith({ workers: 1 })
    const here = await convert(job())
    const expected = Buffer.concat(Array.from(here.pieces, (piece) => piece.bytes))
    for (let round = 0; round < 3; round += 1) {
      const rows: [number, number][] = []
      const { plan, product } = await workers.start(job(), forever(), (...done) => rows.push(done))
      expect(plan).toEqual(here.plan)
      expect((await buffer(product)).equals(expected)).toBe(true)
      expect(rows.at(-1)).toEqual([100, 100])
      // Every report contains the total number of rows, 100.
      expect(new Set(rows.map(([, of]) => of))).toEqual(new Set([100]))
    }
  })

  it.skipIf(process.platform === 'win32')(
    'conversion workers convert again after a lack of file descriptors',
    async () => {
      // The limit is set for a process of its own, in which `workers` starts with no descriptor left.
      const program = `
        import { closeSync, openSync } from 'node:fs'
        import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
        import { ConversionWorkers, WORKER_LIMITS } from ${JSON.stringify(import.meta.resolve('./workers.ts'))}
        const workers = new ConversionWorkers({ ...WORKER_LIMITS, workers: 1, queueMax: 0 })
        const job = { bytes: Buffer.from(process.argv[1], 'base64'), name: 'a.png', cellsMax: 1e6, product: 'preview',
          options: { px: 2, width: 4, height: 4, colors: 9, background: null, resample: 'nearest', grayscale: false, zoom: null } }
        const start = () => workers.start(job, new AbortController().signal)
        const code = () => start().then(() => 'none', (error) => error.code)
        const open = []
        try { for (;;) open.push(openSync('/dev/null')) } catch {}
        const codes = [await code(), await code(), await code()]
        for (const fd of open) closeSync(fd)
        const { product } = await start()
        console.log(JSON.stringify([...codes, (await buffer(product)).length > 0]))
        await workers.close()`
      const small = await sharp(image).resize(4).png().toBuffer()
      const command = 'ulimit -n 100; exec "$0" --input-type=module -e "$1" "$2"'
      const parameters = [command, process.execPath, program, small.toString('base64')]
      const { stdout } = await promisify(execFile)('sh', ['-c', ...parameters])
      expect(JSON.parse(stdout)).toEqual(['WORKER_ENDED', 'WORKER_ENDED', 'WORKER_ENDED', true])
    },
  )

  it('conversion workers reject an invalid job with its error code, and convert the next job', async () => {
    const workers = workersWith({ workers: 1 })
    const bad = job({}, Buffer.from('no image'))
    await expect(workers.start(bad, forever())).rejects.toMatchObject({
      code: 'FORMAT_NOT_ACCEPTED',
    })
    await expect(workers.start(job({}, image.subarray(0, 999)), forever())).rejects.toMatchObject({
      code: 'IMAGE_UNDECODABLE',
    })
    expect((await buffer((await workers.start(job(), forever())).product)).length).toBeGreaterThan(
      0,
    )
  })

  it('conversion workers release the worker of an aborted job, before and after its image is decoded', async () => {
    const workers = workersWith({ workers: 1, queueMax: 1 })
    const early = new AbortController()
    const pending = workers.start(job(LARGE), early.signal)
    early.abort()
    await expect(pending).rejects.toThrow()
    const { product } = await workers.start(job(LARGE), forever())
    product.destroy()
    const late = new AbortController()
    const { product: other } = await workers.start(job(LARGE), late.signal)
    late.abort(new Error('given up'))
    await expect(buffer(other)).rejects.toThrow('given up')
    await buffer((await workers.start(job(), forever())).product)
  })

  it('conversion workers abort a job if its workbook is not read within `stallMs`', async () => {
    const { product } = await workersWith({ stallMs: 1 }).start(job(LARGE), forever())
    const error = await new Promise((resolve) => product.once('error', resolve))
    expect(error).toMatchObject({ message: 'the product was not read in time' })
  })

  it('conversion workers abort workbooks that clients have read too slowly for 10 s as soon as another job waits', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const workers = workersWith({ workers: 2 })
    const slow = await Promise.all([1, 2].map(() => workers.start(job(LARGE), forever())))
    const ends = slow.map(({ product }) => once(product, 'error'))
    for (const { product } of slow) {
      while (product.readableLength < product.readableHighWaterMark) await setImmediate()
    }
    vi.advanceTimersByTime(20_000)
    expect(slow.map(({ product }) => product.destroyed)).toEqual([false, false])
    const waiting = workers.start(job(), forever())
    await setImmediate()
    vi.advanceTimersByTime(2_000)
    const expected = [
      expect.objectContaining({ message: 'the product was read too slowly, and other jobs wait' }),
    ]
    expect(await Promise.all(ends)).toEqual([expected, expected])
    expect((await buffer((await waiting).product)).subarray(0, 2).toString()).toBe('PK')
  })

  it('conversion workers queue `queueMax` jobs of each client, and give the next worker to another client than before', async () => {
    const workers = workersWith({ workers: 1, queueMax: 2 })
    const start = (client: string) =>
      workers.start(job({ width: '3' }), forever(), () => {}, client)
    const first = await start('a')
    const order: string[] = []
    const finished = ['a', 'a', 'b', 'b'].map(async (client) => {
      const { product } = await start(client)
      order.push(client)
      await buffer(product)
    })
    await expect(start('a')).rejects.toMatchObject({ code: 'BUSY' })
    await buffer(first.product)
    await Promise.all(finished)
    expect(order).toEqual(['b', 'a', 'b', 'a'])
  })

  it('conversion workers abort a job that takes longer than `conversionMs`', async () => {
    await expect(workersWith({ conversionMs: 1 }).start(job(), forever())).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
    })
  })

  it('conversion workers reject a job that exceeds the memory limit', async () => {
    const workers = workersWith({ workers: 1, memoryBytesMax: 1 })
    // The image is large, so that decoding takes longer than the interval of the memory check.
    const large = sharp({ create: { width: 4_000, height: 4_000, channels: 3, background: 'red' } })
    const bytes = await large.png().toBuffer()
    await expect(workers.start(job({}, bytes), forever())).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
      message: 'converting the image takes more than 0 MB of memory',
    })
  })

  it('conversion workers reject jobs if the queue is full; `close` aborts running jobs, and later jobs are rejected', async () => {
    const workers = workersWith({ workers: 1, queueMax: 0 })
    const { product } = await workers.start(job(LARGE), forever())
    await expect(workers.start(job(), forever())).rejects.toMatchObject({ code: 'BUSY' })
    const closed = new Promise((resolve) => product.once('close', resolve))
    await workers.close()
    await closed
    await expect(workers.start(job(), forever())).rejects.toMatchObject({ code: 'BUSY' })
  })

  it('conversion workers convert a job that arrives while an idle worker is being killed', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const workers = workersWith({ workers: 1, idleMs: 1_000 })
    await buffer((await workers.start(job(), forever())).product)
    await setImmediate()
    vi.advanceTimersByTime(1_000)
    const next = await workers.start(job(), forever())
    expect((await buffer(next.product)).subarray(0, 2).toString()).toBe('PK')
  })

  const name = childrenCount
    ? 'are killed when their job is aborted, and reused after a completed job'
    : 'SKIPPED: child processes can be listed on Linux only'
  it.skipIf(!childrenCount)(name, async () => {
    const before = children()
    const workers = workersWith()
    await buffer((await workers.start(job(), forever())).product)
    expect(children()).toBe(before + 1)
    const running = await Promise.all([1, 2].map(() => workers.start(job(LARGE), forever())))
    expect(children()).toBe(before + 2)
    for (const { product } of running) product.destroy()
    // The next jobs get workers only after the killed workers have exited, so there are never more than two.
    const next = await Promise.all([1, 2].map(() => workers.start(job(), forever())))
    expect(children()).toBe(before + 2)
    await Promise.all(next.map(({ product }) => buffer(product)))
    await workers.close()
    expect(children()).toBe(before)
  })

  const killed = childrenCount
    ? 'report when they are killed, and are replaced for the next job'
    : 'SKIPPED: child processes can be listed on Linux only'
  it.skipIf(!childrenCount)(killed, async () => {
    const before = new Set(pidsOfChildren())
    const workers = workersWith({ workers: 1, queueMax: 1 })
    const { product } = await workers.start(job(LARGE), forever())
    const broken = new Promise((resolve) => product.once('error', resolve))
    const kill = (signal = 'SIGKILL') => {
      const found = pidsOfChildren().filter((pid) => !before.has(pid))
      for (const pid of found) process.kill(pid, signal)
      return found.length
    }
    kill()
    const message = expect.stringMatching(/^the conversion process ended by SIGKILL; /)
    expect(await broken).toMatchObject({ code: 'WORKER_ENDED', message })
    // If a worker is killed before it sends the plan, `start` rejects.
    const early = workers.start(job(LARGE), forever()).then(
      () => null,
      (error: unknown) => error,
    )
    while (kill() === 0) await setImmediate()
    expect(await early).toMatchObject({ code: 'WORKER_ENDED', message })
    // A crash has its own error code, because the same image would crash the decoder again.
    const crashed = workers.start(job(LARGE), forever()).then(
      () => null,
      (error: unknown) => error,
    )
    while (kill('SIGSEGV') === 0) await setImmediate()
    expect(await crashed).toMatchObject({
      code: 'IMAGE_UNDECODABLE',
      message: 'the image cannot be decoded: it crashes the decoder (SIGSEGV)',
    })
    const next = await workers.start(job(), forever())
    expect((await buffer(next.product)).subarray(0, 2).toString()).toBe('PK')
  })
})
