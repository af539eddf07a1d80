import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { FilterError } from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import type { Operation } from '../language/rule-file.ts'
import type { TypeDeclaration } from '../model/model.ts'
import type { Target } from '../model/relationship.ts'
import { SYSTEM_NAMESPACE, systemType } from '../model/system.ts'
import type { NamedQuery } from '../queries/check.ts'
import { writtenQuery } from '../queries/written.ts'
import type { Evaluate } from '../runtime/run.ts'
import type { ScriptRunner } from '../runtime/script-runner.ts'
import { conditionAnswerer } from './condition-reads.ts'
import { Guard, type GuardParts, type Judge } from './guard.ts'
import { type Judge as InstanceJudge, resourceOf } from './instances.ts'
import { objectIn } from './item.ts'
import type { ListSource } from './list-source.ts'
import { collectionOf, missing, taken } from './messages.ts'
import type { Overlay } from './overlay.ts'
import { parameterTexts, selectedResources } from './query.ts'
import { Resolver } from './resolve.ts'
import { spoken, unknownQuestion, wordIn } from './spoken.ts'
import type { TransactionRecord } from './transaction-record.ts'

/** Changes that one transaction may make. */
const CHANGES_MAX = 2_000
/** Characters of all that one transaction writes. */
const WRITTEN_LENGTH_MAX = 64 * 1024 * 1024
/** Lines that one transaction may log, and characters of each. */
const LOGS_MAX = 100
const LOG_LENGTH_MAX = 4_096
/** Characters of one answer to a processor: all that a list or a query found. */
const ANSWER_LENGTH_MAX = 16 * 1024 * 1024

/** What a session is made of. */
export interface SessionParts {
  readonly guard: Omit<GuardParts, 'judge' | 'database'>
  readonly transaction: TransactionRecord
  /** Takes what the processors write; they read through it. */
  readonly overlay: Overlay
  readonly instances: InstanceJudge
  readonly scripts: ScriptRunner
  readonly queries: ReadonlyMap<string, NamedQuery>
}

/**
 * What the processors of one transaction may do, as they ask for it from inside the sandbox. They are
 * nobody's word: everything they ask for is judged here, by the model and by the access rules.
 */
export class TransactionSession {
  readonly #parts: SessionParts
  readonly #source: ListSource
  /** What processors say to the console. */
  readonly logged: { readonly level: string; readonly text: string }[] = []
  /** While processors wait for an answer. */
  #evaluate: Evaluate | null = null
  #misled = false
  #writtenLength = 0
  #denied: NetworkError | null = null
  #defect: unknown = null

  constructor(parts: SessionParts) {
    this.#parts = parts
    const { overlay, transaction, guard, scripts } = parts
    const judge: Judge = (request) => {
      const evaluate = this.#evaluate
      if (evaluate === null) return scripts.judge(request, conditionAnswerer(overlay))
      return scripts.judgeMeanwhile(request, evaluate, conditionAnswerer(overlay))
    }
    const asked = new Guard({ ...guard, database: overlay, judge }, transaction)
    this.#source = { database: overlay, model: guard.model, guard: asked }
  }

  /** The last thing that access rules refused; the processors may have gone on without it. */
  get denied(): NetworkError | null {
    return this.#denied
  }

  /** What failed that is no refusal: nothing that the processors did counts then. */
  get defect(): unknown {
    return this.#defect
  }

  /**
   * Whether a write was refused that the processors went on after as if it had been made. All that
   * they did since is void; they have to be called again, and to ask for each write.
   */
  get misled(): boolean {
    return this.#misled
  }

  /**
   * Makes the writes that the processors told of, then answers what they ask.
   * Errors: what they see as exceptions.
   */
  async answer(request: string, told: readonly string[], evaluate: Evaluate): Promise<string> {
    this.#evaluate = evaluate
    return this.#guarded(async () => {
      if (this.#misled) throw new NetworkError('TRANSACTION_FAILED', 'a write was refused')
      const asked = spoken(request)
      const isNothing = asked.ask === 'nothing'
      await this.#write(told, isNothing && told.length === 1)
      const text = isNothing ? 'null' : await this.#answer(asked)
      if (text.length <= ANSWER_LENGTH_MAX) return text
      throw new NetworkError('TRANSACTION_FAILED', 'a transaction cannot take in so many resources')
    })
  }

  /** Makes the writes that the processors had not told of when they ended; gives why one is refused. */
  async finish(told: readonly string[]): Promise<unknown> {
    this.#evaluate = null
    return this.#guarded(() => this.#write(told, false)).then(
      () => null,
      (error: unknown) => error,
    )
  }

  /** Notes what kind of failure `work` meets. */
  async #guarded<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof NetworkError || error instanceof FilterError)) this.#defect = error
      else if (error.code === 'ACCESS_DENIED') this.#denied = error
      throw error
    }
  }

  async #write(told: readonly string[], isAsked: boolean): Promise<void> {
    try {
      for (const write of told) {
        this.#count(write.length)
        await this.#writeOne(spoken(write))
      }
    } catch (error) {
      this.#misled ||= !isAsked
      throw error
    }
  }

  #count(length: number): void {
    this.#writtenLength += length
    if (this.#writtenLength <= WRITTEN_LENGTH_MAX) return
    const message = `a transaction writes ${WRITTEN_LENGTH_MAX} characters at most`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }

  async #writeOne(asked: JsonObject): Promise<void> {
    switch (asked.ask) {
      case 'add':
        return this.#each(asked.resources, (value) => this.#add(value))
      case 'update':
        return this.#each(asked.resources, (value) => this.#update(value))
      case 'remove':
        return this.#each(asked.ids, (id) =>
          this.#remove(targetIn({ type: asked.type ?? null, id })),
        )
      default:
        throw unknownQuestion()
    }
  }

  async #answer(asked: JsonObject): Promise<string> {
    switch (asked.ask) {
      case 'get':
        return (await this.#read(targetIn(asked))) ?? 'null'
      case 'list':
        return `[${(await this.#list(asked)).join(',')}]`
      case 'resolve':
        return this.#resolve(targetIn(asked))
      case 'resolveAll':
        return this.#resolveAll(asked)
      case 'query':
        return JSON.stringify(await this.#query(asked))
      case 'log':
        return this.#log(asked)
      default:
        throw unknownQuestion()
    }
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
    const type = this.#typeOf(wordIn(asked.type))
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
        : this.#parts.queries.get(wordIn(name ?? ''))
    if (query === undefined) {
      throw new NetworkError('QUERY_NOT_FOUND', `there is no query ${wordIn(name).slice(0, 100)}`)
    }
    const given = isJsonObject(parameters) ? parameterTexts(parameters) : {}
    return selectedResources(this.#source, query, given)
  }

  async #each(list: Json | undefined, apply: (value: Json) => Promise<void>): Promise<void> {
    for (const value of Array.isArray(list) ? list : []) {
      if (this.#parts.overlay.changes.length >= CHANGES_MAX) {
        const message = `a transaction makes ${CHANGES_MAX} changes at most`
        throw new NetworkError('TRANSACTION_FAILED', message)
      }
      await apply(value)
    }
  }

  async #add(value: Json): Promise<void> {
    const { type, target, resource } = this.#judged(value)
    const { database, guard } = this.#source
    await guard.require('CREATE', target, () => resource)
    if ((await database.read(target)) !== null) throw taken(type, target.id)
    this.#parts.overlay.apply({ kind: 'create', target, resource })
  }

  async #update(value: Json): Promise<void> {
    const { target, resource } = this.#judged(value)
    await this.#requireChange('UPDATE', target)
    this.#parts.overlay.apply({ kind: 'update', target, resource })
  }

  async #remove(target: Target): Promise<void> {
    this.#writable(target.type)
    await this.#requireChange('DELETE', target)
    this.#parts.overlay.apply({ kind: 'delete', target })
  }

  /** Rules are asked about what is there; what may not even be read is not there. */
  async #requireChange(operation: Operation, target: Target): Promise<void> {
    const { database, guard } = this.#source
    const stored = await database.read(target)
    const before = () => (stored === null ? null : objectIn(stored.text))
    if (stored !== null && (await guard.allows(operation, target, before))) return
    const isKnown = stored !== null && (await guard.allows('READ', target, before))
    if (!isKnown) throw missing(this.#typeOf(target.type), target.id)
    await guard.require(operation, target, before)
  }

  #judged(value: Json) {
    const name = isJsonObject(value) ? wordIn(value.$class) : ''
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

  #log({ level, text }: JsonObject): string {
    if (this.logged.length < LOGS_MAX) {
      this.logged.push({ level: wordIn(level), text: wordIn(text).slice(0, LOG_LENGTH_MAX) })
    }
    return 'null'
  }
}

function targetIn({ type, id }: JsonObject): Target {
  return { type: wordIn(type), id: wordIn(id) }
}
