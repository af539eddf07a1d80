import { AccessControl } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'

/**
 * The access rules of `definition`, ready to be asked.
 * Errors: NETWORK_UNSUPPORTED for rules with conditions: they are JavaScript of the network's author,
 * which nothing here may run yet.
 */
export function controlOf({ name, rules }: NetworkDefinition): AccessControl {
  const conditional = (rules ?? []).filter(({ condition }) => condition !== null)
  if (conditional.length === 0) return new AccessControl(rules)
  const named = conditional.map((rule) => rule.name).join(', ')
  throw new NetworkError(
    'NETWORK_UNSUPPORTED',
    `${name} cannot be deployed by this version: access rules with conditions are not evaluated ` +
      `yet (${named})`,
  )
}
