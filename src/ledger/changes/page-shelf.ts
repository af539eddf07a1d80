import { StoreError, type StoreReader } from '../../storage/index.ts'
import { EntryPage } from './entry-page.ts'

/** Blocks of one page; the store also bounds its text. */
const PAGE_BLOCKS = 256

/** Pages of the node's own chain as they were read, the newest of them kept for who comes after. */
export class PageShelf {
  readonly #store: StoreReader
  readonly #weightMax: number
  /** By the height they begin at, in the order they were read. */
  readonly #pages = new Map<number, EntryPage>()
  #weight = 0

  /** `weightMax`: characters and bytes that are kept; the page read last is kept in any case. */
  constructor(store: StoreReader, weightMax: number) {
    this.#store = store
    this.#weightMax = weightMax
  }

  /** The page that begins at `height`, when it is here. */
  kept(height: number): EntryPage | undefined {
    return this.#pages.get(height)
  }

  /**
   * The page that begins at `height`, where there is a block; one that is read now ends before the
   * height `end`. Errors: those of the store.
   */
  async at(height: number, end: number): Promise<EntryPage> {
    return (
      this.#pages.get(height) ?? (await this.#read(height, Math.min(PAGE_BLOCKS, end - height)))
    )
  }

  /** Forgets all pages. */
  clear(): void {
    this.#pages.clear()
    this.#weight = 0
  }

  async #read(height: number, count: number): Promise<EntryPage> {
    const blocks = await this.#store.blocks(this.#store.serverId, height, count)
    if (blocks[0]?.height !== height) {
      throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
    }
    const page: EntryPage = new EntryPage(blocks, (more) => {
      if (this.#pages.get(height) === page) this.#weight += more
    })
    this.#drop(height)
    this.#pages.set(height, page)
    this.#weight += page.weight
    for (const oldest of this.#pages.keys()) {
      if (this.#weight <= this.#weightMax || oldest === height) break
      this.#drop(oldest)
    }
    return page
  }

  #drop(height: number): void {
    const page = this.#pages.get(height)
    if (page === undefined) return
    this.#pages.delete(height)
    this.#weight -= page.weight
  }
}
