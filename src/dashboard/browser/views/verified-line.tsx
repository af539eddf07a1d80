import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import type { ScheduledResult } from '../node/ledger.ts'
import { nodeStatus } from '../node/live.ts'
import { Time } from '../parts/layout.tsx'
import { rememberedChain } from '../verification/memory.ts'
import { run } from '../verification/run.ts'

/** Shows when the chain was last verified, by the node on its schedule and by this browser. */
export function VerifiedLine(): JSX.Element {
  // Reading the signal renders this line again after a verification.
  run.value
  const here = rememberedChain()?.verifiedAt
  const { verification = null } = nodeStatus.value ?? {}
  return (
    <p class="verified-line soft">
      {t().lastVerified} {verification !== null && <ByNode verification={verification} />}
      {t().byBrowser} <TimeOrNotYet at={here} />
    </p>
  )
}

/** Shows when the scheduled verification last passed, and when a later one failed or did not finish. */
function ByNode({ verification }: { verification: ScheduledResult }): JSX.Element {
  const passed = 'last_passed' in verification ? verification.last_passed : undefined
  const isWorse = verification.result === 'failed' || verification.result === 'unfinished'
  return (
    <>
      {t().byNode} <TimeOrNotYet at={passed} />
      {isWorse && (
        <>
          {' '}
          ({t().laterResult[verification.result]} <Time at={verification.time} />)
        </>
      )}
      {', '}
    </>
  )
}

function TimeOrNotYet({ at }: { at: number | undefined }): JSX.Element {
  return at === undefined ? <span>{t().notYet}</span> : <Time at={at} />
}
