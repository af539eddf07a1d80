import type { Clock } from '../../base/clock.ts'
import type { JsonObject } from '../../base/json.ts'
import { UuidGenerator } from '../../base/uuid.ts'
import type { Change, UnitOfWork, Written } from '../../ledger/index.ts'
import type { Row, Submission } from './ahead.ts'
import type { Caller } from './caller.ts'
import {
  type ResourceChange,
  type ResourceDatabase,
  type ResourceReader,
  resourceChangesIn,
} from './database.ts'
import type { EventFeed } from './event-feed.ts'
import { Group, type Recorded } from './group.ts'
import { Overlay } from './overlay.ts'
import { recordsOf, type TransactionRecord, transactionOf } from './transaction-record.ts'
import { Turns } from './turns.ts'

/** What is recorded beside a transaction and its writes. */
export interface Beside {
  readonly events?: readonly JsonObject[]
  /** In front of all else. */
  readonly also?: readonly Change[]
}

/** What one turn reads, and where what it decides goes. */
export interface Turn extends Row {
  /** Lets the next turn begin before `work` has ended. */
  readonly release: () => void
  /** Resolves when all of `state` is on the disk. Errors: why it never will be. */
  readonly durable: Promise<unknown>
  /**
   * Takes `also`, `transaction`, the historian's record of it with its `events`, and `writes`: turns
   * that begin from now on see them. The promise is for the disk.
   * Errors, before anything is taken: those of `OwnDatabase.prepare`, and why `state` is void.
   */
  record(
    transaction: TransactionRecord,
    caller: Caller,
    writes: readonly ResourceChange[],
    beside?: Beside,
  ): Promise<Recorded>
}

/** A crowd is served in parts of this share, so that its members share waits for the disk. */
const CROWD_SHARE = 0.4
/** Fewer than this are no crowd: what they decide is written at once. */
const CROWD_MIN = 4
/** A group is held open no longer than this for more to come. */
const HOLD_MS = 5

/** Turns that stand on each other: when one of them is not recorded, none behind it is. */
interface Line {
  broken: Error | null
}

/**
 * Records what the turns of one network decide, in their order, and lets each go on from what the one
 * before it decided while that is still on its way to the disk. What is decided while a block is being
 * written is a group: it goes into the next block, as one unit of work. A lone transaction waits for
 * nobody and has a block for itself; where many wait for their turn, a group is held open for a moment.
 *
 * When a group cannot be recorded, nothing that was decided behind it is: each of those stands on it.
 * The next turn starts from the ledger again.
 *
 * What a crash leaves: of a group all or nothing, and of the groups behind one nothing unless that one
 * is whole, since each is sent when the one before it is on the disk. Nobody is answered before.
 */
export class Recorder {
  readonly #database: ResourceDatabase
  readonly #clock: Clock
  readonly #uuids = new UuidGenerator()
  readonly #events: EventFeed
  readonly #turns = new Turns<Submission>()
  /** What records the network itself in front of its first change; null once that is done. */
  #deployment: readonly Change[] | null
  /** What is on the disk; with the deployment, as long as that is not. */
  #base: ResourceReader
  /** Oldest first; the first of them is being written. */
  #groups: Group[] = []
  #line: Line = { broken: null }
  /** Runs while the first group is held open. */
  #hold: NodeJS.Timeout | null = null

  constructor(
    database: ResourceDatabase,
    clock: Clock,
    events: EventFeed,
    deployment: readonly Change[] | null,
  ) {
    this.#database = database
    this.#clock = clock
    this.#events = events
    this.#deployment = deployment
    this.#base = deployment === null ? database : withDeployment(database, deployment)
  }

  /** A transaction of `type`, a qualified name, that happens now. */
  transaction(type: string, fields: JsonObject): TransactionRecord {
    const nowMs = this.#clock.now()
    return transactionOf(type, this.#uuids.next(nowMs), nowMs, fields)
  }

  /**
   * Gives `work` its turn. Whatever comes of it, a refusal too, is told when all that it stands on is
   * on the disk. `submission` is what it is about, where those before it may begin it. Errors: NETWORK_BUSY; those of `work`; why what it stands on is void.
   */
  take<Result>(
    work: (turn: Turn) => Promise<Result>,
    submission: Submission | null = null,
  ): Promise<Result> {
    return this.#turns.take(async (release) => {
      const turn = this.#turn(release)
      try {
        return await work(turn)
      } finally {
        release()
        await turn.durable
      }
    }, submission)
  }

  #turn(release: () => void): Turn {
    const line = this.#line
    const last = this.#groups.at(-1)
    return {
      release,
      state: last?.overlay ?? this.#base,
      line,
      waiting: (max) => this.#turns.next(max),
      durable: last?.written ?? Promise.resolve(),
      record: (transaction, caller, writes, { events = [], also = [] } = {}) => {
        if (line.broken !== null) throw line.broken
        // Whatever comes first brings the network along, again when that was refused.
        const deployment = this.#groups.length === 0 ? (this.#deployment ?? []) : []
        const before = [...deployment, ...also]
        const changes = [...recordsOf(transaction, caller, events), ...writes]
        const unit = this.#database.prepare(changes, before)
        const group = this.#groupFor(unit)
        const position = group.add(unit, changes, events) + before.length
        this.#writeSoon()
        return group.recorded(position, writes.length > 0 ? position + 2 : position)
      },
    }
  }

  #groupFor(unit: UnitOfWork): Group {
    const last = this.#groups.at(-1)
    if (last?.hasRoomFor(unit)) return last
    const group = new Group(last?.overlay ?? this.#base)
    this.#groups.push(group)
    return group
  }

  /** Writes the first group, unless that is being done or enough others wait who may join it. */
  #writeSoon(): void {
    const [first] = this.#groups
    if (first === undefined || !first.isOpen) return
    const crowd = this.#turns.waiting + first.size
    if (crowd < CROWD_MIN || first.size >= crowd * CROWD_SHARE || this.#groups.length > 1) {
      this.#write(first)
    } else this.#hold ??= setTimeout(() => this.#write(first), HOLD_MS)
  }

  #write(group: Group): void {
    this.#holdNoMore()
    this.#database.record(group.close()).then(
      (written) => this.#written(group, written),
      (error: unknown) => this.#break(error instanceof Error ? error : new Error(String(error))),
    )
  }

  #written(group: Group, written: Written): void {
    this.#deployment = null
    this.#base = this.#database
    this.#groups.shift()
    const [next] = this.#groups
    next?.overlay.standOn(this.#base)
    this.#events.publish(written.height, group.events)
    group.settle(written)
    this.#writeSoon()
  }

  #holdNoMore(): void {
    if (this.#hold !== null) clearTimeout(this.#hold)
    this.#hold = null
  }

  #break(error: Error): void {
    this.#holdNoMore()
    this.#line.broken = error
    this.#line = { broken: null }
    const groups = this.#groups
    this.#groups = []
    for (const group of groups) group.fail(error)
  }
}

/** What there will be when the network itself is recorded. */
function withDeployment(database: ResourceDatabase, deployment: readonly Change[]): Overlay {
  const overlay = new Overlay(database)
  for (const change of deployment) {
    for (const made of resourceChangesIn(change)) overlay.apply(made)
  }
  return overlay
}
