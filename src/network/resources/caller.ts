import type { Model } from '../model/model.ts'
import { relationshipText, type Target } from '../model/relationship.ts'
import { systemType } from '../model/system.ts'

/** On whose behalf a request is made. */
export interface Caller {
  readonly participant: Target
  /** The id of the identity that was shown; null where the gateway itself vouches. */
  readonly identity: string | null
}

/** Who acts where nobody has to say who they are, and who holds the key of the gateway. */
export const ADMIN: Caller = {
  participant: { type: systemType('NetworkAdmin'), id: 'admin' },
  identity: null,
}

/** Members of a HistorianRecord that say who acted. */
export function actorOf({ participant, identity }: Caller) {
  const identityUsed = { type: systemType('Identity'), id: identity ?? '' }
  return {
    participantInvoking: relationshipText(participant),
    ...(identity === null ? {} : { identityUsed: relationshipText(identityUsed) }),
  }
}

/** The participant as access rules see it. */
export function asInstance({ type, id }: Target, model: Model) {
  const declaration = model.type(type)
  return declaration === null ? null : { type: declaration, id }
}
