import type { Clock } from '../../base/clock.ts'
import { StoreError } from '../../storage/index.ts'
import { type AbsentContent, type ChainContents, PART_BYTES_MAX } from './chain-contents.ts'
import { PeerError } from './errors.ts'
import { WholeLook } from './whole-look.ts'

/** Where contents are fetched. What it gives is compared with their SHA-256. */
export interface ContentSource {
  /** `length` bytes of a content from byte `from` on; null where the source does not have it. */
  content(sha256: string, from: number, length: number): Promise<Uint8Array | null>
}

/** Contents looked for at a time. */
const CONTENTS_PER_LOOK = 16
/** Before what the source did not have is asked for anew: at first, it may be on its way there, and later. */
const REST_MS = 500
const REST_MS_MAX = 30_000
/** Of the time, looking anew takes no more than one in so many. */
const REST_SHARE = 10

/** Takes the contents that a mirrored chain names from a source, beside the chain. */
export class ContentPull {
  readonly #source: ContentSource
  readonly #clock: Clock
  readonly #whole = new WholeLook()
  /** Up to here, entries were looked at. */
  #upTo = -1
  /** Behind this, the first content is named that the source did not have; null when it had all. */
  #again: number | null = null
  #absent = 0
  #restMs = REST_MS
  #retryAtMs = 0

  constructor(source: ContentSource, clock: Clock) {
    this.#source = source
    this.#clock = clock
  }

  /** How many contents the source does not have, or has otherwise, as far as was looked. */
  get absent(): number {
    return this.#absent
  }

  /**
   * Takes what is missing behind the entries that were looked at before; after a while also what was
   * missing then, and what was lost since. `isStopped` is asked before each part.
   * Errors: PeerError, OutboundError, StoreError; what has come stays, and is gone on with.
   */
  async run(contents: ChainContents, isStopped: () => boolean = () => false): Promise<void> {
    const startedMs = this.#clock.now()
    const isWhole = this.#whole.begins(startedMs)
    const isAgain = isWhole || (this.#again !== null && startedMs >= this.#retryAtMs)
    if (isAgain) {
      this.#upTo = isWhole ? -1 : (this.#again ?? -1)
      this.#again = null
    }
    const missed = await this.#look(contents, isStopped)
    const endedMs = this.#clock.now()
    if (isWhole) this.#whole.ended(endedMs, endedMs - startedMs)
    this.#absent = isAgain ? missed : this.#absent + missed
    if (missed === 0) return
    this.#restMs = isAgain ? Math.min(2 * this.#restMs, REST_MS_MAX) : REST_MS
    this.#retryAtMs = endedMs + Math.max(this.#restMs, REST_SHARE * (endedMs - startedMs))
  }

  /** Takes what is missing behind `#upTo`, and counts what the source does not have. */
  async #look(contents: ChainContents, isStopped: () => boolean): Promise<number> {
    let missed = 0
    for (let more = true; more && !isStopped(); ) {
      const found = await contents.absent(this.#upTo, CONTENTS_PER_LOOK)
      for (const content of found.contents) {
        if (await this.#fetch(contents, content, isStopped)) continue
        this.#again ??= this.#upTo
        missed += 1
      }
      this.#upTo = found.upTo
      more = found.more
    }
    return missed
  }

  /** Whether all of it is here now. */
  async #fetch(
    contents: ChainContents,
    { sha256, length, bytes }: AbsentContent,
    isStopped: () => boolean,
  ): Promise<boolean> {
    try {
      for (let here = bytes; !isStopped(); ) {
        const partLength = Math.min(PART_BYTES_MAX, Math.max(0, length - here))
        const part =
          partLength === 0 ? NOTHING : await this.#source.content(sha256, here, partLength)
        if (part === null) return false
        const before = here
        here = await contents.add(sha256, before, part)
        if (here === length) return true
        if (here === before) return false
      }
      return false
    } catch (error) {
      if (isOfContent(error)) return false
      throw error
    }
  }
}

const NOTHING = new Uint8Array()

/** Whether it says something of one content only: the next one may come. */
function isOfContent(error: unknown): boolean {
  if (error instanceof StoreError) return error.code === 'CONTENT_DIFFERS'
  return error instanceof PeerError && /^CONTENT_/.test(error.code)
}
