import type { SortValue } from '../../filter/index.ts'
import { SORTED_ITEMS_MAX, StoreError } from '../../ledger/core.ts'
import {
  type AccessContext,
  AccessControl,
  type ConditionEvaluator,
  type Instance,
  type Subject,
} from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { AccessOperation } from '../language/rule-parser.ts'
import type { Target } from '../model/model.ts'
import {
  countRows,
  ResourceOrder,
  type ResourceReader,
  readBatch,
  type Selection,
  type StoredResource,
  takeBatch,
} from './database.ts'
import { type Resource, requireType } from './instances.ts'
import { type Caller, historianTarget } from './transaction.ts'

/** A condition of an access rule, and the JSON of the resources for which the condition is evaluated. */
export interface ConditionRequest {
  /** See `AccessRule`. */
  readonly condition: string
  readonly participant: string
  readonly transaction: string | null
  readonly resources: readonly (string | null)[]
  /** The time that the condition sees: the time of the transaction or, outside of a transaction, of the request. */
  readonly nowMs: number
}

/**
 * Evaluates a condition for each of its resources: true, false, or null if it throws. The condition can follow
 * relationships to resources of `state`. Errors: PROCESSOR_DEADLINE and PROCESSOR_MEMORY, for all resources together.
 */
export type EvaluateCondition = (
  request: ConditionRequest,
  state: ResourceReader,
) => Promise<readonly (boolean | null)[]>

export interface GuardParts {
  readonly definition: NetworkDefinition
  readonly caller: Caller
  /** All resources, including those that the caller may not read. */
  readonly database: ResourceReader
  readonly evaluate: EvaluateCondition
  /** See `ConditionRequest`. */
  readonly nowMs: number
  /** Runs the evaluation of conditions, and the reading of a page for it, when there is memory for the page. */
  readonly inTurn?: InTurn
  /** Called between two pieces of a long read. It may throw, if nobody waits for the result. */
  readonly pause?: () => Promise<void>
  /** Runs the resolution of the relationships of a resource, when there is memory for their resources. */
  readonly resolving?: InTurn
}

type InTurn = <Result>(work: () => Promise<Result>) => Promise<Result>

/** Characters of resources after which a list pauses. A short list does not wait for the pieces of long ones. */
const PAUSE_CHARACTERS = 65_536
/** Maximum milliseconds that a condition which fails for some resources is evaluated for one batch of resources. */
const CONDITIONS_MS_MAX = 10_000

/** Whether `error` means that a condition exceeded its deadline or its memory. */
export function isExhausted(error: unknown): boolean {
  if (!(error instanceof NetworkError)) return false
  return error.code === 'PROCESSOR_DEADLINE' || error.code === 'PROCESSOR_MEMORY'
}

/** Reads the resources that one caller may read, and checks the caller's changes. */
export class Guard {
  readonly definition: NetworkDefinition
  readonly caller: Caller
  /** All resources, including those that the caller may not read. */
  readonly database: ResourceReader
  /** See `GuardParts`. */
  readonly resolving: InTurn
  readonly pause: () => Promise<void>
  readonly #evaluate: EvaluateCondition
  readonly #nowMs: number
  readonly #inTurn: InTurn
  readonly #transaction: Resource | null
  readonly #control: AccessControl
  readonly #context: AccessContext
  #participant: Promise<string> | null = null

  /**
   * `transaction` is the transaction in progress, or null.
   * Errors: IDENTITY_UNKNOWN if the type of the participant does not exist.
   */
  constructor(parts: GuardParts, transaction: Resource | null = null) {
    const { definition, caller } = parts
    const { model } = definition
    this.definition = definition
    this.caller = caller
    this.database = parts.database
    this.#evaluate = parts.evaluate
    this.#nowMs = parts.nowMs
    this.#inTurn = parts.inTurn ?? ((work) => work())
    this.pause = parts.pause ?? (async () => {})
    this.resolving = parts.resolving ?? ((work) => work())
    this.#transaction = transaction
    this.#control = new AccessControl(definition.rules)
    const participantType = model.type(caller.participant.type)
    if (participantType === null) {
      const message = `there is no participant type ${caller.participant.type}`
      throw new NetworkError('IDENTITY_UNKNOWN', message)
    }
    const type = transaction === null ? null : model.type(transaction.target.type)
    this.#context = {
      participant: { type: participantType, id: caller.participant.id },
      transaction:
        transaction === null || type === null ? null : { type, id: transaction.target.id },
    }
  }

  /** Returns a guard that checks the rights of the same caller during `transaction`, and reads from `database`. */
  within(transaction: Resource, database = this.database): Guard {
    const { definition, caller } = this
    const parts = { evaluate: this.#evaluate, nowMs: this.#nowMs, inTurn: this.#inTurn }
    return new Guard({ definition, caller, database, ...parts }, transaction)
  }

  /**
   * Whether the caller may perform `operation` on `target`. `content` returns the JSON of the resource before the
   * change; for a creation, of the new resource, or null if conditions must not use it.
   */
  async allows(
    operation: AccessOperation,
    target: Target,
    content: () => string | null,
  ): Promise<boolean> {
    const instance = this.#instance(target)
    const all = this.#control.allowsAll(operation, instance.type, this.#context)
    if (all !== null) return all
    const decide = () => this.#decide(operation, [{ ...instance, content }])
    const [allowed] = await this.#inTurn(decide)
    return allowed === true
  }

  /** Throws unless `allows` returns true. Errors: ACCESS_DENIED. */
  async require(
    operation: AccessOperation,
    target: Target,
    content: () => string | null,
  ): Promise<void> {
    if (!(await this.allows(operation, target, content))) throw this.denied(operation, target)
  }

  /** Returns the error for a change that the caller may not make. */
  denied(operation: AccessOperation, { type, id }: Target): NetworkError {
    const { participant } = this.caller
    return new NetworkError(
      'ACCESS_DENIED',
      `Participant '${participant.type}#${participant.id}' does not have '${operation}' access ` +
        `to resource '${type}#${id}'`,
    )
  }

  /** Checks that the caller may create the transaction and its historian record. Errors: ACCESS_DENIED. */
  async requireSubmission(transaction: Resource): Promise<void> {
    await this.require('CREATE', transaction.target, () => JSON.stringify(transaction.value))
    // The record does not exist yet, so conditions cannot use its content.
    await this.require('CREATE', historianTarget(transaction.target), () => null)
  }

  /** Returns a resource, or null if it does not exist or the caller may not read it. Errors: TYPE_NOT_FOUND. */
  async read(target: Target): Promise<StoredResource | null> {
    const all = this.#readsAll(this.#instance(target))
    if (all !== null) return all ? this.database.read(target) : null
    for await (const [readable = null] of this.readAll([target])) return readable
    return null
  }

  // A request that waits for its turn holds no resources: a suspended generator keeps its variables, so the functions
  // that run in a turn return arrays which the caller empties.

  /** Like `read`, for several resources, in batches. */
  async *readAll(targets: readonly Target[]): AsyncGenerator<(StoredResource | null)[]> {
    let from = 0
    const next = async () => {
      const batch = await readBatch(this.database, targets, from)
      const instances = targets.slice(from, from + batch.length)
      from += batch.length
      return this.#readable(
        instances.map((target) => this.#instance(target)),
        batch,
      )
    }
    const isConditional = targets.some((target) => this.#readsAll(this.#instance(target)) === null)
    while (from < targets.length) {
      if (from > 0) await this.pause()
      yield isConditional ? this.#inTurn(next) : next()
    }
  }

  /** Yields the selected resources that the caller may read. `limit` and `offset` count only these resources. */
  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const all = this.#readsAll(selection)
    if (all === true) yield* this.#selectAll(selection)
    if (all !== null) return
    try {
      yield* this.#selectReadable(selection)
    } catch (error) {
      // The store counts all resources, but only the number of readable resources may show. Nothing was yielded yet.
      if (!(error instanceof StoreError) || error.code !== 'SEARCH_TOO_LARGE') throw error
      if (selection.order.length === 0) throw error
      yield* this.#sortReadable(selection)
    }
  }

  async *#selectAll(selection: Selection): AsyncGenerator<StoredResource[]> {
    const pages = this.database.select(selection)[Symbol.asyncIterator]()
    let characters = 0
    try {
      // Pauses before a page is read, so that no page is in memory during the pause.
      for (let next = await pages.next(); next.done !== true; next = await pages.next()) {
        for (const { text } of next.value) characters += text.length
        yield next.value
        if (characters < PAUSE_CHARACTERS) continue
        characters = 0
        await this.pause()
      }
    } finally {
      await pages.return?.()
    }
  }

  /** Sorts the readable resources in memory by their keys, and then reads them again. Errors: SEARCH_TOO_LARGE. */
  async *#sortReadable(selection: Selection): AsyncGenerator<StoredResource[]> {
    const { type, offset } = selection
    const limit = selection.limit ?? Number.POSITIVE_INFINITY
    const order = new ResourceOrder(selection)
    let found: { readonly id: string; readonly keys: readonly SortValue[] }[] = []
    const sort = () => {
      found.sort((one, other) => order.compare(one.keys, other.keys))
      found = found.slice(0, offset + limit)
    }
    const all = { ...selection, order: [], limit: null, offset: 0 }
    for await (const page of this.#selectReadable(all)) {
      for (const each of page.splice(0)) found.push({ id: each.id, keys: order.sortValues(each) })
      if (found.length > 2 * (offset + limit) + 1_000) sort()
      if (found.length > SORTED_ITEMS_MAX) {
        const message = `more than ${SORTED_ITEMS_MAX} resources to sort: give a smaller limit`
        throw new StoreError('SEARCH_TOO_LARGE', message)
      }
      yield []
    }
    sort()
    const targets = found.slice(offset).map(({ id }) => ({ type: type.qualifiedName, id }))
    for await (const batch of this.readAll(targets)) {
      yield batch.splice(0).filter((resource) => resource !== null)
    }
  }

  async *#selectReadable(selection: Selection): AsyncGenerator<StoredResource[]> {
    const { type } = selection
    let skip = selection.offset
    let left = selection.limit ?? Number.POSITIVE_INFINITY
    const pages = this.database.select({ ...selection, limit: null, offset: 0 })
    const reader = pages[Symbol.asyncIterator]()
    let page: StoredResource[] = []
    const next = async () => {
      while (page.length === 0) {
        const { done, value } = await reader.next()
        if (done === true) return null
        page = value
      }
      const batch = takeBatch(page)
      const instances = batch.map(({ id }) => ({ type, id }))
      const found = await this.#readable(instances, batch)
      const readable = found.filter((resource) => resource !== null)
      const rows = readable.slice(skip, skip + left)
      skip -= Math.min(skip, readable.length)
      left -= rows.length
      return rows
    }
    try {
      while (left > 0) {
        const rows = await this.#inTurn(next)
        if (rows === null) return
        // Also an empty page, so that the reader can check its time limit.
        yield rows
      }
    } finally {
      await reader.return?.()
    }
  }

  async count(selection: Selection): Promise<number> {
    const all = this.#readsAll(selection)
    if (all === true) return this.database.count(selection)
    return countRows(this.select({ ...selection, order: [], limit: null, offset: 0 }))
  }

  /** Whether the caller may read a resource with any content; null if that depends on the content. */
  readsAlways({ type, id }: Target): boolean | null {
    const declared = requireType(this.definition.model, type)
    return this.#control.allowsAll('READ', declared, this.#context, id)
  }

  /** Reads versions of a resource with `read`; returns those whose texts the caller may read, without the texts. */
  readVersions<Version>(
    target: Target,
    read: () => Promise<readonly { readonly text: string | null; readonly version: Version }[]>,
  ): Promise<Version[]> {
    const instance = this.#instance(target)
    const next = async () => {
      const versions = await read()
      const subjects = versions.map(({ text }) => ({ ...instance, content: () => text }))
      const allowed = await this.#decide('READ', subjects)
      return versions.flatMap(({ version }, at) => (allowed[at] ? [version] : []))
    }
    return this.readsAlways(target) === null ? this.#inTurn(next) : next()
  }

  /** Whether the caller may read all resources of a type; null if the answer depends on the resource. */
  #readsAll({ type }: Pick<Selection, 'type'>): boolean | null {
    return this.#control.allowsAll('READ', type, this.#context)
  }

  /** Replaces resources that the caller may not read with null. `instances` has the types and ids of `resources`. */
  async #readable(
    instances: readonly Instance[],
    resources: readonly (StoredResource | null)[],
  ): Promise<(StoredResource | null)[]> {
    const subjects = instances.map((instance, at) => ({
      ...instance,
      content: () => resources[at]?.text ?? null,
    }))
    const allowed = await this.#decide('READ', subjects)
    return resources.map((resource, at) => (allowed[at] ? resource : null))
  }

  #decide(operation: AccessOperation, subjects: readonly Subject[]): Promise<readonly boolean[]> {
    return this.#control.decide(operation, subjects, this.#context, this.#ask)
  }

  readonly #ask: ConditionEvaluator = async ({ condition }, subjects) => {
    const values: (boolean | null)[] = []
    const untilMs = performance.now() + CONDITIONS_MS_MAX
    let size = subjects.length
    while (values.length < subjects.length) {
      const part = subjects.slice(values.length, values.length + size)
      try {
        values.push(...(await this.#evaluatePart(condition, part)))
        size *= 2
      } catch (error) {
        if (!isExhausted(error)) throw error
        if (part.length === 1) {
          // A decision about a transaction must not depend on how busy the node is.
          if (this.#transaction !== null || performance.now() > untilMs) throw error
          values.push(null)
        }
        // The resources share a deadline and a memory, so a failure says nothing about a single one of them.
        size = Math.ceil(part.length / 2)
      }
    }
    return values
  }

  async #evaluatePart(condition: string, subjects: readonly Subject[]) {
    this.#participant ??= this.#readParticipant()
    const participant = await this.#participant
    const value = this.#transaction?.value
    const transaction = value === undefined ? null : JSON.stringify(value)
    const resources = subjects.map(({ content }) => content())
    const request = { condition, participant, transaction, resources, nowMs: this.#nowMs }
    return this.#evaluate(request, this.database)
  }

  async #readParticipant(): Promise<string> {
    const { database, caller } = this
    const stored = await database.read(caller.participant)
    if (stored !== null) return stored.text
    // Before its first change, the network has not recorded its administrator, so the resource is created here.
    const { type, id } = caller.participant
    const { identifier } = this.#context.participant.type
    return JSON.stringify({ $class: type, [identifier ?? '']: id })
  }

  #instance({ type, id }: Target): Instance {
    return { type: requireType(this.definition.model, type), id }
  }
}
