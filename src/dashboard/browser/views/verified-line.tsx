import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { ledger, type ScheduledVerification } from '../node/ledger.ts'
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
  return (
    <p class="verified-line soft">
      {t().lastVerified} {verification !== null && <ByNode verification={verification} />}
      {t().byBrowser} <TimeOrNotYet at={here} />
    </p>
  )
}

/** Shows when the scheduled verification last passed, and when a later one failed or did not finish. */
function ByNode({ verification }: { verification: ScheduledVerification }): JSX.Element {
  const { result, time, last_passed: passed } = verification
  const isWorse = result === 'failed' || result === 'unfinished'
  return (
    <>
      {t().byNode} <TimeOrNotYet at={passed} />
      {isWorse && time !== undefined && (
        <>
          {' '}
          ({t().laterResult[result]} <Time at={time} />)
        </>
      )}
      {', '}
    </>
  )
}

function TimeOrNotYet({ at }: { at: number | undefined }): JSX.Element {
  return at === undefined ? <span>{t().notYet}</span> : <Time at={at} />
}
