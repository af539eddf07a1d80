import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { AttachmentReader, StoredBlob } from '../attachments.ts'
import { BlobFiles, withDiskErrors } from './blob-files.ts'
import { BlobParts } from './blob-parts.ts'

/** What became of a content that was to be recorded. */
interface Judgement<Result> {
  /** Whether there is an entry now that names it. */
  isRecorded(result: Result): boolean
  /** Whether there may be one, though recording failed. */
  mayBeRecorded(error: unknown): boolean
}

/** Bytes that are gathered before they are written. */
const BLOCK_BYTES = 256 * 1024
/** Brought to the disk after as many, so that the last wait, and everyone else's, stays short. */
const SYNC_BYTES = 32 * 1024 * 1024

/**
 * The bytes that entries about attachments name: each content is a file of its own, kept once under
 * its SHA-256, whoever sent it, for as long as a row of the store names it.
 *
 * What a crash leaves, at each point of `take`:
 * - while bytes arrive, or before the file is in its place: a file in `incoming/`, which `recover`
 *   removes;
 * - before the entry is durable: a content that no row names, which `recover` removes;
 * - after that: the content, whole and on the disk, with its entry.
 * So an entry never names a content that is not there.
 *
 * Placing and removing take turns by content, and a content that an upload has placed is held until
 * its entry is durable or refused: whoever removes looks at the rows within such a turn, so neither
 * equal uploads nor a removal at the same time lose a file.
 */
export class BlobStore {
  readonly #files: BlobFiles
  readonly #parts: BlobParts
  readonly #rows: Pick<AttachmentReader, 'namedAt'>
  readonly #durable: boolean
  /** The last turn of each content that is being placed or removed. */
  readonly #turns = new Map<string, Promise<unknown>>()
  /** How many uploads have placed a content and wait for their entry. */
  readonly #held = new Map<string, number>()
  readonly #working = new Set<Promise<unknown>>()
  #begun: Promise<void> | null = null
  #number = 0
  /** Whether the next start has to look for what is left. */
  #unsettled = false

  /** `durable` false: the folder is thrown away, nothing waits for the disk. */
  constructor(folder: string, rows: Pick<AttachmentReader, 'namedAt'>, durable: boolean) {
    this.#files = new BlobFiles(folder, durable)
    this.#parts = new BlobParts(this.#files, durable)
    this.#rows = rows
    this.#durable = durable
  }

  /** Removes what a killed process left, before anything else is done. */
  async recover(): Promise<void> {
    if (!(await this.#files.isUnsettled())) return
    for await (const found of this.#files.list()) {
      if ('sha256' in found) await this.#removeUnlessNamed(found.sha256)
    }
    await this.#files.clearIncoming(async (sha256) => (await this.#rows.namedAt(sha256)) !== null)
    await this.#files.end()
  }

  /**
   * Goes on where a process was killed before it had rows: what was arriving goes, what is in its place
   * stays, and the next start, which has rows, looks which of it they name.
   */
  async resume(): Promise<void> {
    if (!(await this.#files.isUnsettled())) return
    await this.#files.clearIncoming(async () => true)
    this.#unsettled = true
  }

  /**
   * Takes a content as it arrives: when `record` is called it is on the disk in its place, and when
   * `record` fails, or has recorded nothing, it goes again, unless others name it. When nobody knows,
   * it stays until the next start, which does.
   * Errors: those of `chunks` and `record`; STORE_FULL, STORE_FAILED. Nothing is left then.
   */
  take<Result>(
    chunks: AsyncIterable<Uint8Array>,
    record: (content: StoredBlob) => Promise<Result>,
    { mayBeRecorded, isRecorded }: Judgement<Result>,
  ): Promise<Result> {
    return this.#tracked(async () => {
      await this.#begin()
      this.#number += 1
      const number = this.#number
      const content = await this.#receive(number, chunks)
      const { sha256 } = content
      try {
        await this.#inTurn(sha256, async () => {
          this.#hold(sha256, 1)
          await this.#files.place(number, sha256)
        })
        const result = await record(content)
        this.#hold(sha256, -1)
        if (!isRecorded(result)) await this.#giveUp(number, sha256)
        return result
      } catch (error) {
        this.#hold(sha256, -1)
        if (mayBeRecorded(error)) this.#unsettled = true
        else await this.#giveUp(number, sha256)
        throw error
      }
    })
  }

  /** Whether a content is in its place, and how many bytes of it are here. */
  async arrived({ sha256, length }: StoredBlob): Promise<{ isWhole: boolean; bytes: number }> {
    const isWhole = (await this.#files.bytesOf(sha256)) === length
    return { isWhole, bytes: isWhole ? length : await this.#files.bytesOfParts(sha256) }
  }

  /**
   * Takes a content that rows name from another node, part by part (`BlobParts.add`). Gives how many
   * bytes are here then. One that no row names by the time it is whole goes at once.
   * Errors: CONTENT_DIFFERS, STORE_FULL, STORE_FAILED.
   */
  addPart(content: StoredBlob, from: number, bytes: Uint8Array): Promise<number> {
    const { sha256, length } = content
    return this.#tracked(async () => {
      await this.#begin()
      const here = await this.#inTurn(sha256, async () => {
        if ((await this.arrived(content)).isWhole) return length
        return this.#parts.add(content, from, bytes)
      })
      if (here === length) await this.#removeUnlessNamed(sha256)
      return here
    })
  }

  /**
   * Runs `erase`, which takes away rows, and when it has removes those of the contents that they named
   * (`freed`) that no row names any more. After a crash in between, `recover` does it; so it does where
   * `mayBeRecorded` says of an error that nobody knows whether the rows are gone, and where a file
   * cannot be removed. Errors: those of `erase`; STORE_FAILED.
   */
  erasing<Result>(
    erase: () => Promise<{ result: Result; freed: readonly string[] }>,
    mayBeRecorded: (error: unknown) => boolean,
  ): Promise<Result> {
    return this.#tracked(async () => {
      // What says at the next start that this one did not come to its end.
      await this.#begin()
      const { result, freed } = await erase().catch((error: unknown) => {
        if (mayBeRecorded(error)) this.#unsettled = true
        throw error
      })
      try {
        for (const sha256 of freed) await this.#removeUnlessNamed(sha256)
      } catch (error) {
        this.#unsettled = true
        throw error
      }
      return result
    })
  }

  /**
   * The file of a content, whose first byte can be read; the caller closes it. Null when it is not there
   * whole. Errors: STORE_FAILED.
   */
  read({ sha256, length }: StoredBlob): Promise<FileHandle | null> {
    return withDiskErrors(async () => {
      const file = await this.#files.read(sha256)
      if (file === null) return null
      try {
        const isWhole = (await file.stat()).size === length
        const bytes = await file.read(Buffer.alloc(1), 0, 1, 0)
        if (isWhole && bytes.bytesRead === Math.min(length, 1)) return file
      } catch (error) {
        await file.close()
        throw error
      }
      await file.close()
      return null
    })
  }

  /** Waits for what is under way, whose sources must have ended. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#working)
    if (this.#begun !== null && !this.#unsettled) await this.#files.end()
  }

  /** What cannot be removed now is removed at the next start. */
  async #giveUp(number: number, sha256: string): Promise<void> {
    try {
      await this.#files.removeIncoming(number)
      await this.#removeUnlessNamed(sha256)
    } catch {
      this.#unsettled = true
    }
  }

  async #receive(number: number, chunks: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const file = await this.#files.createIncoming(number)
    try {
      const content = await this.#write(file, chunks)
      await withDiskErrors(() => file.close())
      return content
    } catch (error) {
      await file.close().catch(() => {})
      // What cannot be removed now is removed at the next start.
      await this.#files.removeIncoming(number).catch(() => {
        this.#unsettled = true
      })
      throw error
    }
  }

  async #write(file: FileHandle, chunks: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const hash = createHash('sha256')
    const blocks = new BlockWriter(file, this.#durable)
    try {
      for await (const chunk of chunks) {
        // A piece of 64 KiB takes some 40 µs; waiting for the next one lets everyone else have a turn.
        hash.update(chunk)
        await blocks.write(chunk)
      }
      await blocks.end()
    } catch (error) {
      await blocks.abandon()
      throw error
    }
    return { sha256: hash.digest('hex'), length: blocks.length }
  }

  #removeUnlessNamed(sha256: string): Promise<void> {
    return this.#inTurn(sha256, async () => {
      // Whoever holds it either records it, or comes here himself when that fails.
      if (this.#held.has(sha256)) return
      if ((await this.#rows.namedAt(sha256)) !== null) return
      await this.#files.removePart(sha256)
      await this.#files.remove(sha256)
    })
  }

  #begin(): Promise<void> {
    this.#begun ??= this.#files.begin().catch((error) => {
      this.#begun = null
      throw error
    })
    return this.#begun
  }

  #hold(sha256: string, by: 1 | -1): void {
    const count = (this.#held.get(sha256) ?? 0) + by
    if (count > 0) this.#held.set(sha256, count)
    else this.#held.delete(sha256)
  }

  async #inTurn<Result>(sha256: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#turns.get(sha256) ?? Promise.resolve()
    const turn = before.then(work, work)
    this.#turns.set(sha256, turn)
    try {
      return await turn
    } finally {
      if (this.#turns.get(sha256) === turn) this.#turns.delete(sha256)
    }
  }

  async #tracked<Result>(work: () => Promise<Result>): Promise<Result> {
    const working = work()
    this.#working.add(working)
    try {
      return await working
    } finally {
      this.#working.delete(working)
    }
  }
}

/** Writes a file in large blocks: one goes to the disk while the other is filled. */
class BlockWriter {
  /** Bytes taken so far. */
  length = 0
  readonly #file: FileHandle
  readonly #durable: boolean
  #block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  #other = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  #filled = 0
  #unsynced = 0
  /** What is under way; it never rejects, but says what went wrong. */
  #writing: Promise<unknown> = Promise.resolve(null)
  #syncing: Promise<unknown> = Promise.resolve(null)

  constructor(file: FileHandle, durable: boolean) {
    this.#file = file
    this.#durable = durable
  }

  /** Takes a copy of `bytes`. Errors: STORE_FULL, STORE_FAILED. */
  async write(bytes: Uint8Array): Promise<void> {
    this.length += bytes.length
    for (let at = 0; at < bytes.length; ) {
      const part = bytes.subarray(at, at + BLOCK_BYTES - this.#filled)
      this.#block.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === BLOCK_BYTES) await this.#flush()
    }
  }

  /** Brings what is left to the disk. Errors: as for `write`. */
  async end(): Promise<void> {
    await this.#flush()
    await settled(this.#writing)
    await settled(this.#syncing)
    if (this.#durable) await withDiskErrors(() => this.#file.sync())
  }

  /** Waits for what is under way, whatever becomes of it: the file is closed next. */
  async abandon(): Promise<void> {
    await Promise.all([this.#writing, this.#syncing])
  }

  async #flush(): Promise<void> {
    await settled(this.#writing)
    const bytes = this.#block.subarray(0, this.#filled)
    this.#block = this.#other
    this.#other = Buffer.from(bytes.buffer, 0, BLOCK_BYTES)
    this.#filled = 0
    this.#writing = outcomeOf(() => writeWhole(this.#file, bytes))
    this.#unsynced += bytes.length
    if (this.#unsynced < SYNC_BYTES || !this.#durable) return
    await settled(this.#syncing)
    this.#unsynced = 0
    this.#syncing = outcomeOf(() => this.#file.datasync())
  }
}

/** Null, or the error of `work`, so that nobody needs to wait for it at once. */
function outcomeOf(work: () => Promise<void>): Promise<unknown> {
  return withDiskErrors(work).then(
    () => null,
    (error: unknown) => error,
  )
}

async function settled(outcome: Promise<unknown>): Promise<void> {
  const error = await outcome
  if (error !== null) throw error
}

async function writeWhole(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at)
    at += bytesWritten
  }
}
