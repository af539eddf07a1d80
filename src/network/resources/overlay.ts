import { matches, type SortValue } from '../../filter/index.ts'
import type { Model, Target, TypeDeclaration } from '../model/model.ts'
import { SYSTEM_NAMESPACE, systemType } from '../model/system.ts'
import type { ResourceChange, ResourceReader, Selection, StoredResource } from './database.ts'
import { countRows, parseStored, ResourceOrder, toWrite } from './database.ts'

/** Reads the resources of the reader `below` with unrecorded changes applied. Does not change `below`. */
export class Overlay implements ResourceReader {
  readonly #below: ResourceReader
  /** Changed resources by type and id. */
  readonly #changed = new Map<string, Map<string, Changed>>()

  constructor(below: ResourceReader) {
    this.#below = below
  }

  /** Applies a change. `sequence` is the number of the change for `drop`. */
  apply(change: ResourceChange, sequence = 0): void {
    const { type, id } = change.target
    const ofType = this.#changed.get(type) ?? new Map<string, Changed>()
    this.#changed.set(type, ofType)
    // The positions are -1, because the change is not recorded yet.
    const stored = { id, created: -1, revision: -1 }
    const made = change.kind === 'delete' ? null : { ...stored, text: change.text }
    ofType.set(id, { stored: made, sequence })
  }

  /** Removes the changes up to `sequence`, because the reader `below` now contains them. */
  drop(sequence: number): void {
    for (const [type, ofType] of this.#changed) {
      for (const [id, changed] of ofType) if (changed.sequence <= sequence) ofType.delete(id)
      if (ofType.size === 0) this.#changed.delete(type)
    }
  }

  /** Whether a change, and no later deletion, wrote the resource. */
  has({ type, id }: Target): boolean {
    return (this.#changed.get(type)?.get(id)?.stored ?? null) !== null
  }

  async read(target: Target): Promise<StoredResource | null> {
    const changed = this.#changed.get(target.type)?.get(target.id)
    return changed === undefined ? this.#below.read(target) : changed.stored
  }

  async exists(target: Target): Promise<boolean> {
    const changed = this.#changed.get(target.type)?.get(target.id)
    return changed === undefined ? this.#below.exists(target) : changed.stored !== null
  }

  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const changed = this.#changed.get(selection.type.qualifiedName)
    if (changed === undefined) {
      yield* this.#below.select(selection)
      return
    }
    const { where } = selection
    const order = new ResourceOrder(selection)
    const made = [...changed.values()]
      .flatMap(({ stored }) => stored ?? [])
      .filter(({ text }) => where === null || matches(where, parseStored(text)))
      .map((stored) => ({ stored, keys: order.sortValues(stored) }))
      .sort((one, other) => order.compare(one.keys, other.keys))
    yield* limited(this.#merged(selection, changed, made, order), selection)
  }

  /** Yields the unchanged resources of the reader `below` and the resources in `made`, in order. */
  async *#merged(
    selection: Selection,
    changed: ReadonlyMap<string, Changed>,
    made: { stored: StoredResource; keys: readonly SortValue[] }[],
    order: ResourceOrder,
  ): AsyncGenerator<StoredResource[]> {
    let next = 0
    for await (const page of this.#below.select({ ...selection, limit: null, offset: 0 })) {
      const rows: StoredResource[] = []
      for (const stored of page) {
        if (changed.has(stored.id)) continue
        const keys = next < made.length ? order.sortValues(stored) : []
        for (; next < made.length; next += 1) {
          const row = made[next]
          if (row === undefined || order.compare(row.keys, keys) > 0) break
          rows.push(row.stored)
        }
        rows.push(stored)
      }
      yield rows
    }
    yield made.slice(next).map(({ stored }) => stored)
  }

  async count(selection: Selection): Promise<number> {
    if (!this.#changed.has(selection.type.qualifiedName)) return this.#below.count(selection)
    return countRows(this.select({ ...selection, limit: null, offset: 0 }))
  }
}

/** Yields the resources in `pages` after the offset of a selection, up to its limit. */
export async function* limited(
  pages: AsyncIterable<StoredResource[]>,
  { offset, limit }: Pick<Selection, 'offset' | 'limit'>,
): AsyncGenerator<StoredResource[]> {
  let skip = offset
  let left = limit ?? Number.POSITIVE_INFINITY
  for await (const page of pages) {
    const rows = page.slice(skip, skip + left)
    skip -= Math.min(skip, page.length)
    left -= rows.length
    if (rows.length > 0) yield rows
    if (left === 0) return
  }
}

/** The state after a change; `stored` is null if the change deleted the resource. */
interface Changed {
  readonly stored: StoredResource | null
  readonly sequence: number
}

// As in Composer, the registries of a network are resources, because processors and queries read them and
// `targetRegistry` of a system transaction refers to a registry. Registries are derived from the model and not stored.

/** Start of the name of a registry type, by the kind of the resources in the registry. */
const REGISTRY_NAMES = new Map<TypeDeclaration['kind'], string>([
  ['asset', 'Asset'],
  ['participant', 'Participant'],
  ['transaction', 'Transaction'],
])

/** A reader without resources. */
export const NO_RESOURCES: ResourceReader = {
  read: async () => null,
  exists: async () => false,
  async *select() {},
  count: async () => 0,
}

/** Returns a reader of the registries of all concrete types in `model` except the system types. */
export function createRegistries(model: Model): ResourceReader {
  const registries = new Overlay(NO_RESOURCES)
  for (const { kind, abstract, namespace, qualifiedName } of model.types()) {
    const name = REGISTRY_NAMES.get(kind)
    if (name === undefined || abstract || namespace === SYSTEM_NAMESPACE) continue
    const type = systemType(`${name}Registry`)
    const resource = {
      $class: type,
      registryId: qualifiedName,
      name: `${name} registry for ${qualifiedName}`,
      type: name,
      system: false,
    }
    registries.apply(toWrite('create', { type, id: qualifiedName }, resource))
  }
  return registries
}
