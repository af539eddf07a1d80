import assert from 'node:assert/strict'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { Target } from '../model/relationship.ts'
import type { Foreseen, Known } from '../runtime/messages.ts'
import type { Answerer, Ended, Run } from '../runtime/run.ts'
import type { ProcessRequest } from '../runtime/script-runner.ts'
import type { ResourceChange, ResourceReader, StoredResource } from './database.ts'
import { type Drafted, processRequest, type Workplace } from './process-request.ts'

/** Transactions whose processors begin together at most. */
const TOGETHER_MAX = 16
/** By how much of one more begins together after each that was not begun in vain. */
const GROWTH = 1 / 8
/** Turns of the event loop for which a message is held back while more arrives. */
const GATHER_TURNS_MAX = 16
/** When no more of those that began together have to run, the next ones begin. */
const LEFT_MAX = 2
/** Characters that they are sent with, beyond which no more join. */
const CHARACTERS_MAX = 1024 * 1024

/** What was submitted and waits for its turn. */
export interface Submission {
  /**
   * Makes a transaction of it that whoever submits it may submit.
   * Errors: RESOURCE_INVALID, ACCESS_DENIED.
   */
  draft(state: ResourceReader): Promise<Drafted>
  /** Set when its processors were begun before its turn. */
  begun: Begun | null
}

/** A turn, and what has its turn behind it. */
export interface Row {
  /** All that the turns before it left, also what is not on the disk yet. */
  readonly state: ResourceReader
  /** What the turn stands on as a whole: it is another object once something of it has failed. */
  readonly line: object
  /** What was submitted and has its turn after this one, `max` at most; nothing else comes between. */
  readonly waiting: (max: number) => readonly Submission[]
}

/**
 * Begins the processors of transactions before their turn, several in one message: handing over to the
 * sandbox's thread and back costs more than most processors do. They are sent with what there is when
 * the first of them has its turn, and the sandbox gives each what the ones before it wrote. In its turn
 * each is compared with what has really become of the resources that it was given, and what it asks is
 * answered only then; so it comes to what it would have come to in its turn, or is run again.
 * Source: docs/decisions/0119-processors-ahead.md.
 */
export class Ahead {
  /** How many begin together, in parts: fewer after one that was begun in vain. */
  #together = TOGETHER_MAX

  /**
   * The transaction of `submission`, whose turn this is, with its processors begun; with them begin
   * those of what waits behind it. If they were begun before, those of what waits behind all that were
   * begun may begin now: the sandbox has to do while these are decided.
   * Errors: those of `Submission.draft`; NETWORK_INVALID.
   */
  async begin(workplace: Workplace, submission: Submission, turn: Row): Promise<Begun> {
    const { begun } = submission
    if (begun !== null) {
      begun.resume(turn.line)
      try {
        await this.#follow(workplace, begun.company, turn)
      } catch (error) {
        begun.leave()
        throw error
      }
      return begun
    }
    const drafted = await submission.draft(turn.state)
    const company = new Company(turn.line, (inVain) => this.#learn(inVain))
    if (drafted.processors.length === 0) return new Begun(drafted, null, [], company)
    // Conditions are evaluated in the same thread, where they would wait for what waits for them.
    const together = workplace.control.hasConditions ? 1 : Math.floor(this.#together)
    const gathering = together > 1 ? gathered(turn.waiting) : null
    const row = new Joining(workplace, turn.state)
    await row.join({ submission, drafted })
    await gathering
    await row.joinAll(turn.waiting(together - 1))
    await company.begin(workplace, row.joined, false)
    const own: Begun | null = submission.begun
    assert(own !== null)
    return own
  }

  /** Begins what waits behind `company`, if that is nearly through. */
  async #follow(workplace: Workplace, company: Company, turn: Row): Promise<void> {
    if (!company.mayBeFollowed) return
    const together = Math.floor(this.#together)
    const waiting = turn.waiting(2 * TOGETHER_MAX).filter(({ begun }) => begun === null)
    if (together === 1 || waiting.length === 0) return
    const row = new Joining(workplace, turn.state)
    await row.joinAll(waiting.slice(0, together))
    if (row.joined.length === 0) return
    await company.follower().begin(workplace, row.joined, true)
  }

  #learn(inVain: boolean): void {
    this.#together = inVain ? 1 : Math.min(this.#together + GROWTH, TOGETHER_MAX)
  }
}

/**
 * Resolves when no more arrives: of a crowd that is answered together, requests come back over several
 * turns of the event loop. Who is alone waits one turn.
 */
async function gathered(waiting: Row['waiting']): Promise<void> {
  let before = -1
  for (let turns = 0; turns < GATHER_TURNS_MAX; turns += 1) {
    const count = waiting(TOGETHER_MAX).length
    if (count === before || count === TOGETHER_MAX) return
    before = count
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
}

/** `state` as long as nothing changes it: what many name is read once. */
function readOnce(state: ResourceReader): Pick<ResourceReader, 'read'> {
  const found = new Map<string, Promise<StoredResource | null>>()
  return {
    read(target) {
      const key = keyOf(target)
      const known = found.get(key) ?? state.read(target)
      found.set(key, known)
      return known
    },
  }
}

interface Joined {
  readonly submission: Submission
  readonly drafted: Drafted
  readonly request: ProcessRequest
}

/** What is to begin together. */
class Joining {
  readonly joined: Joined[] = []
  readonly #workplace: Workplace
  readonly #state: ResourceReader
  readonly #resources: Pick<ResourceReader, 'read'>
  #characters = 0

  /** `state` is what they are sent with. */
  constructor(workplace: Workplace, state: ResourceReader) {
    this.#workplace = workplace
    this.#state = state
    this.#resources = readOnce(state)
  }

  async join(one: Pick<Joined, 'submission' | 'drafted'>): Promise<void> {
    const request = await processRequest(this.#workplace, one.drafted, this.#resources)
    this.joined.push({ ...one, request })
    this.#characters += request.text.length
    for (const { text } of request.known) this.#characters += text?.length ?? 0
  }

  /** `submissions`, up to one that is in the way of those behind it. */
  async joinAll(submissions: readonly Submission[]): Promise<void> {
    for (const submission of submissions) {
      if (submission.begun !== null || this.#characters > CHARACTERS_MAX) break
      // What does not become a transaction is refused in its own turn; nothing goes past it.
      const drafted = await submission.draft(this.#state).catch(() => null)
      if (drafted === null || drafted.processors.length === 0) break
      await this.join({ submission, drafted })
    }
  }
}

/** Transactions that were begun together, and what those that had their turn made of resources. */
class Company {
  readonly line: object
  /** Told of each whether it was begun in vain. */
  readonly learn: (inVain: boolean) => void
  /** By type and id; null for what was removed. */
  readonly #changed = new Map<string, ResourceChange>()
  #runs: readonly Run[] = []
  /** Those that were begun behind it before all of it was decided. */
  #follower: Company | null = null
  #isAbandoned = false

  /** `line` is what they stand on: what is decided behind something that failed stands on another. */
  constructor(line: object, learn: (inVain: boolean) => void) {
    this.line = line
    this.learn = learn
  }

  /** Begins all of `joined`; with `follow` behind those of the company that this one is a follower of. */
  async begin(workplace: Workplace, joined: readonly Joined[], follow: boolean): Promise<void> {
    const requests = joined.map(({ request }) => request)
    this.#runs = await workplace.scripts.begin(requests, { follow })
    for (const [at, { submission, drafted, request }] of joined.entries()) {
      submission.begun = new Begun(drafted, this.#runs[at] ?? null, request.known, this)
    }
  }

  /** Whether nothing follows it yet, and the sandbox will soon have nothing to do. */
  get mayBeFollowed(): boolean {
    if (this.#isAbandoned || this.#follower !== null) return false
    return this.#runs.filter(({ hasEnded }) => !hasEnded).length <= LEFT_MAX
  }

  /**
   * Another one behind it, which is to be sent with what there is now: what the members of this one that
   * had their turn left. What the others leave is told to both.
   */
  follower(): Company {
    this.#follower = new Company(this.line, this.learn)
    return this.#follower
  }

  /** What was begun, here and behind it, does not count. */
  abandon(): void {
    this.#isAbandoned = true
    this.#runs[0]?.abandon()
    this.#follower?.abandon()
  }

  note(changes: readonly ResourceChange[]): void {
    for (const change of changes) this.#changed.set(keyOf(change.target), change)
    this.#follower?.note(changes)
  }

  /** The resource as it is now; null when it was removed. */
  now(known: Known): string | null {
    const change = this.#changed.get(keyOf(known))
    if (change === undefined) return known.text
    return change.kind === 'delete' ? null : canonicalJson(change.resource)
  }
}

function keyOf({ type, id }: Target): string {
  return `${type}#${id}`
}

/** A transaction in its turn, or before it, whose processors have begun to run. */
export class Begun {
  readonly drafted: Drafted
  /** Those that began with it. */
  readonly company: Company
  readonly #known: readonly Known[]
  /** Null when there is nothing to run, or what was begun does not count. */
  #run: Run | null

  constructor(drafted: Drafted, run: Run | null, known: readonly Known[], company: Company) {
    this.drafted = drafted
    this.#run = run
    this.#known = known
    this.company = company
  }

  /** Its turn has come, which stands on `line`. */
  resume(line: object): void {
    if (line !== this.company.line) this.abandon()
  }

  /**
   * What its processors came to, their questions being answered by `answer`; null when they were begun
   * in vain.
   */
  async finish(answer: Answerer): Promise<Ended | null> {
    const foreseen = (await this.#run?.foreseen) ?? null
    if (foreseen !== null && !this.#isTrue(foreseen)) this.abandon()
    const ended = foreseen === null ? null : ((await this.#run?.finish(answer)) ?? null)
    this.company.learn(ended === null)
    return ended
  }

  /** What was begun, here and behind it, does not count. */
  abandon(): void {
    this.company.abandon()
    this.#run = null
  }

  /** Its turn has come to `changes`, which are recorded. */
  note(changes: readonly ResourceChange[]): void {
    this.company.note(changes)
  }

  /** Its turn has ended. */
  leave(): void {
    this.#run?.leave()
  }

  /** Whether what it was given is what there is in its turn. */
  #isTrue(foreseen: readonly Foreseen[]): boolean {
    const given = this.#known.map(({ text }) => text)
    for (const { at, text } of foreseen) given[at] = text
    return this.#known.every((known, at) => this.company.now(known) === given[at])
  }
}
