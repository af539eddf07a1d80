import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { saveFile } from '../node/files.ts'
import { ledger } from '../node/ledger.ts'
import { useAction } from '../parts/hooks.ts'
import { CopiedFact } from '../parts/json.tsx'
import { Button, Fact, Time } from '../parts/layout.tsx'
import { FailureNotice, Sign } from '../parts/notices.tsx'
import type {
  ItemFacts,
  ItemVerdict,
  ListVerdict,
  ShownItem,
  ShownList,
} from '../verification/item-proof.ts'
import { type Outcome, verifyShown } from '../verification/run.ts'

/**
 * Verifies the proof of a revision, or that there is no such item, in this browser, and saves it as a file. With
 * `isNewest`, the file proves that the revision is the newest.
 */
export function ItemProof(props: { shown: ShownItem; isNewest?: boolean }): JSX.Element {
  const { db, id, position } = props.shown
  const isOfState = props.isNewest === true || position === null
  const save = async () => {
    const query = isOfState ? ({ current: 'true' } as const) : { position }
    const file = await ledger.request('GET /api/{db}/{id}/proof', { path: { db, id }, query })
    const name = position === null ? `${db}-${id}` : `${db}-${id}-${position}`
    saveFile(`${name}.${isOfState ? 'state-proof' : 'tlog-proof'}`, file)
  }
  return (
    <ProofPanel save={save} verify={() => verifyShown(props.shown)}>
      {(outcome) => <ItemOutcome {...{ outcome, position }} />}
    </ProofPanel>
  )
}

/** Verifies in this browser that a list has all items of a database, and saves the proof as a file. */
export function ListProof(props: { shown: ShownList }): JSX.Element {
  const { db } = props.shown
  const save = async () => {
    const input = { path: { db }, query: { proof: 'true' } } as const
    // With `proof`, the reply is text.
    const file: unknown = await ledger.request('GET /api/{db}', input)
    saveFile(`${db}.state-list`, String(file))
  }
  return (
    <ProofPanel save={save} verify={() => verifyShown(props.shown)}>
      {(outcome) => <ListOutcome outcome={outcome} />}
    </ProofPanel>
  )
}

function ProofPanel<Verdict>(props: {
  save: () => Promise<void>
  verify: () => Promise<Outcome<Verdict>>
  children: (outcome: Outcome<Verdict>) => JSX.Element
}): JSX.Element {
  const [outcome, setOutcome] = useState<Outcome<Verdict> | null>(null)
  const [isSaved, setSaved] = useState(false)
  const action = useAction()
  const save = async () => setSaved(await action.run(props.save))
  return (
    <div class="proof">
      <div class="buttons">
        <Button text={t().saveProof} act={save} />
        <Button
          text={t().verifyItem}
          class="small"
          aria-busy={action.busy}
          disabled={action.busy}
          act={() => action.run(async () => setOutcome(await props.verify()))}
        />
      </div>
      <div aria-live="polite">
        {isSaved && <small>{t().forAuditor}</small>}
        {action.error !== undefined && <FailureNotice error={action.error} />}
        {outcome !== null && action.error === undefined && props.children(outcome)}
      </div>
    </div>
  )
}

function ItemOutcome(props: {
  outcome: Outcome<ItemVerdict>
  position: string | null
}): JSX.Element {
  const { outcome, position } = props
  const { verdict, serverId } = outcome
  if (verdict.refused !== null) {
    return <Refused title={t().itemNotProven} text={t().faults[verdict.refused]} />
  }
  const { size, timestamp, isErased, newest } = verdict
  const unproven = [
    ...(isErased ? [t().notProven.erased] : []),
    ...(newest === null ? [t().notProven.newest] : []),
    ...(position === null ? [] : [t().notProven.time]),
  ]
  return (
    <Good verdict={verdict} state={newest?.size ?? null} unproven={unproven}>
      {position !== null && <ProvenLine>{t().itemProven(size, serverId)}</ProvenLine>}
      {newest !== null && <ProvenLine>{formatNewest(newest, position)}</ProvenLine>}
      {position !== null && (
        <dl class="facts">
          <Fact name={t().entry}>{position}</Fact>
          {timestamp !== null && (
            <Fact name={t().recorded}>
              <Time at={timestamp} />
            </Fact>
          )}
          <Fact name={t().checkpoint}>{t().blocks(size)}</Fact>
        </dl>
      )}
    </Good>
  )
}

function formatNewest(
  { position, size }: NonNullable<ItemFacts['newest']>,
  shown: string | null,
): string {
  if (position === null) return t().absentProven(size - 1)
  return position === shown ? t().newestProven(size - 1) : t().newerProven(position, size - 1)
}

function ListOutcome({ outcome }: { outcome: Outcome<ListVerdict> }): JSX.Element {
  const { verdict } = outcome
  if (verdict.refused !== null) {
    return <Refused title={t().listNotProven} text={t().faults[verdict.refused]} />
  }
  const { size, count } = verdict
  return (
    <Good verdict={verdict} state={size} unproven={[t().notProven.contents]}>
      <ProvenLine>{t().listProven(count, size - 1)}</ProvenLine>
    </Good>
  )
}

function Refused(props: { title: string; text: string }): JSX.Element {
  return (
    <div class="verdict bad">
      <p class="verdict-title">
        <Sign of="cross" /> {props.title}
      </p>
      <p>{props.text}</p>
    </div>
  )
}

function ProvenLine({ children }: { children: string }): JSX.Element {
  return (
    <p class="verdict-title">
      <Sign of="tick" /> {children}
    </p>
  )
}

/** The proven facts, the key, and the facts that are not proven. `state` is the number of blocks of the signed state. */
function Good(props: {
  verdict: (ItemVerdict | ListVerdict) & { readonly refused: null }
  state: number | null
  unproven: readonly string[]
  children: ComponentChildren
}): JSX.Element {
  const { verdict, state } = props
  const { isKeyKnown, remember } = verdict
  const unproven = [
    ...props.unproven,
    ...(state === null ? [] : [t().notProvenLater(state - 1), t().notProven.state]),
    isKeyKnown ? t().notProven.keySeen : t().notProven.key,
    t().notProven.page,
  ]
  return (
    <>
      <div class="verdict good">
        {props.children}
        <dl class="facts">
          <CopiedFact text={remember.verifierKey.split('+')[1] ?? ''} label={t().keyId} />
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
