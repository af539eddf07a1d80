import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { sessionState } from '../node/ledger.ts'
import { standing } from '../node/standing.ts'
import { failureText } from '../parts/failure.tsx'
import { hrefOf, place } from '../routes.ts'
import { EvidenceNotice } from './peers.tsx'

/** What nobody should overlook, on every page. */
export function Alerts(): JSX.Element {
  const { peers, evidence = null, refusal = null } = standing.value ?? {}
  // The view of the node shows them itself.
  const isElsewhere = place.value.view !== 'node'
  const frozen = new Set(
    Array.isArray(peers) && isElsewhere
      ? peers.filter(({ state }) => state === 'frozen').map(({ serverid }) => serverid)
      : [],
  )
  return (
    <div role="alert">
      <SessionAlert />
      {refusal !== null && (
        <p class="notice bad">
          <span>
            <strong>{t().refusesChanges}</strong> {failureText(refusal)}
          </span>
        </p>
      )}
      {evidence !== null && <EvidenceNotice title={t().ownKeyTwice} evidence={evidence} />}
      {[...frozen].map((serverid) => (
        <p key={serverid} class="notice bad">
          <strong>{t().twoHistories(`${serverid}`)}</strong>
          <a href={hrefOf({ view: 'node' })}>{t().look}</a>
        </p>
      ))}
    </div>
  )
}

function SessionAlert(): JSX.Element | null {
  if (sessionState.value === 'lost') return <p class="notice bad">{t().lost}</p>
  if (sessionState.value !== 'ended') return null
  return (
    <div class="notice bad">
      <p>{t().ended}</p>
      <button type="button" class="small" onClick={() => location.reload()}>
        {t().signIn}
      </button>
    </div>
  )
}
