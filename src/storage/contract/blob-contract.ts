import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/support/until.ts'
import type { BlobStore } from '../blobs/blob-store.ts'
import { openBlobInventory, openBlobStore, openStore, openStoreReader } from '../open.ts'
import type { Store, StoredBlob, StoreReader } from '../port/store.ts'
import { verifyBlobs } from '../verify/verify-blobs.ts'
import { bytesOf, chunksOf, RECORDED, sha256OfText } from './test-blobs.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry, textAttachment } from './test-store.ts'

/** A store of blobs, with test functions that depend on its implementation. */
export interface BlobsUnderTest {
  readonly location: string
  /** Replaces the stored bytes of a blob; null removes them. */
  damage(sha256: string, bytes: Buffer | null): Promise<void>
  /** Removes rows of attachments, as an erasure does. */
  eraseRows(positions: readonly number[]): Promise<void>
  /** Returns the number of unfinished uploads and of blobs that have arrived only in part. */
  unfinished(): Promise<number>
  /** Makes all uploads look as if their process was killed long ago. */
  abandon(): Promise<void>
  remove(): Promise<void>
}

class Stage {
  readonly under: BlobsUnderTest
  readonly store: Store
  readonly reader: StoreReader
  blobs: BlobStore

  private constructor(
    under: BlobsUnderTest,
    opened: { store: Store; reader: StoreReader; blobs: BlobStore },
  ) {
    this.under = under
    this.store = opened.store
    this.reader = opened.reader
    this.blobs = opened.blobs
  }

  /** Opens a store with the item `a` of `fruit`, and its blobs. Removes the store and the blobs after the test. */
  static async open(make: () => Promise<BlobsUnderTest>): Promise<Stage> {
    const under = await make()
    const { location } = under
    const store = await openStore({ location, serverId: CONTRACT_SERVER_ID, durable: true })
    await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
    const reader = await openStoreReader(location, { frozen: false })
    const blobs = await openBlobStore(location, reader, true)
    const stage = new Stage(under, { store, reader, blobs })
    onTestFinished(async () => {
      await stage.blobs.close()
      await reader.close()
      await store.close()
      await under.remove()
    })
    return stage
  }

  /** Opens the blobs again, like the next process. With `crashed`, the last process counts as killed. */
  async restart(crashed: boolean): Promise<void> {
    if (crashed) await this.under.abandon()
    await this.blobs.close()
    this.blobs = await openBlobStore(this.under.location, this.reader, true)
    await this.blobs.recover()
  }

  record(name: string, text: string): Promise<void> {
    return this.recordBlob(name, textAttachment(name, text))
  }

  async recordBlob(name: string, { sha256, length }: StoredBlob): Promise<void> {
    const attachment = { content_type: 'text/plain', length, name, sha256 }
    const fields = { method: 'create_attachment', db: 'fruit', id: 'a' } as const
    await appendEntries(this.store, [{ serverid: CONTRACT_SERVER_ID, ...fields, attachment }])
    this.reader.refresh()
  }

  /** Adds the bytes in chunks, and records them as attachment `name`. */
  addBytes(name: string, bytes: Buffer): Promise<StoredBlob> {
    const pieces = async function* () {
      for (let at = 0; at < bytes.length; at += 77_777) yield bytes.subarray(at, at + 77_777)
    }
    const record = async (blob: StoredBlob) => {
      await this.recordBlob(name, blob)
      return blob
    }
    return this.blobs.add(pieces(), record, RECORDED)
  }

  /** Adds `text`, and records it. */
  put(name: string, text: string): Promise<void> {
    const chunks = chunksOf(text.slice(0, 3), text.slice(3))
    return this.blobs.add(
      chunks,
      async ({ sha256, length }) => {
        expect([sha256, length]).toEqual([sha256OfText(text), Buffer.byteLength(text)])
        expect(await this.stored(text)).toBe(text)
        await this.record(name, text)
      },
      RECORDED,
    )
  }

  /** Adds `text`, but `record` rejects it. */
  refuse(text: string): Promise<void> {
    const refusing = () => Promise.reject(new Error('refused'))
    return this.blobs.add(chunksOf(text), refusing, RECORDED)
  }

  /** Erases the attachments `names`, whose blobs have the `texts`. */
  erase(texts: readonly string[], ...names: readonly string[]): Promise<void> {
    return this.blobs.eraseRows(async () => {
      const rows = await this.reader.attachments.byPosition(-1, 10)
      const erased = rows.filter(({ name }) => names.includes(name))
      await this.under.eraseRows(erased.map(({ position }) => position))
      this.reader.refresh()
      return { result: undefined, freed: texts.map(sha256OfText) }
    }, RECORDED.mayBeRecorded)
  }

  /** Returns the stored bytes of the blob of `text`, or null. */
  async stored(text: string): Promise<string | null> {
    const inventory = await openBlobInventory(this.under.location)
    try {
      const blob = await inventory.open(sha256OfText(text))
      if (blob === null) return null
      const bytes = Buffer.alloc(blob.length)
      await blob.read(bytes, 0)
      await blob.close()
      return bytes.toString()
    } finally {
      await inventory.close()
    }
  }

  async finding(): Promise<string | null> {
    const frozen = await openStoreReader(this.under.location, { frozen: true })
    try {
      return (await verifyBlobs(frozen, this.under.location)).finding?.what ?? null
    } finally {
      await frozen.close()
    }
  }
}

/** Tests the guarantees of every store of blobs. */
export function describeBlobs(name: string, make: () => Promise<BlobsUnderTest>): void {
  describe(`blobs on ${name}`, () => {
    let stage: Stage
    beforeEach(async () => {
      stage = await Stage.open(make)
    })

    it('blobs are complete before their entry is recorded, and are stored once if their bytes are equal', async () => {
      await stage.put('one', 'the same')
      await Promise.all([stage.refuse('the same'), stage.refuse('another')].map(settled))
      await stage.put('two', 'the same')
      expect(await stage.under.unfinished()).toBe(0)
      expect(await stage.stored('the same')).toBe('the same')
      expect(await stage.stored('another')).toBeNull()
      expect(await stage.finding()).toBeNull()
    })

    it('blobs have any length, arrive in chunks of any length, and are read byte for byte', async () => {
      for (const length of [0, 1, 262_143, 262_144, 262_145, 1_048_576, 1_500_000]) {
        const bytes = Buffer.from(new Uint8Array(length).map((_, at) => (at * 7 + length) & 255))
        const blob = await stage.addBytes(`n${length}`, bytes)
        expect(blob.length).toBe(length)
        expect((await bytesOf(stage.blobs, blob))?.equals(bytes)).toBe(true)
      }
    })

    it('blobs are read from any offset', async () => {
      const bytes = randomBytes(1_200_000)
      const blob = await stage.addBytes('n', bytes)
      const opened = await stage.blobs.read(blob)
      for (const [at, count] of [
        [0, 1],
        [524_287, 2],
        [524_288, 262_144],
        [262_144, 900_000],
        [1_199_999, 1],
      ] as const) {
        const target = Buffer.alloc(count)
        expect([at, await opened?.read(target, at)]).toEqual([at, count])
        expect(target.equals(bytes.subarray(at, at + count))).toBe(true)
      }
      expect(await opened?.read(Buffer.alloc(10), 1_199_995)).toBe(5)
      expect(await opened?.read(Buffer.alloc(10), 1_200_000)).toBe(0)
      await opened?.close()
      expect(await stage.blobs.read({ ...blob, length: 1_199_999 })).toBeNull()
      expect(await stage.blobs.read({ sha256: sha256OfText('none'), length: 0 })).toBeNull()
    })

    it('blobs are reported by a verification if they are damaged, and are repaired by another upload', async () => {
      await stage.put('one', 'precious')
      await stage.under.damage(sha256OfText('precious'), Buffer.from('precioux'))
      expect(await stage.finding()).toContain('does not match its SHA-256')
      await stage.under.damage(sha256OfText('precious'), Buffer.from('prec'))
      expect(await stage.finding()).toContain('has 4 bytes, not 8')
      await stage.put('two', 'precious')
      expect(await stage.finding()).toBeNull()
      await stage.under.damage(sha256OfText('precious'), null)
      expect(await stage.finding()).toContain('is missing')
    })

    it('blobs leave no bytes after an aborted upload or a rejected entry', async () => {
      async function* broken(): AsyncGenerator<Uint8Array> {
        yield Buffer.alloc(600_000)
        throw new Error('broken off')
      }
      const aborted = stage.blobs.add(broken(), async () => {}, RECORDED)
      await expect(aborted).rejects.toThrow('broken off')
      await expect(stage.refuse('rejected')).rejects.toThrow('refused')
      expect(await stage.under.unfinished()).toBe(0)
      expect(await stage.stored('rejected')).toBeNull()
      expect(await stage.finding()).toBeNull()
    })

    it('blobs stay after a rejected upload if another upload of the same bytes has recorded them or will record them', async () => {
      const steps: string[] = []
      let goOn = () => {}
      const halted = new Promise<void>((resolve) => {
        goOn = resolve
      })
      const record = async () => {
        steps.push('placed')
        await halted
        await stage.record('n', 'shared')
      }
      const first = stage.blobs.add(chunksOf('shared'), record, RECORDED)
      await until('the blob is placed', () => steps.length === 1)
      await expect(stage.refuse('shared')).rejects.toThrow('refused')
      expect(await stage.stored('shared')).toBe('shared')
      goOn()
      await first
      await expect(stage.refuse('shared')).rejects.toThrow('refused')
      expect(await stage.stored('shared')).toBe('shared')
    })

    it('blobs are removed if no entry was recorded for them, unless other entries refer to them', async () => {
      await stage.put('one', 'named')
      const nothing = { isRecorded: () => false, mayBeRecorded: () => false }
      for (const text of ['named', 'unnamed']) {
        const repeated = stage.blobs.add(chunksOf(text), async () => 'answered before', nothing)
        expect(await repeated).toBe('answered before')
      }
      expect(await stage.stored('named')).toBe('named')
      expect(await stage.stored('unnamed')).toBeNull()
      expect(await stage.finding()).toBeNull()
    })

    it('blobs stay if it is unknown whether their entry was recorded, until the next start removes those without an entry', async () => {
      const unknown = { isRecorded: () => true, mayBeRecorded: () => true }
      const record = async ({ sha256 }: StoredBlob) => {
        if (sha256 === sha256OfText('recorded')) await stage.record('n', 'recorded')
        throw new Error('unknown')
      }
      for (const text of ['recorded', 'not recorded']) {
        const added = stage.blobs.add(chunksOf(text), record, unknown)
        await expect(added).rejects.toThrow('unknown')
      }
      expect(await stage.stored('not recorded')).toBe('not recorded')
      expect(await stage.finding()).toBeNull()
      await stage.restart(true)
      expect(await stage.stored('recorded')).toBe('recorded')
      expect(await stage.stored('not recorded')).toBeNull()
      expect(await stage.under.unfinished()).toBe(0)
    })

    it('blobs are removed when their last entry is erased', async () => {
      await stage.put('one', 'mine')
      await stage.put('two', 'shared')
      await stage.put('three', 'shared')
      await stage.erase(['mine', 'shared'], 'one', 'two')
      expect(await stage.stored('mine')).toBeNull()
      expect(await stage.stored('shared')).toBe('shared')
      await stage.erase(['shared'], 'three')
      expect(await stage.stored('shared')).toBeNull()
      expect(await stage.finding()).toBeNull()
    })

    it('blobs are removed by the next start after a crash between an erasure and their removal', async () => {
      await stage.put('one', 'mine')
      const crashed = stage.blobs.eraseRows(
        async () => {
          const rows = await stage.reader.attachments.byPosition(-1, 10)
          await stage.under.eraseRows(rows.map(({ position }) => position))
          stage.reader.refresh()
          throw new Error('killed')
        },
        () => true,
      )
      await expect(crashed).rejects.toThrow('killed')
      expect(await stage.stored('mine')).toBe('mine')
      expect(await stage.finding()).toBeNull()
      await stage.restart(true)
      expect(await stage.stored('mine')).toBeNull()
      expect(await stage.finding()).toBeNull()
    })

    describe('that arrive in parts', () => {
      const text = 'from elsewhere'
      const content = { sha256: sha256OfText(text), length: text.length }
      const add = (from: number, part: string, of = content) =>
        stage.blobs.addPart(of, from, Buffer.from(part))

      beforeEach(() => stage.record('n', text))

      it('blobs that arrive in parts can be read only after their last part has arrived', async () => {
        expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 0 })
        expect(await add(0, text.slice(0, 4))).toBe(4)
        expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 4 })
        expect(await stage.stored(text)).toBeNull()
        expect(await add(4, text.slice(4))).toBe(text.length)
        const complete = { isComplete: true, bytes: text.length }
        expect(await stage.blobs.progress(content)).toEqual(complete)
        expect(await stage.stored(text)).toBe(text)
        expect(await stage.under.unfinished()).toBe(0)
        // A repeated part changes nothing.
        expect(await add(0, 'x')).toBe(text.length)
        expect(await stage.stored(text)).toBe(text)
        expect(await stage.finding()).toBeNull()
      })

      it('blobs that arrive in parts ignore a part with an unexpected offset, and return the expected offset', async () => {
        expect(await add(2, text.slice(2))).toBe(0)
        expect(await add(0, text.slice(0, 4))).toBe(4)
        expect(await add(0, text.slice(0, 6))).toBe(4)
        expect(await add(5, text.slice(5))).toBe(4)
        const twice = [add(4, text.slice(4, 9)), add(4, text.slice(4, 9))]
        expect(await Promise.all(twice)).toEqual([9, 9])
        expect(await add(9, text.slice(9))).toBe(text.length)
        expect(await stage.stored(text)).toBe(text)
      })

      it('blobs that arrive in parts continue after a restart', async () => {
        await add(0, text.slice(0, 4))
        await stage.restart(false)
        expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 4 })
        expect(await add(4, text.slice(4))).toBe(text.length)
        expect(await stage.stored(text)).toBe(text)
      })

      it('blobs that arrive in parts are rejected if their bytes are wrong or too many, and then start again from the first part', async () => {
        for (const parts of [
          ['from elsewherE'],
          ['from', ' elsewherE'],
          [`${text}!`],
          ['', 'x'.repeat(14)],
        ]) {
          const all = async () => {
            let arrived = 0
            for (const part of parts) arrived = await add(arrived, part)
            return arrived
          }
          const outcome = await all().catch(({ code }) => code)
          expect([parts, outcome]).toEqual([parts, parts[0] === `${text}!` ? 0 : 'CONTENT_DIFFERS'])
          expect(await stage.blobs.progress(content)).toEqual({ isComplete: false, bytes: 0 })
        }
        expect(await add(0, text)).toBe(text.length)
      })

      it('blobs that arrive in parts are complete after their first part if they are empty', async () => {
        const empty = { sha256: sha256OfText(''), length: 0 }
        await stage.record('n', '')
        expect(await stage.blobs.progress(empty)).toEqual({ isComplete: false, bytes: 0 })
        expect(await add(0, '', empty)).toBe(0)
        expect(await stage.blobs.progress(empty)).toEqual({ isComplete: true, bytes: 0 })
      })

      it('blobs that arrive in parts stay removed if their entry is erased during the transfer', async () => {
        await add(0, text.slice(0, 4))
        await stage.erase([text], 'n')
        expect(await stage.under.unfinished()).toBe(0)
        expect(await add(0, text)).toBe(text.length)
        expect(await stage.stored(text)).toBeNull()
        expect(await stage.finding()).toBeNull()
      })
    })
  })
}

const settled = (promise: Promise<unknown>): Promise<unknown> => promise.catch(() => {})
