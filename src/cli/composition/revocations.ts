import { systemSchedule } from '../../base/clock.ts'
import type { SharedText } from '../../storage/index.ts'

/** Opens the list of revoked tokens in the PostgreSQL database `store`. Errors: StoreError. */
export async function openRevocations(store: string): Promise<SharedText> {
  const { openSharedText } = await import('../../storage/index.ts')
  return openSharedText(store, 'token-revocations', systemSchedule)
}
