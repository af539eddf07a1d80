import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { FilterError } from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import type { Model, Target, TypeDeclaration } from '../model/model.ts'
import { SYSTEM_NAMESPACE, systemType } from '../model/system.ts'
import { parseStatement } from '../queries/check.ts'
import { parseStored, type StoredResource, selectAll } from '../resources/database.ts'
import { type Guard, isExhausted } from '../resources/guard.ts'
import {
  formatRegistryId,
  type Resource,
  requireResource,
  requireType,
} from '../resources/instances.ts'
import { presented, Resolver } from '../resources/listing.ts'
import { parameterTexts, selectedPages } from '../resources/query.ts'
import { Resolution } from '../resources/references.ts'
import type { GuestHost } from '../runtime/guest.ts'
import type { Draft } from './draft.ts'
import { parseGuestMessage, requireString, unknownMessage } from './guest-message.ts'
import type { LogLine } from './messages.ts'

/** Maximum changes per transaction. */
const CHANGES_MAX = 2_000
/** Maximum characters that one transaction may write. */
const WRITTEN_LENGTH_MAX = 64 * 1024 * 1024
/** Maximum lines that one transaction may log. */
const LOGS_MAX = 100
/** Maximum characters of a logged line; longer lines are truncated. */
const LOG_LENGTH_MAX = 4_096
/** Maximum characters of one answer to a processor, such as the results of a query. */
const ANSWER_LENGTH_MAX = 16 * 1024 * 1024

/**
 * Answers the requests of one transaction's processors. Processors are untrusted: each request is checked against the
 * model and the access rules.
 */
export class TransactionSession implements GuestHost {
  readonly #draft: Draft
  readonly #guard: Guard
  readonly #model: Model
  readonly #levels: number
  readonly #resolution: Resolution
  readonly logged: LogLine[] = []
  #writtenLength = 0
  #denied: NetworkError | null = null
  #defect: unknown = null

  /**
   * The processors read and write through `draft`. Relationships are resolved up to `levels` deep, starting at the
   * transaction and at each resource that the processors read.
   */
  constructor(draft: Draft, levels: number) {
    this.#draft = draft
    this.#guard = draft.guard
    this.#model = draft.guard.definition.model
    this.#levels = levels
    this.#resolution = new Resolution(this.#model, (targets) => this.#guard.readAll(targets))
  }

  /** The last ACCESS_DENIED, or null. The processors may have caught it and continued. */
  get denied(): NetworkError | null {
    return this.#denied
  }

  /** An unexpected error, or null. If it is set, the result of the processors must be discarded. */
  get defect(): unknown {
    return this.#defect
  }

  /**
   * Returns the resources that the transaction refers to, and its participant and identity, which need no READ access,
   * as in Composer. Without `needsCaller`, returns participant and identity only if their READ depends on rules.
   */
  async resolved(needsCaller: boolean): ReturnType<Resolution['of']> {
    const { participant, identity } = this.#guard.caller
    const caller = [participant]
    if (identity !== null) caller.push({ type: systemType('Identity'), id: identity })
    const own = caller.filter((each) => needsCaller || this.#guard.readsAlways(each) !== true)
    const { value } = this.#draft.transaction
    const resolved = await this.#resolution.of([value], this.#levels, own)
    // The own targets are the first ones. Those that the caller may not read are read again, without access rules.
    const readAgain: JsonObject[] = []
    for (const [at, target] of own.entries()) {
      const known = resolved[at]
      if (known !== undefined && known.resource !== null) continue
      const stored = await this.#guard.database.read(target)
      if (stored === null) continue
      const { text } = stored
      const resource = parseStored(text)
      resolved[at] = { ...target, resource, characters: text.length }
      readAgain.push(resource)
    }
    return [...resolved, ...(await this.#resolution.of(readAgain, this.#levels))]
  }

  /** Answers a request from the processors. If it throws, the processors receive only the error's message. */
  async answer(request: string): Promise<string> {
    try {
      return await this.#answer(parseGuestMessage(request), request.length)
    } catch (error) {
      // A script must not catch that an access rule could not be evaluated, and continue without its resources.
      const isRefusal = error instanceof NetworkError || error instanceof FilterError
      if (!isRefusal || isExhausted(error)) this.#defect = error
      else if (error.code === 'ACCESS_DENIED') this.#denied = error
      throw error
    }
  }

  /** Adds a line of console output. Drops lines after LOGS_MAX. Errors: TRANSACTION_FAILED. */
  log(request: string): void {
    const { level, text } = parseGuestMessage(request)
    const line = { level: requireString(level), text: requireString(text) }
    if (this.logged.length >= LOGS_MAX) return
    this.logged.push({ ...line, text: line.text.slice(0, LOG_LENGTH_MAX) })
  }

  async #answer(request: JsonObject, length: number): Promise<string> {
    switch (request.ask) {
      case 'get':
      case 'list':
      case 'query':
        return this.#found(await this.#read(request), request.resolve === true)
      case 'add':
        return this.#write(length, request.resources, (value) =>
          this.#draft.add(this.#checked(value)),
        )
      case 'update':
        return this.#write(length, request.resources, (value) =>
          this.#draft.update(this.#checked(value)),
        )
      case 'remove':
        return this.#write(length, request.ids, (id) => {
          const target = requireTarget({ type: request.type ?? null, id })
          this.#requireWritable(target.type)
          return this.#draft.remove(target)
        })
      default:
        throw unknownMessage()
    }
  }

  /** Returns the requested resources as JSON texts, at most one for `get`. */
  async #read(request: JsonObject): Promise<string[]> {
    if (request.ask === 'get') {
      const stored = await this.#guard.read(requireTarget(request))
      return stored === null ? [] : [stored.text]
    }
    const pages = request.ask === 'query' ? this.#query(request) : this.#list(request)
    const found: string[] = []
    let length = 0
    for await (const page of pages) {
      for (const { text } of page) {
        found.push(text)
        length += text.length
        if (length > ANSWER_LENGTH_MAX) throw answerTooLarge()
      }
    }
    return found
  }

  #list({ type }: JsonObject): AsyncGenerator<StoredResource[]> {
    return this.#guard.select(selectAll(requireType(this.#model, requireString(type))))
  }

  /**
   * Returns the answer with the resources in `texts`. If `isResolved` is set, the relationships are replaced by their
   * resources. Otherwise, the answer also contains the resources to which the relationships refer.
   */
  async #found(texts: readonly string[], isResolved: boolean): Promise<string> {
    const resolver = new Resolver(this.#guard)
    const filter = { fields: null, resolve: isResolved }
    const shown: string[] = []
    let length = 0
    for (const text of texts) {
      const row = await presented(text, filter, resolver)
      shown.push(row)
      length += row.length
      if (length > ANSWER_LENGTH_MAX) throw answerTooLarge()
    }
    const value = `[${shown.join(',')}]`
    const roots = isResolved ? [] : texts.map(parseStored)
    const resolved = await this.#resolution.of(roots, this.#levels)
    return `{"value":${value},"resolved":${JSON.stringify(resolved)}}`
  }

  #query({ name, text: statement, parameters }: JsonObject): AsyncGenerator<StoredResource[]> {
    const query =
      typeof statement === 'string'
        ? parseStatement(statement, this.#model)
        : this.#guard.definition.queries.get(requireString(name ?? ''))
    if (query === undefined) {
      throw new NetworkError('QUERY_NOT_FOUND', 'The specified query does not exist')
    }
    const given = isJsonObject(parameters) ? parameterTexts(parameters) : {}
    return selectedPages(this.#guard, query, given)
  }

  /** Applies `apply` to the elements of `list`, and returns an empty answer. `length` is the length of the request. Errors: TRANSACTION_FAILED. */
  async #write(
    length: number,
    list: Json | undefined,
    apply: (value: Json) => Promise<void>,
  ): Promise<string> {
    this.#writtenLength += length
    if (this.#writtenLength > WRITTEN_LENGTH_MAX) {
      const message = `a transaction may write at most ${WRITTEN_LENGTH_MAX} characters`
      throw new NetworkError('TRANSACTION_FAILED', message)
    }
    for (const value of Array.isArray(list) ? list : []) {
      if (this.#draft.changes.length >= CHANGES_MAX) {
        const message = `a transaction may make at most ${CHANGES_MAX} changes`
        throw new NetworkError('TRANSACTION_FAILED', message)
      }
      await apply(value)
    }
    return ''
  }

  #checked(value: Json): Resource {
    const name = isJsonObject(value) ? requireString(value.$class) : ''
    // Fills no defaults, like Composer: a processor may have deleted a required property.
    const { model, strictNumbers } = this.#guard.definition
    const rules = { model, strictNumbers, hasDefaults: true }
    return requireResource(value, this.#requireWritable(name), rules)
  }

  /** Returns the type `name` if processors may change its resources. */
  #requireWritable(name: string): TypeDeclaration {
    const type = requireType(this.#model, name)
    const isOurs = type.namespace !== SYSTEM_NAMESPACE || name === systemType('NetworkAdmin')
    const isRegistered = type.kind === 'asset' || type.kind === 'participant'
    if (isOurs && isRegistered) return type
    const message = `transactions cannot change the registry ${formatRegistryId(type)}`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }
}

function answerTooLarge(): NetworkError {
  return new NetworkError('TRANSACTION_FAILED', 'a transaction cannot read so many resources')
}

function requireTarget({ type, id }: JsonObject): Target {
  return { type: requireString(type), id: requireString(id) }
}
