import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { beforeEach, expect, it, vi } from 'vitest'
import { type BlobsUnderTest, describeBlobs } from '../contract/blob-contract.ts'
import {
  attachmentEraser,
  BlobStage,
  bytesOf,
  chunksOf,
  RECORDED,
  sha256OfText,
} from '../contract/test-blobs.ts'
import { FileBlobStore } from './file-blob-store.ts'

async function filesUnderTest(): Promise<BlobsUnderTest> {
  const location = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  const incoming = join(location, 'attachments', 'incoming')
  const pathOf = (sha256: string) =>
    join(location, 'attachments', sha256.slice(0, 2), sha256.slice(2))
  return {
    location,
    damage: async (sha256, bytes) => {
      if (bytes === null) rmSync(pathOf(sha256))
      else writeFileSync(pathOf(sha256), bytes)
    },
    eraseRows: async (positions) => {
      const database = new DatabaseSync(join(location, 'ledger.db'))
      positions.forEach(attachmentEraser(database))
      database.close()
    },
    unfinished: async () => (existsSync(incoming) ? readdirSync(incoming).length : 0),
    abandon: async () => {},
    remove: async () => rmSync(location, { recursive: true }),
  }
}

describeBlobs('files', filesUnderTest)

let stage: BlobStage
beforeEach(async () => {
  stage = await BlobStage.open()
})

it('a blob is complete under its final name before its entry is recorded, and equal blobs are stored once', async () => {
  await Promise.all([
    stage.put('one', 'the same'),
    stage.put('two', 'the same'),
    stage.put('three', 'another'),
  ])
  expect(stage.incoming()).toEqual([])
  await stage.blobs.close()
  expect(readdirSync(join(stage.folder, 'attachments')).toSorted()).toEqual(
    [sha256OfText('the same').slice(0, 2), sha256OfText('another').slice(0, 2)].toSorted(),
  )
  expect(await stage.finding()).toBeNull()
})

it('syncs the bytes before the rename, and the folders before the entry is recorded', async () => {
  await stage.put('first', 'what makes the folders')
  expect(await stage.recordSyncs('seven b', () => stage.put('n', 'seven b'))).toEqual([
    '7 bytes, not named',
    'a folder, named',
    'a folder, named',
  ])
})

it('reports STORE_FULL when the disk is full, and leaves no bytes of the upload', async () => {
  const probe = await open(join(stage.folder, 'node.key'), 'w')
  const kind = Object.getPrototypeOf(probe)
  await probe.close()
  const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  for (const method of ['write', 'sync']) {
    const spy = vi.spyOn(kind, method).mockRejectedValueOnce(full)
    await expect(stage.put('x', `without room to ${method}`)).rejects.toMatchObject({
      code: 'STORE_FULL',
    })
    spy.mockRestore()
    expect(stage.incoming()).toEqual([])
  }
  await stage.put('x', 'with room')
  expect(await stage.finding()).toBeNull()
})

it('keeps a blob if the outcome of its entry is unknown, until the next start', async () => {
  const unknown = stage.blobs.add(
    chunksOf('who knows'),
    () => Promise.reject(new Error('unknown')),
    {
      isRecorded: () => true,
      mayBeRecorded: () => true,
    },
  )
  await expect(unknown).rejects.toThrow('unknown')
  await stage.blobs.close()
  expect(existsSync(stage.pathOf('who knows'))).toBe(true)
  expect(await stage.finding()).toBeNull()
  const next = stage.again()
  await next.recover()
  expect(existsSync(stage.pathOf('who knows'))).toBe(false)
})

it('after a crash, removes exactly the incomplete files and the blobs without an entry', async () => {
  await stage.put('kept', 'kept')
  mkdirSync(join(stage.folder, 'attachments', 'aa'), { recursive: true })
  const stray = join(stage.folder, 'attachments', 'aa', 'b'.repeat(62))
  writeFileSync(stray, 'no entry')
  writeFileSync(join(stage.folder, 'attachments', 'incoming', '7'), 'half')
  const notes = join(stage.folder, 'attachments', 'notes.txt')
  // `verify` does not report these files, because a running process may be writing them.
  expect(await stage.finding()).toBeNull()
  const next = stage.again()
  await next.recover()
  expect(existsSync(stray)).toBe(false)
  expect(existsSync(join(stage.folder, 'attachments', 'incoming'))).toBe(false)
  expect(readFileSync(stage.pathOf('kept'), 'utf8')).toBe('kept')
  writeFileSync(notes, 'not ours')
  expect(await stage.finding()).toContain('notes.txt')
})

it('verification finds missing, truncated and changed blobs, and blobs without an entry', async () => {
  await stage.put('n', 'content')
  await stage.blobs.close()
  const path = stage.pathOf('content')
  const whole = readFileSync(path)
  rmSync(path)
  expect(await stage.finding()).toBe(`blob ${sha256OfText('content')} is missing`)
  writeFileSync(path, whole.subarray(1))
  expect(await stage.finding()).toBe(`blob ${sha256OfText('content')} has 6 bytes, not 7`)
  for (let bit = 0; bit < whole.length * 8; bit += 5) {
    const changed = Buffer.from(whole)
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    writeFileSync(path, changed)
    expect(await stage.finding()).toContain('does not match its SHA-256')
  }
  writeFileSync(path, whole)
  expect(await stage.finding()).toBeNull()
  const stray = join(stage.folder, 'attachments', 'ab')
  mkdirSync(stray, { recursive: true })
  writeFileSync(join(stray, 'c'.repeat(62)), '')
  expect(await stage.finding()).toBe(
    `blob ab${'c'.repeat(62)} is stored, but no entry refers to it`,
  )
})

it('leaves exactly the blobs to which entries refer, after any concurrent uploads, rejections and erasures', async () => {
  const text = fc.constantFrom('a', 'b')
  const kind = fc.constantFrom('recorded', 'refused', 'erased')
  const concurrent = fc.array(fc.record({ kind, text, iterations: fc.nat({ max: 12 }) }), {
    maxLength: 24,
  })
  await fc.assert(
    fc.asyncProperty(concurrent, async (list) => {
      const own = mkdtempSync(join(tmpdir(), 'daicho-test-'))
      const rows: string[] = []
      const namedAt = async (sha256: string) => (rows.includes(sha256) ? 0 : null)
      const together = new FileBlobStore(own, { namedAt }, false)
      const pause = async (iterations: number) => {
        for (let iteration = 0; iteration < iterations; iteration += 1)
          await new Promise(setImmediate)
      }
      const run = async ({ kind: what, text: of, iterations }: (typeof list)[number]) => {
        await pause(iterations)
        const sha = sha256OfText(of)
        if (what === 'erased') {
          return together.eraseRows(async () => {
            await pause(iterations)
            for (let at = rows.indexOf(sha); at !== -1; at = rows.indexOf(sha)) rows.splice(at, 1)
            return { result: null, freed: [sha] }
          }, RECORDED.mayBeRecorded)
        }
        return together.add(
          chunksOf(of),
          async () => {
            await pause(iterations)
            if (what === 'refused') throw new Error('no')
            rows.push(sha)
          },
          RECORDED,
        )
      }
      await Promise.allSettled(list.map(run))
      await together.close()
      for (const text of ['a', 'b']) {
        const content = await bytesOf(together, { sha256: sha256OfText(text), length: 1 })
        expect(content?.toString() ?? null).toBe(rows.includes(sha256OfText(text)) ? text : null)
      }
      rmSync(own, { recursive: true, force: true })
    }),
    { numRuns: 60, endOnFailure: true, interruptAfterTimeLimit: 5_000 },
  )
})
