import { NetworkError } from '../errors.ts'
import type { ConditionAnswerer } from '../runtime/script-runner.ts'
import type { ResourceReader } from './database.ts'
import { spoken, wordIn } from './spoken.ts'

/**
 * Answers conditions of access rules, which follow relationships and do nothing else. They read
 * whatever there is: were the rules asked about what a rule reads, they would never end.
 */
export function conditionAnswerer(database: ResourceReader): ConditionAnswerer {
  return async (request) => {
    const { ask, type, id } = spoken(request)
    if (ask !== 'get') {
      throw new NetworkError('ACCESS_DENIED', 'a condition reads what relationships lead to')
    }
    return (await database.read({ type: wordIn(type), id: wordIn(id) }))?.text ?? 'null'
  }
}
