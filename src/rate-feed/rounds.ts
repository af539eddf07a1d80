import type { Clock, Schedule } from '../base/clock.ts'
import { agree, outOfBand, sameValues } from './acceptance.ts'
import type { RateBoard } from './board.ts'
import type { SourceKeeper } from './keeper.ts'
import { SourceError } from './source-error.ts'
import { SNAPSHOT } from './sources/snapshot.ts'
import { type Helpers, NO_HELPERS, type RateVector, vectorOf } from './vector.ts'

/** An answer that is older than what is served still stands by it, up to this age difference. */
const OLDER_CONFIRMS_MAX_MS = 4 * 86_400_000
/** Rounds are never closer together than this. */
const PAUSE_MIN_MS = 1_000
/** With no live source there is nothing to come back for; look again this rarely. */
const PAUSE_MAX_MS = 6 * 3_600_000

/** Who else can be asked to complete a vector. */
export interface Companions {
  /** Tells CNH against CNY. */
  readonly overlay: SourceKeeper | null
  /** Tells what a partial live source does not quote. */
  readonly bridge: SourceKeeper | null
}

/** What rounds need of the world. */
export interface RoundTools {
  readonly board: RateBoard
  readonly clock: Clock
  readonly schedule: Schedule
  /** False believes sources however far their rates jump. */
  readonly banded: boolean
  /** Called with each vector that a live source brought and that is served from now on. */
  readonly accepted: (vector: RateVector) => void
}

/** One answer in a round. */
interface Candidate {
  readonly keeper: SourceKeeper
  readonly rank: number
  readonly vector: RateVector
}

/**
 * Asks the live sources in the operator's order until one settles what is served, then sets the
 * timer for the next round. One round runs at a time, however many ask for one.
 *
 * Source: docs/decisions/0032-believing-a-source.md.
 */
export class Rounds {
  readonly #keepers: readonly SourceKeeper[]
  readonly #companions: Companions
  readonly #tools: RoundTools
  #running: Promise<void> | null = null
  #forget: () => void = () => {}
  #nextAt = 0
  #again = false
  #stopped = false

  constructor(keepers: readonly SourceKeeper[], companions: Companions, tools: RoundTools) {
    this.#keepers = keepers
    this.#companions = companions
    this.#tools = tools
  }

  /** When the next round starts, milliseconds since the Unix epoch. */
  get nextAt(): number {
    return this.#nextAt
  }

  /** Runs a round, or joins the one that runs. Never rejects. */
  run(): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    this.#running ??= this.#round().finally(() => {
      this.#running = null
    })
    return this.#running
  }

  /** Runs a round that waits for the overlay too. Never rejects. */
  async runWithOverlay(): Promise<void> {
    await this.run()
    const { overlay } = this.#companions
    if (overlay === null) return
    await overlay.ask()
    await this.run()
  }

  /** No further rounds. One that runs ends by itself, within the time limits of its requests. */
  stop(): void {
    this.#stopped = true
    this.#forget()
  }

  async #round(): Promise<void> {
    const asked: SourceKeeper[] = []
    const older: Candidate[] = []
    const suspects: Candidate[] = []
    let settled = false
    for (const [rank, keeper] of this.#keepers.entries()) {
      asked.push(keeper)
      const candidate = await this.#candidateOf(keeper, rank)
      if (candidate === null) continue
      settled = this.#judge(candidate, older, suspects)
      if (settled) break
    }
    const [first] = older
    if (!settled && first !== undefined) this.#confirm(first)
    this.#setTimer(asked)
  }

  async #candidateOf(keeper: SourceKeeper, rank: number): Promise<Candidate | null> {
    const quote = await keeper.ask()
    if (quote === null) return null
    try {
      const helpers = await this.#helpersFor(keeper)
      return { keeper, rank, vector: vectorOf(keeper.source.name, quote, helpers) }
    } catch (error) {
      if (!(error instanceof SourceError)) throw error
      keeper.doubt(error)
      return null
    }
  }

  async #helpersFor(keeper: SourceKeeper): Promise<Helpers> {
    const { overlay, bridge } = this.#companions
    const helpers = { ...NO_HELPERS }
    if (bridge !== null && keeper.source.partial) {
      await bridge.ask()
      if (bridge.quote !== null) helpers.bridge = { name: bridge.source.name, quote: bridge.quote }
    }
    if (overlay !== null && keeper !== overlay) {
      this.#refreshOverlay(overlay)
      if (overlay.quote !== null) {
        helpers.overlay = { name: overlay.source.name, quote: overlay.quote }
      }
    }
    return helpers
  }

  /** The overlay only refines CNH, so nobody waits for it: news of it starts another round. */
  #refreshOverlay(overlay: SourceKeeper): void {
    if (this.#tools.clock.now() < overlay.dueAt) return
    const before = overlay.quote
    void overlay.ask().then((quote) => {
      if (quote === null || quote === before) return
      // A round that runs has passed the place where this counts, and sets the timer at its end.
      if (this.#running !== null) this.#again = true
      else this.#wakeAfter(0)
    })
  }

  /** Whether `candidate` settles the round; else it is put where it may still count. */
  #judge(candidate: Candidate, older: Candidate[], suspects: Candidate[]): boolean {
    const { vector, rank } = candidate
    const standing = this.#tools.board.standing
    // The first vector ever is held against the bundled one: there is always a last good value.
    const reference = standing?.vector ?? vectorOf('snapshot', SNAPSHOT, NO_HELPERS)
    const far = this.#tools.banded ? outOfBand(vector, reference) : null
    if (far !== null) {
      const witness = suspects.find((suspect) => bearsOut(suspect, candidate))
      const oldest = standing?.vector.asOfMs ?? Number.NEGATIVE_INFINITY
      if (witness !== undefined && witness.vector.asOfMs >= oldest) return this.#serve(witness)
      const { currency, value, was } = far
      const message = `${currency} is ${value} per euro and was ${was}; a second source must agree, or RATES_BAND=off`
      candidate.keeper.doubt(new SourceError('OUT_OF_BAND', message))
      suspects.push(candidate)
      return false
    }
    if (standing === null) return this.#serve(candidate)
    if (vector.asOfMs < standing.vector.asOfMs) {
      // The bundled vector has no live source behind it that an older answer could stand by.
      const near = standing.vector.asOfMs - vector.asOfMs <= OLDER_CONFIRMS_MAX_MS
      if (standing.vector.source === 'snapshot') {
        const message = `its rates of ${vector.asOf} are older than the built-in ones of ${standing.vector.asOf}`
        candidate.keeper.doubt(new SourceError('DATE_OLD', message))
      } else if (near) older.push(candidate)
      return false
    }
    const sameDate = vector.asOfMs === standing.vector.asOfMs
    const unchanged =
      vector.source === standing.vector.source && sameValues(vector, standing.vector)
    if (sameDate && (rank > standing.rank || unchanged)) return this.#confirm(candidate)
    return this.#serve(candidate)
  }

  #serve(candidate: Candidate): true {
    const { board, accepted } = this.#tools
    board.replace(candidate.vector, candidate.rank)
    this.#confirm(candidate)
    accepted(candidate.vector)
    return true
  }

  #confirm({ keeper }: Candidate): true {
    this.#tools.board.confirm(keeper.source.name, keeper.source.refreshMs)
    return true
  }

  #setTimer(asked: readonly SourceKeeper[]): void {
    const now = this.#tools.clock.now()
    const dueAt = Math.min(now + PAUSE_MAX_MS, ...asked.map((keeper) => keeper.dueAt))
    this.#wakeAfter(this.#again ? 0 : Math.max(PAUSE_MIN_MS, dueAt - now))
    this.#again = false
  }

  #wakeAfter(ms: number): void {
    if (this.#stopped || this.#keepers.length === 0) return
    this.#forget()
    this.#nextAt = this.#tools.clock.now() + ms
    this.#forget = this.#tools.schedule.after(ms, () => void this.run())
  }
}

/**
 * Whether two sources that each look wrong bear each other out. Mirrors are one witness, and a
 * partial source is none: what completes it may be the very source in doubt.
 */
function bearsOut(one: Candidate, other: Candidate): boolean {
  const [left, right] = [one.keeper.source, other.keeper.source]
  if (left.family === right.family || left.partial || right.partial) return false
  return agree(one.vector, other.vector)
}
