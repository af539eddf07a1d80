import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { Button, ViewHead } from '../parts/layout.tsx'
import { Notice, Sign } from '../parts/notices.tsx'
import { formatRoute, ledgerAt } from '../routing/routes.ts'
import { type CheckState, checkStates, type Fault } from '../verification/checks.ts'
import { type Run, run, start, stop } from '../verification/run.ts'
import type { Progress } from '../verification/verify-chain.ts'

/** Verifies the chain in this browser, and shows the results. */
export function VerificationView(): JSX.Element {
  const now = run.value
  const isRunning = now.state === 'running'
  return (
    <>
      <ViewHead title={t().verification} text={t().verificationIs}>
        {isRunning ? (
          <Button key="stop" text={t().stop} class="secondary" act={stop} />
        ) : (
          <Button
            key="start"
            text={now.state === 'idle' ? t().verify : t().verifyAgain}
            class=""
            act={start}
          />
        )}
      </ViewHead>
      <div aria-live="polite">
        <Outcome now={now} />
      </div>
      <Checks now={now} />
      <p>
        <small>{t().onlyChain}</small>
      </p>
    </>
  )
}

function Outcome({ now }: { now: Run }): JSX.Element | null {
  switch (now.state) {
    case 'idle':
      return null
    case 'stopped':
      return <p class="notice">{t().stopped}</p>
    case 'running':
      return <ProgressBar progress={now.progress} />
    case 'failed':
      return <Notice title={t().couldNot}>{now.message}</Notice>
    case 'done': {
      const { fault, blocks, entries, erased } = now.verdict
      return (
        <div class={`verdict ${fault === null ? 'good' : 'bad'}`}>
          <p class="verdict-title">
            <Sign of={fault === null ? 'tick' : 'cross'} />{' '}
            {fault === null ? t().holds : t().holdsNot}
          </p>
          {fault !== null && <FaultText fault={fault} />}
          <p>{t().totals(blocks, entries)}</p>
          {erased > 0 && <p>{t().erased(erased)}</p>}
        </div>
      )
    }
  }
}

function ProgressBar({ progress }: { progress: Progress | null }): JSX.Element {
  if (progress === null) return <progress aria-label={t().verification} />
  const { blocks, size } = progress
  return (
    <div>
      <progress
        aria-label={t().verification}
        {...(size === null ? {} : { value: blocks, max: Math.max(size, blocks, 1) })}
      />
      <p>{t().verifying(blocks, size === null ? null : Math.max(size, blocks))}</p>
    </div>
  )
}

function FaultText({ fault: { code, height, index } }: { fault: Fault }): JSX.Element {
  if (height === null) return <p>{t().faults[code]}</p>
  return (
    <p>
      <strong>
        <a href={formatRoute(ledgerAt(height, index))}>
          {index === null ? t().badBlock(height) : t().badEntry(`${height}.${index}`)}
        </a>
      </strong>{' '}
      — {t().faults[code]}
    </p>
  )
}

const MARKS: Readonly<Record<CheckState, JSX.Element | string>> = {
  holds: <Sign of="tick" />,
  fails: <Sign of="cross" />,
  open: '·',
  none: '–',
}

function Checks({ now }: { now: Run }): JSX.Element {
  const states = checkStates(
    now.state === 'done' ? now.verdict.fault : null,
    now.state === 'done',
    now.state === 'done' && now.hadMemory,
  )
  return (
    <section class="card" aria-labelledby="checks-title">
      <h2 id="checks-title">{t().checked}</h2>
      <ul class="checks">
        {states.map(([name, state]) => (
          <li key={name} class={state}>
            <span class="mark" aria-hidden>
              {MARKS[state]}
            </span>{' '}
            <span>{t().checks[name]}</span> <small>{t().states[state]}</small>
          </li>
        ))}
      </ul>
    </section>
  )
}
