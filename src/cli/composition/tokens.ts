import { systemClock, systemSchedule } from '../../base/clock.ts'
import { openTokens, type TokenService } from '../../tokens/index.ts'
import type { Settings } from './settings.ts'

/** The tokens of a node. Close them after use. */
export interface NodeTokens {
  readonly tokens: TokenService
  close(): Promise<void>
}

/** Opens the tokens of a node. The list of revoked tokens is in `folder`, or in the database STORE. Errors: StoreError. */
export async function openNodeTokens(
  { STORE, SECRET: secret }: Settings,
  folder: string | null,
  clock = systemClock,
): Promise<NodeTokens> {
  if (STORE === null) {
    const tokens = await openTokens({ clock, folder, secret, revocations: null })
    return { tokens, close: async () => {} }
  }
  const { openSharedText } = await import('../../storage/index.ts')
  const revocations = await openSharedText(STORE, 'token-revocations', systemSchedule)
  const tokens = await openTokens({ clock, folder, secret, revocations })
  return { tokens, close: () => revocations.close() }
}
