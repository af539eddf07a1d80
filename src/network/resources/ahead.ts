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
  readonly waiting: (max: number) => Iterable<Submission>
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
   * those of what waits behind it. Errors: those of `Submission.draft`; NETWORK_INVALID.
   */
  async begin(workplace: Workplace, submission: Submission, turn: Row): Promise<Begun> {
    const { begun } = submission
    if (begun !== null) return begun.resumed(turn.line)
    const drafted = await submission.draft(turn.state)
    const company = new Company(turn.line, (inVain) => this.#learn(inVain))
    if (drafted.processors.length === 0) return new Begun(drafted, null, [], company)
    const joined = await this.#joined(workplace, { submission, drafted }, turn)
    const requests = joined.map(({ request }) => request)
    const runs = await workplace.scripts.begin(requests, false)
    const [own] = joined.map((each, at) => {
      const { known } = each.request
      each.submission.begun = new Begun(each.drafted, runs[at] ?? null, known, company)
      return each.submission.begun
    })
    assert(own !== undefined)
    return own
  }

  /** `first`, and those of what waits that begin with it. */
  async #joined(
    workplace: Workplace,
    first: Pick<Joined, 'submission' | 'drafted'>,
    { state, waiting }: Row,
  ): Promise<Joined[]> {
    const joined: Joined[] = []
    const resources = readOnce(state)
    let characters = 0
    const join = async (each: Pick<Joined, 'submission' | 'drafted'>) => {
      const request = await processRequest(workplace, each.drafted, resources)
      joined.push({ ...each, request })
      characters += request.text.length
      for (const { text } of request.known) characters += text.length
    }
    await join(first)
    // Conditions are evaluated in the same thread, where they would wait for what waits for them.
    const together = workplace.control.hasConditions ? 1 : Math.floor(this.#together)
    if (together > 1) await gathered(waiting)
    for (const submission of waiting(together - 1)) {
      if (submission.begun !== null || characters > CHARACTERS_MAX) break
      // What does not become a transaction is refused in its own turn; nothing goes past it.
      const drafted = await submission.draft(state).catch(() => null)
      if (drafted === null || drafted.processors.length === 0) break
      await join({ submission, drafted })
    }
    return joined
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
    const count = [...waiting(TOGETHER_MAX)].length
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

/** Transactions that were begun together, and what those that had their turn made of resources. */
class Company {
  readonly line: object
  /** Told of each whether it was begun in vain. */
  readonly learn: (inVain: boolean) => void
  /** By type and id; null for what was removed. */
  readonly #changed = new Map<string, ResourceChange>()

  /** `line` is what they stand on: what is decided behind something that failed stands on another. */
  constructor(line: object, learn: (inVain: boolean) => void) {
    this.line = line
    this.learn = learn
  }

  note(changes: readonly ResourceChange[]): void {
    for (const change of changes) this.#changed.set(keyOf(change.target), change)
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
  readonly #known: readonly Known[]
  readonly #company: Company
  /** Null when there is nothing to run, or what was begun does not count. */
  #run: Run | null

  constructor(drafted: Drafted, run: Run | null, known: readonly Known[], company: Company) {
    this.drafted = drafted
    this.#run = run
    this.#known = known
    this.#company = company
  }

  /** The same in its turn, which stands on `line`. */
  resumed(line: object): this {
    if (line !== this.#company.line) this.abandon()
    return this
  }

  /**
   * What its processors came to, their questions being answered by `answer`; null when they were begun
   * in vain.
   */
  async finish(answer: Answerer): Promise<Ended | null> {
    const foreseen = (await this.#run?.foreseen) ?? null
    if (foreseen !== null && !this.#isTrue(foreseen)) this.abandon()
    const ended = foreseen === null ? null : ((await this.#run?.finish(answer)) ?? null)
    this.#company.learn(ended === null)
    return ended
  }

  /** What was begun, here and behind it, does not count. */
  abandon(): void {
    this.#run?.abandon()
    this.#run = null
  }

  /** Its turn has come to `changes`, which are recorded. */
  note(changes: readonly ResourceChange[]): void {
    this.#company.note(changes)
  }

  /** Its turn has ended. */
  leave(): void {
    this.#run?.leave()
  }

  /** Whether what it was given is what there is in its turn. */
  #isTrue(foreseen: readonly Foreseen[]): boolean {
    const given: (string | null)[] = this.#known.map(({ text }) => text)
    for (const { at, text } of foreseen) given[at] = text
    return this.#known.every((known, at) => this.#company.now(known) === given[at])
  }
}
