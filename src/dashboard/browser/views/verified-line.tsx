import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { nodeStatus } from '../node/live.ts'
import { useLoaded } from '../parts/hooks.ts'
import { Time } from '../parts/layout.tsx'
import { rememberedChains } from '../verification/memory.ts'
import { run } from '../verification/run.ts'

/** Shows when the chain was last verified, by the node on its schedule and by this browser. */
export function VerifiedLine(): JSX.Element | null {
  const [serverId] = useLoaded('serverid', (signal) => ledger.serverId({ signal }))
  // Reading the signal renders this line again after a verification.
  run.value
  if (serverId.state !== 'loaded') return null
  const here = rememberedChains()[serverId.value]?.verifiedAt
  const { verification = null } = nodeStatus.value ?? {}
  const { result, time } = verification ?? {}
  return (
    <p class="verified-line soft">
      {t().lastVerified}{' '}
      {result === 'passed' && time !== undefined && (
        <>
          {t().byNode} <Time at={time} />
          {', '}
        </>
      )}
      {result === 'pending' && `${t().byNodePending}, `}
      {t().byBrowser} {here === undefined ? t().notYet : <Time at={here} />}
    </p>
  )
}
