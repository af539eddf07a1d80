import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { saveFile } from '../node/files.ts'
import { ledger } from '../node/ledger.ts'
import { useAction } from '../parts/hooks.ts'
import { CopiedFact } from '../parts/json.tsx'
import { Button, Fact, Time } from '../parts/layout.tsx'
import { FailureNotice, Sign } from '../parts/notices.tsx'
import type { ShownItem } from '../verification/item-proof.ts'
import { type ItemOutcome, verifyItem } from '../verification/run.ts'

/** Verifies the proof of a revision in this browser, and saves it as a file. */
export function ItemProof(props: { shown: ShownItem }): JSX.Element {
  const { db, id, position } = props.shown
  const [outcome, setOutcome] = useState<ItemOutcome | null>(null)
  const action = useAction()
  const verify = () => action.run(async () => setOutcome(await verifyItem(props.shown)))
  const save = () =>
    action.run(async () => {
      const input = { path: { db, id }, query: { position } }
      const file = await ledger.request('GET /api/{db}/{id}/proof', input)
      saveFile(`${db}-${id}-${position}.tlog-proof`, file)
    })
  return (
    <div class="proof">
      <div class="buttons">
        <Button text={t().saveProof} act={save} />
        <Button
          text={t().verifyItem}
          class="small"
          aria-busy={action.busy}
          disabled={action.busy}
          act={verify}
        />
      </div>
      <div aria-live="polite">
        {action.error !== undefined && <FailureNotice error={action.error} />}
        {outcome !== null && action.error === undefined && (
          <ProofOutcome outcome={outcome} position={position} />
        )}
      </div>
    </div>
  )
}

function ProofOutcome(props: { outcome: ItemOutcome; position: string }): JSX.Element {
  const { serverId, verdict } = props.outcome
  if (verdict.refused !== null) {
    return (
      <div class="verdict bad">
        <p class="verdict-title">
          <Sign of="cross" /> {t().itemNotProven}
        </p>
        <p>{t().faults[verdict.refused]}</p>
      </div>
    )
  }
  const { size, timestamp, isErased, isKeyKnown, remember: seen } = verdict
  const unproven = [
    ...(isErased ? [t().notProven.erased] : []),
    t().notProven.newest,
    t().notProven.time,
    isKeyKnown ? t().notProven.keySeen : t().notProven.key,
    t().notProven.page,
  ]
  return (
    <>
      <div class="verdict good">
        <p class="verdict-title">
          <Sign of="tick" /> {t().itemProven(size, serverId)}
        </p>
        <dl class="facts">
          <Fact name={t().entry}>{props.position}</Fact>
          {timestamp !== null && (
            <Fact name={t().recorded}>
              <Time at={timestamp} />
            </Fact>
          )}
          <Fact name={t().checkpoint}>{t().blocks(size)}</Fact>
          <CopiedFact text={seen.verifierKey.split('+')[1] ?? ''} label={t().keyId} />
        </dl>
      </div>
      <p class="soft unproven-title">{t().notProvenTitle}</p>
      <ul class="unproven">
        {unproven.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </>
  )
}
