import type { StoredBlob } from '../store.ts'

/** Outcome of recording a blob in `add`. */
export interface RecordOutcome<Result> {
  /** Whether an entry names the blob now. */
  isRecorded(result: Result): boolean
  /** Whether an entry may name the blob although recording failed. */
  mayBeRecorded(error: unknown): boolean
}

/** A blob that is open for reading. */
export interface OpenBlob {
  /** Bytes that are stored, which may be fewer than an entry names. */
  readonly length: number
  /**
   * Fills `target` with the bytes from offset `at`; returns their number, which is smaller than the length of
   * `target` only at the end. Errors: STORE_FAILED.
   */
  read(target: Uint8Array, at: number): Promise<number>
  close(): Promise<void>
}

/**
 * The bytes of attachments of one chain. Each blob is named by its SHA-256 and stored once, as long as an entry names
 * it. An entry never names a missing blob, not even after a crash.
 */
export interface BlobStore {
  /** Removes the leftovers of a killed process; call before anything else. */
  recover(): Promise<void>
  /**
   * Continues after a process was killed before the rows existed: removes incoming bytes and keeps blobs.
   * The next start, which has rows, checks which blobs they name.
   */
  recoverWithoutRows(): Promise<void>
  /**
   * Receives a blob and calls `record` once it is durable. If `record` fails or records nothing, the blob is removed,
   * unless other entries name it; if the outcome is unknown, the next start decides. A chunk is not used after the next
   * chunk is requested.
   * Errors: as for `chunks` and `record`; STORE_FULL, STORE_FAILED. They leave nothing behind.
   */
  add<Result>(
    chunks: AsyncIterable<Uint8Array>,
    record: (blob: StoredBlob) => Promise<Result>,
    outcome: RecordOutcome<Result>,
  ): Promise<Result>
  /** Returns whether a blob is complete, and how many of its bytes are stored. */
  progress(blob: StoredBlob): Promise<{ isComplete: boolean; bytes: number }>
  /**
   * Adds a part of a blob that rows name, from another node: `bytes` starts at offset `from`. Returns how
   * many bytes are stored then, which is the offset of the next part, even if this part had another offset. A
   * blob that no row names when it is complete is removed at once.
   * Errors: CONTENT_DIFFERS, after which the blob is removed; STORE_FULL, STORE_FAILED.
   */
  addPart(blob: StoredBlob, from: number, bytes: Uint8Array): Promise<number>
  /**
   * Runs `erase`, which removes rows, and then removes the blobs in `freed` that no other row names.
   * `recover` removes them after a crash in between, after an error with `mayBeRecorded`, and if a blob
   * cannot be removed. Errors: as for `erase`; STORE_FAILED.
   */
  eraseRows<Result>(
    erase: () => Promise<{ result: Result; freed: readonly string[] }>,
    mayBeRecorded: (error: unknown) => boolean,
  ): Promise<Result>
  /**
   * Opens a blob whose first byte can be read; the caller closes it. Returns null if it is missing or
   * incomplete. Errors: STORE_FAILED.
   */
  read(blob: StoredBlob): Promise<OpenBlob | null>
  /** Waits for running calls, whose sources must have ended before. */
  close(): Promise<void>
}

/** The blobs that are stored, named by entries or not, for their verification. */
export interface BlobInventory {
  /** Opens a blob of any length; returns null if it does not exist. */
  open(sha256: string): Promise<OpenBlob | null>
  /** Lists at least the blobs that no entry names, and the path of any other file. */
  list(): AsyncIterable<{ readonly sha256: string } | { readonly otherPath: string }>
  /** Returns whether a blob that no entry names may be arriving, or be left by a killed process. */
  mayBeUnnamed(sha256: string): Promise<boolean>
  close(): Promise<void>
}
