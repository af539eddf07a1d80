import { isJsonObject, type Json } from '../../base/json.ts'
import {
  type Block,
  commitmentPath,
  type EntryProof,
  entryBundle,
  erasedIn,
  hashAt,
  hasTile,
  headerOf,
  headerText,
  nodeSha256,
  nodesOfTile,
  proofFileText,
  proveConsistency,
  proveInclusion,
  type ReadNodes,
  TILE_WIDTH,
  tileOf,
  unpackPosition,
  type VerifierKey,
  verifierKeyText,
} from '../../chain/index.ts'
import { type StoreReader, storedJson } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Signed } from './signer.ts'

/** The signed heads of a log. */
export interface SignedHeads {
  /** The newest one, `committed` blocks being there. */
  newest(committed: number): Promise<Signed>
  /** One of `size` blocks or more. */
  covering(size: number): Promise<Signed>
}

/** The place of an entry in the chain. */
export interface EntryPlace {
  readonly height: number
  readonly index: number
}

/** A consistency proof between two sizes of the log. */
export interface Consistency {
  readonly from: number
  readonly to: number
  readonly proof: readonly Uint8Array[]
}

/** The log of a chain: what shows others that its node keeps one history, and only adds to it. */
export class LedgerLog {
  readonly #store: StoreReader
  readonly #signing: SignedHeads
  readonly #verifier: VerifierKey
  readonly #readNodes: ReadNodes

  constructor(store: StoreReader, signing: SignedHeads, verifier: VerifierKey) {
    this.#store = store
    this.#signing = signing
    this.#verifier = verifier
    this.#readNodes = (nodes) => store.treeNodes(store.serverId, nodes)
  }

  /** The key that checkpoints are verified with, as C2SP writes it. */
  get verifierKey(): string {
    return verifierKeyText(nodeSha256, this.#verifier)
  }

  /** The newest checkpoint as a signed note. Errors: LOG_…. */
  async checkpoint(): Promise<string> {
    return (await this.#newest()).note
  }

  /**
   * The bytes of the tile, or of the bundle of entries, that `path` names below `…/tile/`.
   * Errors: TILE_UNKNOWN.
   */
  async tile(path: string): Promise<Uint8Array> {
    const tile = tileOf(path)
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
   * Proves that the log of `to` blocks begins with the one of `from`; null is the newest signed one.
   * Errors: SIZE_UNKNOWN, LOG_….
   */
  async consistency(from: number, to: number | null): Promise<Consistency> {
    const size = to ?? (await this.#newest()).size
    if (!(from <= size && size <= (await this.#committed()))) {
      throw new LedgerError(
        'SIZE_UNKNOWN',
        'from and to are sizes of the log, the smaller one first',
      )
    }
    await this.#signing.covering(size)
    const proof = await proveConsistency(nodeSha256, from, size, this.#readNodes)
    return { from, to: size, proof }
  }

  /**
   * The proof file of the current revision of an item, or of the entry at `place`, which must be one
   * of this item. Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, POSITION_INVALID, LOG_….
   */
  async proof(db: string, id: string, place: EntryPlace | null): Promise<string> {
    const { block, index } = await this.#entryOf(db, id, place)
    const { size, note } = await this.#signing.covering(block.height + 1)
    const path = await proveInclusion(nodeSha256, block.height, size, this.#readNodes)
    return proofFileText({
      opening: openingOf(block, index),
      height: block.height,
      path,
      checkpoint: note,
    })
  }

  async #entryOf(
    db: string,
    id: string,
    place: EntryPlace | null,
  ): Promise<{ block: Block; index: number }> {
    const { height, index } = place ?? (await this.#currentPlace(db, id))
    const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
    const text = block?.height === height ? block.entries[index] : undefined
    if (block === undefined || text === undefined || !isOfItem(storedJson(text), db, id)) {
      throw new LedgerError('POSITION_INVALID', `no entry of item ${id} of ${db} stands there`)
    }
    return { block, index }
  }

  async #currentPlace(db: string, id: string): Promise<EntryPlace> {
    const item = await this.#store.item(db, id)
    if (item !== null) return unpackPosition(item.revision)
    if ((await this.#store.database(db)) === null) {
      throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
    }
    throw new LedgerError('ITEM_NOT_FOUND', `there is no item ${id} in ${db}`)
  }

  async #newest(): Promise<Signed> {
    return this.#signing.newest(await this.#committed())
  }

  async #committed(): Promise<number> {
    const head = await this.#store.head(this.#store.serverId)
    return head === null ? 0 : head.height + 1
  }
}

function isOfItem(entry: Json, db: string, id: string): boolean {
  if (!isJsonObject(entry) || entry.db !== db) return false
  return entry.id === id || (isJsonObject(entry.item) && entry.item.id === id)
}

function openingOf(block: Block, position: number): EntryProof['opening'] {
  const place = {
    header: headerText(headerOf(block)),
    count: block.entries.length,
    position,
    path: commitmentPath(block.commitments, position),
  }
  if (erasedIn(block).has(position)) {
    return { ...place, commitment: hashAt(block.commitments, position) }
  }
  return {
    ...place,
    entry: block.entries[position] ?? '',
    timestamp: block.timestamps[position] ?? 0,
    blind: hashAt(block.blinds, position),
  }
}
