import { canonicalJson } from '../../base/canonical-json.ts'
import { compareByOrder, matches, type OrderTerm, sortValuesOf } from '../../filter/index.ts'
import type { Model, Target, TypeDeclaration } from '../model/model.ts'
import { SYSTEM_NAMESPACE, systemType } from '../model/system.ts'
import type { ResourceChange, ResourceReader, Selection, StoredResource } from './database.ts'
import { itemIdOf, lengthOf, objectIn } from './database.ts'

/** Resources with changes that are not recorded yet. Nothing of it reaches the resources below. */
export class Overlay implements ResourceReader {
  #below: ResourceReader
  /** By type and id. */
  readonly #changed = new Map<string, Map<string, Changed>>()

  constructor(below: ResourceReader) {
    this.#below = below
  }

  /** Replaces the resources below. */
  standOn(below: ResourceReader): void {
    this.#below = below
  }

  /** Changes one resource here; `sequence` is for `drop`. */
  apply(change: ResourceChange, sequence = 0): void {
    const { type, id } = change.target
    const ofType = this.#changed.get(type) ?? new Map<string, Changed>()
    this.#changed.set(type, ofType)
    // A change that is not recorded has no revision.
    const stored =
      change.kind === 'delete' ? null : { id, text: canonicalJson(change.resource), revision: -1 }
    ofType.set(id, { stored, sequence })
  }

  /** Drops the changes up to `sequence`, which the resources below have by now. */
  drop(sequence: number): void {
    for (const [type, ofType] of this.#changed) {
      for (const [id, changed] of ofType) if (changed.sequence <= sequence) ofType.delete(id)
      if (ofType.size === 0) this.#changed.delete(type)
    }
  }

  async read(target: Target): Promise<StoredResource | null> {
    const changed = this.#changed.get(target.type)?.get(target.id)
    return changed === undefined ? this.#below.read(target) : changed.stored
  }

  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const changed = this.#changed.get(selection.type.qualifiedName)
    if (changed === undefined) {
      yield* this.#below.select(selection)
      return
    }
    const { where, order, offset, limit } = selection
    const rows: StoredResource[] = []
    for await (const page of this.#below.select({ ...selection, limit: null, offset: 0 })) {
      for (const stored of page) if (!changed.has(stored.id)) rows.push(stored)
    }
    for (const { stored } of changed.values()) {
      if (stored === null) continue
      if (where === null || matches(where, objectIn(stored.text))) rows.push(stored)
    }
    rows.sort(compareItems)
    yield ordered(rows, order).slice(offset, limit === null ? undefined : offset + limit)
  }

  async count(selection: Selection): Promise<number> {
    if (!this.#changed.has(selection.type.qualifiedName)) return this.#below.count(selection)
    return lengthOf(this.select({ ...selection, limit: null, offset: 0 }))
  }
}

/** `stored` is null for a resource that was removed. */
interface Changed {
  readonly stored: StoredResource | null
  readonly sequence: number
}

/** Compares as the ledger orders items. */
function compareItems(one: StoredResource, other: StoredResource): number {
  return itemIdOf({ type: '', id: one.id }) < itemIdOf({ type: '', id: other.id }) ? -1 : 1
}

/** `resources` in `order`; those that are equal in it keep theirs. */
export function ordered(
  resources: readonly StoredResource[],
  order: readonly OrderTerm[],
): readonly StoredResource[] {
  if (order.length === 0) return resources
  return resources
    .map((resource) => ({ resource, keys: sortValuesOf(order, objectIn(resource.text)) }))
    .sort((one, other) => compareByOrder(order, one.keys, other.keys))
    .map(({ resource }) => resource)
}

// As in Composer, the registries of a network are resources: processors and queries read them, and
// `targetRegistry` of a system transaction leads to one. They follow from the model and are not stored.

/** Names of the types of registries by the kind of type that they hold. */
const REGISTRY_NAMES = new Map<TypeDeclaration['kind'], string>([
  ['asset', 'Asset'],
  ['participant', 'Participant'],
  ['transaction', 'Transaction'],
])

/** No resources. */
export const NO_RESOURCES: ResourceReader = {
  read: async () => null,
  async *select() {},
  count: async () => 0,
}

/** The registries of the concrete types that `model` declares beside the system's. */
export function registriesOf(model: Model): ResourceReader {
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
    registries.apply({ kind: 'create', target: { type, id: qualifiedName }, resource })
  }
  return registries
}
