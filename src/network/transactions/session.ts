import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { FilterError } from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import type { Operation } from '../language/rule-parser.ts'
import type { Target, TypeDeclaration } from '../model/model.ts'
import { SYSTEM_NAMESPACE, systemType } from '../model/system.ts'
import { type NamedQuery, writtenQuery } from '../queries/check.ts'
import { objectIn, type ResourceChange } from '../resources/database.ts'
import { Guard, type GuardParts, type Source } from '../resources/guard.ts'
import {
  collectionOf,
  type InstanceRules,
  missing,
  resourceOf,
  taken,
} from '../resources/instances.ts'
import { Resolver } from '../resources/listing.ts'
import type { Overlay } from '../resources/overlay.ts'
import { parameterTexts, selectedResources } from '../resources/query.ts'
import { Resolution, type Resolved } from '../resources/references.ts'
import type { TransactionRecord } from '../resources/transaction.ts'
import type { GuestHost } from '../runtime/guest.ts'
import { parseGuestMessage, requireString, unknownMessage } from './guest-message.ts'
import type { LogLine } from './messages.ts'
import { resolvedText } from './scripts.ts'

/** Changes that one transaction may make. */
const CHANGES_MAX = 2_000
/** Characters of all that one transaction writes. */
const WRITTEN_LENGTH_MAX = 64 * 1024 * 1024
/** Lines that one transaction may log, and characters of each. */
const LOGS_MAX = 100
const LOG_LENGTH_MAX = 4_096
/** Characters of one answer to a processor: all that a list or a query found. */
const ANSWER_LENGTH_MAX = 16 * 1024 * 1024

export interface SessionParts {
  readonly guard: Omit<GuardParts, 'database'>
  readonly transaction: TransactionRecord
  /** Receives the writes of the processors; they read through it. */
  readonly overlay: Overlay
  readonly instances: InstanceRules
  readonly queries: ReadonlyMap<string, NamedQuery>
  /** Levels of relationships that are resolved with the transaction, and with each resource it reads. */
  readonly levels: { readonly transaction: number; readonly reads: number }
}

/**
 * Serves the processors of one transaction. They are not trusted: all that they ask for is checked here,
 * by the model and by the access rules.
 */
export class TransactionSession implements GuestHost {
  readonly #parts: SessionParts
  readonly #source: Source
  readonly #resolution: Resolution
  /** The writes, in their order. */
  readonly changes: ResourceChange[] = []
  /** Lines of the console. */
  readonly logged: LogLine[] = []
  #writtenLength = 0
  #denied: NetworkError | null = null
  #defect: unknown = null

  constructor(parts: SessionParts) {
    this.#parts = parts
    const { overlay, transaction, guard } = parts
    const inside = new Guard({ ...guard, database: overlay }, transaction)
    this.#source = { database: overlay, model: guard.model, guard: inside }
    this.#resolution = new Resolution(guard.model, (targets) => this.#readable(targets))
  }

  /** The last refusal of access; the processors may have gone on without. */
  get denied(): NetworkError | null {
    return this.#denied
  }

  /** An error that is not a refusal: nothing that the processors did counts then. */
  get defect(): unknown {
    return this.#defect
  }

  /** The resources that the transaction's relationships lead to, and those of its caller. */
  resolved(): Promise<Resolved[]> {
    const { transaction, guard, levels } = this.#parts
    const { participant, identity } = guard.caller
    const own = identity === null ? [] : [{ type: systemType('Identity'), id: identity }]
    return this.#resolution.of([transaction.resource], levels.transaction, [participant, ...own])
  }

  /** Answers a request of the processors. Errors: the processors see the message. */
  async answer(request: string): Promise<string> {
    try {
      return await this.#answer(parseGuestMessage(request), request.length)
    } catch (error) {
      if (!(error instanceof NetworkError || error instanceof FilterError)) this.#defect = error
      else if (error.code === 'ACCESS_DENIED') this.#denied = error
      throw error
    }
  }

  /** Takes a line of the console. Errors: TRANSACTION_FAILED. */
  log(request: string): void {
    const { level, text } = parseGuestMessage(request)
    const line = { level: requireString(level), text: requireString(text) }
    if (this.logged.length >= LOGS_MAX) return
    this.logged.push({ ...line, text: line.text.slice(0, LOG_LENGTH_MAX) })
  }

  async #answer(asked: JsonObject, length: number): Promise<string> {
    switch (asked.ask) {
      case 'get': {
        const text = await this.#read(targetIn(asked))
        return this.#answerText(text ?? 'null', text === null ? [] : [text])
      }
      case 'list': {
        const texts = await this.#list(asked)
        return this.#answerText(`[${texts.join(',')}]`, texts)
      }
      case 'query': {
        const texts = (await this.#query(asked)).map((resource) => JSON.stringify(resource))
        return this.#answerText(`[${texts.join(',')}]`, texts)
      }
      case 'resolve':
        return this.#answerText(await this.#resolve(targetIn(asked)), [])
      case 'resolveAll':
        return this.#answerText(await this.#resolveAll(asked), [])
      case 'add':
        return this.#write(length, asked.resources, (value) => this.#add(value))
      case 'update':
        return this.#write(length, asked.resources, (value) => this.#update(value))
      case 'remove':
        return this.#write(length, asked.ids, (id) =>
          this.#remove(targetIn({ type: asked.type ?? null, id })),
        )
      default:
        throw unknownMessage()
    }
  }

  /** An answer, with the resources that those in `texts` lead to. */
  async #answerText(value: string, texts: readonly string[]): Promise<string> {
    if (value.length > ANSWER_LENGTH_MAX) {
      throw new NetworkError('TRANSACTION_FAILED', 'a transaction cannot take in so many resources')
    }
    const levels = this.#parts.levels.reads
    const roots = levels === 0 ? [] : texts.map(objectIn)
    const resolved = await this.#resolution.of(roots, levels)
    return `{"value":${value},"resolved":${resolvedText(resolved)}}`
  }

  /** The texts of resources; null for those that do not exist or may not be read. */
  async #readable(targets: readonly Target[]): Promise<(string | null)[]> {
    const { database, guard } = this.#source
    const stored = await Promise.all(targets.map((target) => database.read(target)))
    const ofType = Map.groupBy(targets.keys(), (at) => targets[at]?.type ?? '')
    const texts: (string | null)[] = targets.map(() => null)
    for (const [type, places] of ofType) {
      const rows = places.flatMap((at) => {
        const resource = stored[at] ?? null
        return resource === null ? [] : [{ id: resource.id, text: resource.text, at }]
      })
      for (const { text, at } of await guard.readable(type, rows)) texts[at] = text
    }
    return texts
  }

  async #read(target: Target): Promise<string | null> {
    const { database, guard } = this.#source
    this.#typeOf(target.type)
    const stored = await database.read(target)
    if (stored === null) return null
    return (await guard.allows('READ', target, () => objectIn(stored.text))) ? stored.text : null
  }

  async #list(asked: JsonObject): Promise<string[]> {
    const { database, guard } = this.#source
    const type = this.#typeOf(requireString(asked.type))
    if (guard.readsAll(type.qualifiedName) === false) return []
    const found: string[] = []
    let length = 0
    const all = { type, where: null, order: [], limit: null, offset: 0 }
    for await (const page of database.select(all)) {
      for (const { text } of await guard.readable(type.qualifiedName, page)) {
        found.push(text)
        length += text.length
      }
      if (length > ANSWER_LENGTH_MAX) break
    }
    return found
  }

  async #resolve(target: Target): Promise<string> {
    const text = await this.#read(target)
    if (text === null) throw missing(this.#typeOf(target.type), target.id)
    return this.#resolved(text, new Resolver(this.#source))
  }

  async #resolveAll(asked: JsonObject): Promise<string> {
    const resolver = new Resolver(this.#source)
    const texts: string[] = []
    for (const text of await this.#list(asked)) texts.push(await this.#resolved(text, resolver))
    return `[${texts.join(',')}]`
  }

  async #resolved(text: string, resolver: Resolver): Promise<string> {
    const whole = objectIn(text)
    return JSON.stringify(await resolver.resolved(whole, whole))
  }

  #query({ name, text: statement, parameters }: JsonObject): Promise<JsonObject[]> {
    const { model } = this.#source
    const query =
      typeof statement === 'string'
        ? writtenQuery(statement, model)
        : this.#parts.queries.get(requireString(name ?? ''))
    if (query === undefined) {
      throw new NetworkError(
        'QUERY_NOT_FOUND',
        `there is no query ${requireString(name).slice(0, 100)}`,
      )
    }
    const given = isJsonObject(parameters) ? parameterTexts(parameters) : {}
    return selectedResources(this.#source, query, given)
  }

  /** Applies the elements of `list`, a request of `length` characters. Errors: TRANSACTION_FAILED. */
  async #write(
    length: number,
    list: Json | undefined,
    apply: (value: Json) => Promise<ResourceChange>,
  ): Promise<string> {
    this.#writtenLength += length
    if (this.#writtenLength > WRITTEN_LENGTH_MAX) {
      const message = `a transaction writes ${WRITTEN_LENGTH_MAX} characters at most`
      throw new NetworkError('TRANSACTION_FAILED', message)
    }
    for (const value of Array.isArray(list) ? list : []) {
      if (this.changes.length >= CHANGES_MAX) {
        const message = `a transaction makes ${CHANGES_MAX} changes at most`
        throw new NetworkError('TRANSACTION_FAILED', message)
      }
      const change = await apply(value)
      this.changes.push(change)
      this.#parts.overlay.apply(change)
    }
    return '{"value":null,"resolved":[]}'
  }

  async #add(value: Json): Promise<ResourceChange> {
    const { type, target, resource } = this.#checked(value)
    const { database, guard } = this.#source
    await guard.require('CREATE', target, () => resource)
    if ((await database.read(target)) !== null) throw taken(type, target.id)
    return { kind: 'create', target, resource }
  }

  async #update(value: Json): Promise<ResourceChange> {
    const { target, resource } = this.#checked(value)
    await this.#requireChange('UPDATE', target)
    return { kind: 'update', target, resource }
  }

  async #remove(target: Target): Promise<ResourceChange> {
    this.#writable(target.type)
    await this.#requireChange('DELETE', target)
    return { kind: 'delete', target }
  }

  /** Rules apply to the stored version. A resource that may not be read counts as missing. */
  async #requireChange(operation: Operation, target: Target): Promise<void> {
    const { database, guard } = this.#source
    const stored = await database.read(target)
    const before = () => (stored === null ? null : objectIn(stored.text))
    if (stored !== null && (await guard.allows(operation, target, before))) return
    const isKnown = stored !== null && (await guard.allows('READ', target, before))
    if (!isKnown) throw missing(this.#typeOf(target.type), target.id)
    await guard.require(operation, target, before)
  }

  #checked(value: Json) {
    const name = isJsonObject(value) ? requireString(value.$class) : ''
    const type = this.#writable(name)
    const { target, value: resource } = resourceOf(value, type, this.#parts.instances)
    return { type, target, resource }
  }

  /** The type of that name, when processors may change resources of it. */
  #writable(name: string): TypeDeclaration {
    const type = this.#typeOf(name)
    const isOurs = type.namespace !== SYSTEM_NAMESPACE || name === systemType('NetworkAdmin')
    const isRegistered = type.kind === 'asset' || type.kind === 'participant'
    if (isOurs && isRegistered) return type
    const message = `transactions do not change the registry ${collectionOf(type)}`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }

  #typeOf(name: string): TypeDeclaration {
    const type = this.#source.model.type(name)
    if (type !== null) return type
    throw new NetworkError('TYPE_NOT_FOUND', `there is no type ${name.slice(0, 100)}`)
  }
}

function targetIn({ type, id }: JsonObject): Target {
  return { type: requireString(type), id: requireString(id) }
}
