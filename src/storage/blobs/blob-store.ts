import type { StoredBlob } from '../port/store.ts'

/** Tells `add`, from the result or the error of `record`, whether an entry refers to the blob. */
export interface RecordOutcome<Result> {
  /** Whether an entry refers to the blob now. */
  isRecorded(result: Result): boolean
  /** Whether an entry may refer to the blob although recording failed. */
  mayBeRecorded(error: unknown): boolean
}

export interface OpenBlob {
  /** Number of stored bytes, which may be smaller than the length in an entry. */
  readonly length: number
  /**
   * Fills `target` with the bytes from offset `at`; returns their number, which is smaller than the length of
   * `target` only at the end. Errors: STORE_FAILED.
   */
  read(target: Uint8Array, at: number): Promise<number>
  close(): Promise<void>
}

/**
 * The blobs of the attachments of one chain. The name of a blob is its SHA-256. Each blob is stored once, as long as an
 * entry refers to it. No entry ever refers to a missing blob, not even after a crash.
 */
export interface BlobStore {
  /** Removes the leftovers of a killed process. Must be called before all other methods. */
  recover(): Promise<void>
  /**
   * Like `recover`, but for a store whose rows of attachments do not exist yet: removes incomplete uploads, and keeps
   * complete and partial blobs. The next start, which has rows, removes the blobs to which no row refers.
   */
  recoverWithoutRows(): Promise<void>
  /**
   * Receives a blob and calls `record` once the blob is durable. If `record` fails or records nothing, the blob is
   * removed, unless other entries refer to it. If the outcome is unknown, the blob stays until the next start, which
   * removes it if no entry refers to it. A chunk is not used after the next chunk is requested. Errors: as for `chunks`
   * and `record`; STORE_FULL, STORE_FAILED.
   */
  add<Result>(
    chunks: AsyncIterable<Uint8Array>,
    record: (blob: StoredBlob) => Promise<Result>,
    outcome: RecordOutcome<Result>,
  ): Promise<Result>
  /** Returns whether a blob is complete, and how many of its bytes are stored. */
  progress(blob: StoredBlob): Promise<{ isComplete: boolean; bytes: number }>
  /**
   * Adds a part of a blob from another node. `bytes` starts at offset `from`; a part with an unexpected offset is
   * ignored. Returns the number of stored bytes, which is the offset of the next part. If no row refers to the complete
   * blob, it is removed at once. Errors: CONTENT_DIFFERS, after which the blob must be sent again; STORE_FULL,
   * STORE_FAILED.
   */
  addPart(blob: StoredBlob, from: number, bytes: Uint8Array): Promise<number>
  /**
   * Runs `erase`, which removes rows, and then removes the blobs in `freed` to which no other row refers. If a crash,
   * an error with `mayBeRecorded` or a failed removal prevents this, the next `recover` removes these blobs. Errors: as
   * for `erase`; STORE_FAILED.
   */
  eraseRows<Result>(
    erase: () => Promise<{ result: Result; freed: readonly string[] }>,
    mayBeRecorded: (error: unknown) => boolean,
  ): Promise<Result>
  /**
   * Opens a blob after checking that its first byte can be read. Returns null if the blob is missing or incomplete. The
   * caller closes the blob. Errors: STORE_FAILED.
   */
  read(blob: StoredBlob): Promise<OpenBlob | null>
  /** Waits for running calls. Their `chunks` must have ended before. */
  close(): Promise<void>
}

/** All stored blobs, for their verification. */
export interface BlobInventory {
  /** Opens a blob of any length; returns null if it does not exist. */
  open(sha256: string): Promise<OpenBlob | null>
  /** Lists at least the blobs to which no entry refers, and the path of any other file. */
  list(): AsyncIterable<{ readonly sha256: string } | { readonly otherPath: string }>
  /** Returns whether a blob to which no entry refers may be arriving, or may be left by a killed process. */
  mayBeUnnamed(sha256: string): Promise<boolean>
  close(): Promise<void>
}
