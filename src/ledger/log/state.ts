import { join } from 'node:path'
import { Readable } from 'node:stream'
import { turn } from '../../base/turn.ts'
import {
  equalBytes,
  logOrigin,
  type MapProof,
  mapKey,
  ProofError,
  packPosition,
  parseDatabaseState,
  parseItemState,
  parseStateNote,
  proveInclusion,
  type SignedState,
  stateListEnd,
  stateListHead,
  stateListLine,
  stateProofText,
  unpackPosition,
} from '../../chain/index.ts'
import {
  isFileOutage,
  isReadDamage,
  proveValue,
  readValue,
  requireRoot,
  STATE_FILE,
  StateFile,
  type StoreReader,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { toOpening } from './openings.ts'
import type { LogSigning } from './signing.ts'
import { DATABASES_MAP, itemsMap } from './state-changes.ts'

/** Attempts to prove an item whose revision is erased during the request. */
const ATTEMPTS_MAX = 3

/** Maximum lists that are proven at a time. Each keeps a snapshot of the state. */
const LISTS_MAX = 8
/** All items, in the order of creation. */
const ALL_IDS = {
  where: null,
  order: [],
  after: null,
  offset: 0,
  limit: null,
  text: false,
} as const

/** The signed state of the node's chain: which databases and items there are, and their newest revisions. */
export class LedgerState {
  readonly #path: string
  readonly #store: StoreReader
  readonly #signing: Pick<LogSigning, 'stateCovering' | 'renewState'>
  #file: StateFile | null = null
  /** Number of lists that are being proven. */
  #lists = 0

  constructor(
    folder: string,
    store: StoreReader,
    signing: Pick<LogSigning, 'stateCovering' | 'renewState'>,
  ) {
    this.#path = join(folder, STATE_FILE)
    this.#store = store
    this.#signing = signing
  }

  /** Returns the signed state of all blocks that were committed before the call. Errors: LOG_…. */
  async note(): Promise<string> {
    return (await this.#read(() => ({}))).note
  }

  /** Returns a file that proves the newest revision of an item, or that there is none. Errors: LOG_…. */
  async proof(db: string, id: string): Promise<string> {
    for (let attempt = 1; ; attempt += 1) {
      const { size, position, ...proven } = await this.#read((file, { root }) =>
        proveKey(file, root, { db, id }),
      )
      if (position === null) return stateProofText({ db, id, ...proven, revision: null })
      const { height, index } = unpackPosition(position)
      const { serverId } = this.#store
      // A block of 10 MB takes long to read and to encode.
      await turn()
      const [block] = await this.#store.blocks(serverId, height, 1)
      const opening = block?.height === height ? toOpening(block, index) : null
      if (opening !== null && 'entry' in opening) {
        const path = await proveInclusion(height, size, (nodes) =>
          this.#store.treeNodes(serverId, nodes),
        )
        return stateProofText({ db, id, ...proven, revision: { opening, path } })
      }
      // The item was changed after this state, and the revision was erased.
      if (attempt === ATTEMPTS_MAX) {
        throw new LedgerError(
          'LOG_BEHIND',
          `item ${id} of ${db} is being erased; try again shortly`,
        )
      }
    }
  }

  /**
   * Returns a file that proves all ids and positions of a database, or that there is none, in pieces. Errors: LOG_…, also
   * if LISTS_MAX files are being read.
   */
  async list(db: string): Promise<Readable> {
    await this.note()
    const file =
      this.#lists < LISTS_MAX ? this.#checked(() => StateFile.openSnapshot(this.#path)) : null
    const { size, note } = file?.head() ?? { size: 0, note: null }
    if (file === null || note === null) {
      file?.close()
      throw new LedgerError('LOG_BEHIND', `${LISTS_MAX} lists are being proven; try again shortly`)
    }
    this.#lists += 1
    const list = Readable.from(this.#listPieces(file, db, { size, note }))
    // Unlike the end of a generator, this event also comes if nobody has read the list.
    return list.once('close', () => {
      this.#lists -= 1
      file.close()
    })
  }

  async *#listPieces(
    file: StateFile,
    db: string,
    { size, note }: { readonly size: number; readonly note: string },
  ): AsyncGenerator<string, void> {
    const { root } = this.#parsed(note)
    const proof = this.#checked(() => proveValue(file.pages(DATABASES_MAP), root, db))
    yield stateListHead(db, proof)
    const database = provenLeaf(proof, db, parseDatabaseState)
    if (database !== null) {
      const items = file.pages(itemsMap(database.position))
      this.#checked(() => requireRoot(items, database.items))
      const { pieces } = await this.#store.search(database.position, ALL_IDS, packPosition(size, 0))
      for await (const piece of pieces) {
        await turn()
        // An item that was deleted and erased after this state is not found, so the list will be refused.
        const lines = this.#checked(() =>
          piece.map(({ id }) => [id, readValue(items, id)] as const),
        )
        yield lines.map(([id, value]) => (value === null ? '' : stateListLine(id, value))).join('')
      }
    }
    yield stateListEnd(note)
  }

  close(): void {
    this.#file?.close()
    this.#file = null
  }

  /** Runs `read` on the signed state of all blocks that were committed before the call. */
  async #read<Result>(
    read: (file: StateFile, state: SignedState) => Result,
  ): Promise<Result & { readonly note: string; readonly size: number }> {
    const head = await this.#store.head(this.#store.serverId)
    const committed = head === null ? 0 : head.height + 1
    await this.#signing.stateCovering(committed)
    const result = this.#checked(() => {
      this.#file ??= StateFile.openReader(this.#path)
      const file = this.#file
      return file?.transaction(() => {
        const { size, note } = file.head()
        if (note === null || size < committed) return null
        return { ...read(file, this.#parsed(note)), note, size }
      })
    })
    if (result !== null && result !== undefined) return result
    // The file was removed after a failure, and there is a new one.
    this.close()
    throw new LedgerError('LOG_BEHIND', 'the newest state is not signed yet; try again shortly')
  }

  #parsed(note: string): SignedState {
    return parseStateNote({ name: logOrigin(this.#store.serverId) }, note)
  }

  /** Reads the file. If it is damaged, the state is computed again from the chain. Errors: LOG_BEHIND. */
  #checked<Result>(read: () => Result): Result {
    try {
      return read()
    } catch (cause) {
      this.close()
      if (isFileOutage(cause)) {
        throw new LedgerError('LOG_BEHIND', 'the state cannot be read now; try again shortly', {
          cause,
        })
      }
      if (!isReadDamage(cause) && !(cause instanceof ProofError)) throw cause
      this.#signing.renewState()
      const what =
        'the stored state is damaged and is computed again from the chain; try again shortly'
      throw new LedgerError('LOG_BEHIND', what, { cause })
    }
  }
}

interface Proven {
  readonly database: MapProof
  readonly item: MapProof | null
  /** Packed position of the newest revision; null if there is none. */
  readonly position: number | null
}

function proveKey(
  file: StateFile,
  root: Uint8Array,
  { db, id }: { readonly db: string; readonly id: string },
): Proven {
  const database = proveValue(file.pages(DATABASES_MAP), root, db)
  const state = provenLeaf(database, db, parseDatabaseState)
  if (state === null) return { database, item: null, position: null }
  const item = proveValue(file.pages(itemsMap(state.position)), state.items, id)
  return { database, item, position: provenLeaf(item, id, parseItemState)?.position ?? null }
}

/** Returns the parsed value of `name` in a proof, or null if the proof shows that there is none. */
function provenLeaf<Value>(
  { leaf }: MapProof,
  name: string,
  parse: (text: string) => Value | null,
): Value | null {
  return leaf !== null && equalBytes(leaf.key, mapKey(name)) ? parse(leaf.value) : null
}
