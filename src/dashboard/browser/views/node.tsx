import type { JSX } from 'preact'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import {
  base,
  ledger,
  readBlocks,
  type ScheduledResult,
  sessionState,
  statusClient,
} from '../node/ledger.ts'
import { nodeStatus, useChanges } from '../node/live.ts'
import { useLoaded } from '../parts/hooks.ts'
import { CopiedFact, LongText } from '../parts/json.tsx'
import { Button, Fact, Time, ViewHead } from '../parts/layout.tsx'
import { formatFailure, Notice, Waiting } from '../parts/notices.tsx'
import { route } from '../routing/address.ts'
import { formatRoute, ledgerAt } from '../routing/routes.ts'
import { ActivitySection } from './activity.tsx'
import { DenialsSection } from './denials.tsx'
import { EvidenceNotice, PeersSection } from './peers.tsx'
import { TokensSection } from './tokens.tsx'

/** Returns the facts about the node. Instead of a missing checkpoint, returns the reason as text. */
async function readFacts(signal: AbortSignal) {
  const serverId = await ledger.serverId({ signal })
  const input = { path: { serverid: `${serverId}` } }
  const [verifierKey, checkpoint, size] = await Promise.all([
    ledger.request('GET /api/ledgers/{serverid}/vkey', input, { signal }),
    statusClient
      .request('GET /api/ledgers/{serverid}/checkpoint', input, { signal })
      .catch(formatFailure),
    ledger.size({ signal }),
  ])
  const [block] = size === 0 ? [] : await readBlocks(size - 1, 1, signal)
  const head = block && { ...block, height: size - 1 }
  return { serverId, verifierKey: verifierKey.trim(), checkpoint, head }
}

/** Shows the identity of the node, its head, and its peers. */
export function Node(): JSX.Element {
  const [loaded, reload] = useLoaded('node', readFacts)
  useChanges(() => true, reload)
  return (
    <>
      <ViewHead title={t().node} text={t().nodeIs} />
      <Waiting loaded={loaded} again={reload}>
        {({ serverId, verifierKey, checkpoint, head }) => (
          <dl class="card facts">
            <CopiedFact text={`${serverId}`} label={t().serverId} />
            <Fact name={t().address}>
              <code>{base}</code>
            </Fact>
            <Fact name={t().chainHead}>
              {head === undefined ? (
                t().noBlocks
              ) : (
                <a href={formatRoute(ledgerAt(head.height))}>{t().block(head.height)}</a>
              )}
            </Fact>
            {head !== undefined && (
              <>
                <Fact name={t().lastEntry}>
                  <Time at={head.timestamps.at(-1) ?? 0} />
                </Fact>
                <CopiedFact text={head.id} label={t().headId} />
              </>
            )}
            <CopiedFact text={verifierKey} label={t().verifierKey} hint={t().verifierKeyIs} />
            <Fact name={t().checkpoint} hint={t().checkpointIs}>
              <LongText text={checkpoint} />
            </Fact>
          </dl>
        )}
      </Waiting>
      <ActivitySection />
      <PeersSection />
      <TokensSection />
      <DenialsSection />
    </>
  )
}

/** Shows alerts above every view. */
export function Alerts(): JSX.Element {
  const { peers, evidence = null, refusal = null, verification = null } = nodeStatus.value ?? {}
  // The view of the node does not need alerts about frozen mirrors, because it shows the evidence itself.
  const isElsewhere = route.value.view !== 'node'
  const frozen = new Set(
    Array.isArray(peers) && isElsewhere
      ? peers.filter(({ state }) => state === 'frozen').map(({ serverid }) => serverid)
      : [],
  )
  return (
    <div role="alert">
      <SessionAlert />
      {refusal !== null && <Notice title={t().refusesChanges}>{formatFailure(refusal)}</Notice>}
      {verification !== null && <VerificationAlert verification={verification} />}
      {evidence !== null && <EvidenceNotice title={t().ownKeyTwice} evidence={evidence} />}
      {[...frozen].map((serverid) => (
        <Notice key={serverid} title={t().twoHistories(`${serverid}`)}>
          <a href={formatRoute({ view: 'node' })}>{t().showEvidence}</a>
        </Notice>
      ))}
    </div>
  )
}

/** Shows an alert if the scheduled verification of the node failed or did not finish. */
function VerificationAlert({
  verification,
}: {
  verification: ScheduledResult
}): JSX.Element | null {
  if (verification.result !== 'failed' && verification.result !== 'unfinished') return null
  const hasFailed = verification.result === 'failed'
  return (
    <Notice title={hasFailed ? t().scheduledFailed : t().scheduledUnfinished} isMild={!hasFailed}>
      {visible((hasFailed ? verification.finding : verification.reason) ?? '')} (
      <Time at={verification.time} />)
    </Notice>
  )
}

function SessionAlert(): JSX.Element | null {
  if (sessionState.value === 'lost') return <p class="notice bad">{t().lost}</p>
  if (sessionState.value !== 'ended') return null
  return (
    <div class="notice bad">
      <p>{t().ended}</p>
      <Button text={t().signIn} class="small" act={() => location.reload()} />
    </div>
  )
}
