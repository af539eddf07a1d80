import type { Model, TypeDeclaration } from '../model/model.ts'
import { SYSTEM_NAMESPACE, systemType } from '../model/system.ts'
import type { ResourceReader } from './database.ts'
import { Overlay } from './overlay.ts'

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
