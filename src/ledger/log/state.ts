import { join } from 'node:path'
import {
  equalBytes,
  type MapProof,
  mapKey,
  parseDatabaseState,
  parseItemState,
  proveInclusion,
  stateProofText,
  unpackPosition,
} from '../../chain/index.ts'
import { proveValue, STATE_FILE, StateFile, type StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { toOpening } from './openings.ts'
import type { LogSigning } from './signing.ts'
import { DATABASES_MAP, itemsMap } from './state-follower.ts'

/** Attempts to prove an item whose revision is erased meanwhile. */
const ATTEMPTS_MAX = 3

/** The signed state of the node's chain: which databases and items there are, and their newest revisions. */
export class LedgerState {
  readonly #path: string
  readonly #store: StoreReader
  readonly #signing: Pick<LogSigning, 'stateCovering'>
  #file: StateFile | null = null

  constructor(folder: string, store: StoreReader, signing: Pick<LogSigning, 'stateCovering'>) {
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
      const { size, position, ...proven } = await this.#read((file) => prove(file, db, id))
      if (position === null) return stateProofText({ db, id, ...proven, revision: null })
      const { height, index } = unpackPosition(position)
      const { serverId } = this.#store
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

  close(): void {
    this.#file?.close()
    this.#file = null
  }

  /** Runs `read` on the signed state of all blocks that were committed before the call. */
  async #read<Result>(
    read: (file: StateFile) => Result,
  ): Promise<Result & { readonly note: string; readonly size: number }> {
    const head = await this.#store.head(this.#store.serverId)
    const committed = head === null ? 0 : head.height + 1
    await this.#signing.stateCovering(committed)
    this.#file ??= StateFile.openReader(this.#path)
    const file = this.#file
    const result = file?.transaction(() => {
      const { size, note } = file.head()
      return note === null || size < committed ? null : { ...read(file), note, size }
    })
    if (result !== null && result !== undefined) return result
    // The file was removed after a failure, and there is a new one.
    this.close()
    throw new LedgerError('LOG_BEHIND', 'the newest state is not signed yet; try again shortly')
  }
}

interface Proven {
  readonly database: MapProof
  readonly item: MapProof | null
  /** Packed position of the newest revision; null if there is none. */
  readonly position: number | null
}

function prove(file: StateFile, db: string, id: string): Proven {
  const database = proveValue(file.pages(DATABASES_MAP), db)
  const state = provenLeaf(database, db, parseDatabaseState)
  if (state === null) return { database, item: null, position: null }
  const item = proveValue(file.pages(itemsMap(state.position)), id)
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
