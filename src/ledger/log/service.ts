import { isJsonObject } from '../../base/json.ts'
import { turn } from '../../base/turn.ts'
import {
  entryBundle,
  findItemId,
  type Head,
  hasTile,
  headerText,
  nodesOfTile,
  parseEntryHead,
  parseTile,
  proofFileText,
  proveConsistency,
  proveInclusion,
  type ReadNodes,
  TILE_WIDTH,
  unpackPosition,
  type VerifierKey,
  verifierKeyText,
} from '../../chain/index.ts'
import { type Folder, type StoreReader, storedJson } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Platform } from '../platform.ts'
import { requireDatabase } from '../read/pages.ts'
import type { NodeKey } from './node-key.ts'
import { toOpening } from './openings.ts'
import { requireSignedHead, signedHeadFile, storeEmptyHead, toLogKey } from './signed-head.ts'
import { LogSigning } from './signing.ts'
import { LedgerState } from './state.ts'
import type { SignerStart } from './thread.ts'
import { type SignedNote, Witnesses, type WitnessesOptions } from './witnesses.ts'

export interface SignedHeads {
  /** Returns a recent signed head. `committed` is the number of blocks in the store. */
  newest(committed: number): Promise<SignedNote>
  /** Returns a signed head of at least `size` blocks. */
  covering(size: number): Promise<SignedNote>
}

/** Position of an entry in the chain. */
export interface EntryPath {
  readonly height: number
  readonly index: number
}

/** A consistency proof between two sizes of the log. */
export interface Consistency {
  readonly from: number
  readonly to: number
  readonly proof: readonly Uint8Array[]
}

export interface OpenLogOptions {
  readonly platform: Platform
  readonly witnesses: WitnessesOptions
  /** Receives the last block of each signed head. */
  readonly noteSigned: (head: Pick<Head, 'height' | 'id'>) => void
}

export interface OpenedLog {
  readonly log: LedgerLog
  readonly signing: LogSigning
  readonly witnesses: Witnesses
  readonly closeLog: () => Promise<void>
}

/**
 * Opens the log of the node in `folder`.
 * Errors: STORE_ROLLED_BACK, LOG_CONTRADICTED, LOG_HEAD_DAMAGED, WITNESS_INVALID.
 */
export async function openLog(
  {
    path,
    durable,
    location,
    followsState,
  }: Pick<Folder, 'path' | 'durable'> & Pick<SignerStart, 'location' | 'followsState'>,
  store: StoreReader,
  key: NodeKey,
  { platform, witnesses: options, noteSigned }: OpenLogOptions,
): Promise<OpenedLog> {
  if (durable) {
    const signedHead = signedHeadFile(path)
    await requireSignedHead(store, signedHead)
    storeEmptyHead(signedHead, key)
  }
  const { verifier, privateKey } = toLogKey(key)
  const signing = new LogSigning(
    { folder: path, location, durable, verifier, privateKey, followsState },
    platform,
  )
  const prove = (from: number, to: number) => {
    // Refreshes the reader, because the signing thread may already have signed a block that the reader has not seen.
    store.refresh()
    return proveConsistency(from, to, (nodes) => store.treeNodes(store.serverId, nodes))
  }
  const witnesses = new Witnesses(options, prove, platform)
  signing.onSigned = (signed) => {
    if (signed.head !== null) noteSigned(signed.head)
    witnesses.ask(signed)
  }
  const cosigned = (signed: SignedNote) => witnesses.cosigned(signed)
  const state = new LedgerState(path, store, signing)
  const closeLog = async () => {
    witnesses.close()
    // Before the writer of its file, so that the writer leaves no write-ahead log.
    state.close()
    await signing.close()
  }
  const log = new LedgerLog(store, signing, verifier, { cosigned, state })
  return { log, signing, witnesses, closeLog }
}

/** The log of a chain. It proves that the node keeps a single history and only appends to it. */
export class LedgerLog {
  readonly #store: StoreReader
  readonly #signing: SignedHeads
  readonly #verifier: VerifierKey
  readonly #cosigned: (signed: SignedNote) => Promise<string>
  readonly #readNodes: ReadNodes
  /** The signed state; null for the log of a mirror. */
  readonly state: LedgerState | null

  /** `cosigned` returns the note with the cosignatures of witnesses; default: the note unchanged. */
  constructor(
    store: StoreReader,
    signing: SignedHeads,
    verifier: VerifierKey,
    {
      cosigned = async ({ note }) => note,
      state = null,
    }: {
      readonly cosigned?: (signed: SignedNote) => Promise<string>
      readonly state?: LedgerState | null
    } = {},
  ) {
    this.state = state
    this.#store = store
    this.#signing = signing
    this.#verifier = verifier
    this.#cosigned = cosigned
    this.#readNodes = (nodes) => store.treeNodes(store.serverId, nodes)
  }

  /** The verifier key of the checkpoints, in C2SP form. */
  get verifierKey(): string {
    return verifierKeyText(this.#verifier)
  }

  /** Returns a recent checkpoint as a signed note, with the cosignatures that arrive in time. Errors: LOG_…. */
  async checkpoint(): Promise<string> {
    return this.#cosigned(await this.#newest())
  }

  /**
   * Returns the tile, or the bundle of entries, at `path` below `…/tile/`.
   * Errors: TILE_UNKNOWN.
   */
  async tile(path: string): Promise<Uint8Array> {
    const tile = parseTile(path)
    if (tile === null || !hasTile(tile, await this.#committed())) {
      throw new LedgerError('TILE_UNKNOWN', 'the log has no such tile')
    }
    const { level, index, width } = tile
    if (level !== 'entries') return Buffer.concat(await this.#readNodes(nodesOfTile(level, tile)))
    const { serverId } = this.#store
    const headers = await this.#store.headers(serverId, index * TILE_WIDTH, width)
    return entryBundle(headers.map((header) => Buffer.from(headerText(header))))
  }

  /**
   * Proves that the log of `to` blocks begins with the log of `from` blocks. If `to` is null, uses the size of a recent
   * signed head. Errors: SIZE_UNKNOWN, LOG_….
   */
  async consistency(from: number, to: number | null): Promise<Consistency> {
    const size = to ?? (await this.#newest()).size
    if (!(from <= size && size <= (await this.#committed()))) {
      throw new LedgerError(
        'SIZE_UNKNOWN',
        '`from` and `to` must be sizes of the log, and `from` must not be larger than `to`',
      )
    }
    await this.#signing.covering(size)
    const proof = await proveConsistency(from, size, this.#readNodes)
    return { from, to: size, proof }
  }

  /**
   * Returns the proof file of the current revision of an item, or of its entry at `path`, which may belong to an earlier
   * database of the name. Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, POSITION_INVALID, LOG_….
   */
  async proof(db: string, id: string, path: EntryPath | null): Promise<string> {
    const { height, index } = path ?? (await this.#currentPath(db, id))
    const size = Math.min(height + 1, await this.#committed())
    const signed = await this.#signing.covering(size)
    const note = await this.#cosigned(signed)
    // Reads the block only now: a block of 10 MB must not wait in memory, and takes long to read and to encode.
    await turn()
    const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
    const text = block?.height === height ? block.entries[index] : undefined
    if (block === undefined || text === undefined || !isOfItem(text, db, id)) {
      throw new LedgerError(
        'POSITION_INVALID',
        `there is no entry of item ${id} of ${db} at this position`,
      )
    }
    const opening = toOpening(block, index)
    const inclusion = await proveInclusion(height, signed.size, this.#readNodes)
    return proofFileText({ opening, height, path: inclusion, checkpoint: note })
  }

  async #currentPath(db: string, id: string): Promise<EntryPath> {
    await requireDatabase(this.#store, db)
    // The item may have 10 MB, which are read with its position.
    await turn()
    const item = await this.#store.item(db, id)
    if (item !== null) return unpackPosition(item.revision)
    throw new LedgerError('ITEM_NOT_FOUND', `there is no item ${id} in ${db}`)
  }

  async #newest(): Promise<SignedNote> {
    return this.#signing.newest(await this.#committed())
  }

  async #committed(): Promise<number> {
    const head = await this.#store.head(this.#store.serverId)
    return head === null ? 0 : head.height + 1
  }
}

function isOfItem(text: string, db: string, id: string): boolean {
  const itemId = findItemId(text)
  if (itemId !== null) return itemId === id && parseEntryHead(text)?.db === db
  const entry = storedJson(text)
  if (!isJsonObject(entry) || entry.db !== db) return false
  return entry.id === id || (isJsonObject(entry.item) && entry.item.id === id)
}
