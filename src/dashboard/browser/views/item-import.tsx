import type { JSX } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { CodedError } from '../../../base/coded-error.ts'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { type ExistingPolicy, type ImportReport, importFile, readUtf8 } from '../node/import.ts'
import { useAction } from '../parts/hooks.ts'
import { Button, Choice } from '../parts/layout.tsx'
import { FailureNotice, Notice } from '../parts/notices.tsx'
import { mayLeave, useUnsaved } from '../routing/unsaved.ts'

/** Maximum bytes of a file, which must fit into the memory of the browser. */
const FILE_BYTES_MAX = 256 * 1024 * 1024
const REFUSED_SHOWN_MAX = 200
const POLICIES = ['fail', 'skip', 'replace'] as const

/** The result of an import, with the refused lines as they were in the file. */
interface Imported {
  readonly report: ImportReport
  readonly isCsv: boolean
  readonly refused: string
}

/** Imports a file into a database, and lets the user correct the records that were refused. */
export function ItemImport(props: {
  db: string
  /** The files that were last dropped on the page, of which the first one is imported. */
  dropped: readonly File[]
  changed: () => void
  close: () => void
}): JSX.Element {
  const { db, changed, close } = props
  const [dropped = null] = props.dropped
  const [file, setFile] = useState<File | null>(dropped)
  const [policy, setPolicy] = useState<ExistingPolicy>('fail')
  const [done, setDone] = useState(0)
  const [imported, setImported] = useState<Imported | null>(null)
  /** The refused lines as the user has corrected them. */
  const [corrected, setCorrected] = useState('')
  const action = useAction()
  const stop = useRef(new AbortController())
  const [fileId, titleId] = [useId(), useId()]
  useEffect(() => setFile(dropped), [dropped])
  useEffect(() => () => stop.current.abort(), [])
  // Leaving ends the import.
  useUnsaved(action.busy || (imported !== null && corrected !== imported.refused))
  const run = (content: Blob, isCsv: boolean) =>
    action.run(async () => {
      setDone(0)
      const options = { db, isCsv, policy, signal: stop.current.signal, progress: setDone }
      const report = await importFile(await readUtf8(content), options)
      const texts = [report.header, ...report.refused.map(({ text }) => text ?? '')]
      const refused = texts.filter((text) => text !== '').join('\n')
      setImported({ report, isCsv, refused })
      setCorrected(refused)
      changed()
    })
  const isTooLarge = (file?.size ?? 0) > FILE_BYTES_MAX
  return (
    <section class="card import" aria-labelledby={titleId}>
      <header class="head">
        <h2 id={titleId}>{t().importFile}</h2>
        <Button text={t().close} act={() => mayLeave() && close()} />
      </header>
      <label for={fileId}>{t().fileToImport}</label>
      <input
        id={fileId}
        type="file"
        accept=".csv,.tsv,.txt,.json,.ndjson,.jsonl"
        onChange={({ currentTarget }) => setFile(currentTarget.files?.[0] ?? null)}
      />
      {file === dropped && file !== null && <p>{visible(file.name)}</p>}
      {file === dropped && props.dropped.length > 1 && <p class="notice">{t().oneFile}</p>}
      <div class="inline">
        <Choice
          label={t().ifIdExists}
          value={policy}
          options={POLICIES.map((one) => [one, t().policies[one]])}
          choose={(chosen) => setPolicy(POLICIES.find((one) => one === chosen) ?? 'fail')}
        />
        <Button
          text={t().importFile}
          class=""
          aria-busy={action.busy}
          disabled={file === null || isTooLarge || action.busy}
          act={() => file !== null && run(file, isCsvName(file.name))}
        />
      </div>
      {isTooLarge && <p class="notice">{t().fileTooLarge}</p>}
      <small>{t().importMeans}</small>
      {(action.busy || action.error !== undefined) && <p role="status">{t().doneItems(done)}</p>}
      {action.error !== undefined && <ImportFailure error={action.error} />}
      {imported !== null && (
        <Report
          {...{ ...imported.report, corrected, isBusy: action.busy }}
          correct={setCorrected}
          again={() => run(new Blob([corrected]), imported.isCsv)}
        />
      )}
    </section>
  )
}

function isCsvName(name: string): boolean {
  return /\.(?:csv|tsv|txt)$/i.test(name)
}

function ImportFailure({ error }: { error: unknown }): JSX.Element {
  if (!(error instanceof CodedError)) return <FailureNotice error={error} />
  return <Notice title={t().failed}>{visible(error.message)}</Notice>
}

function Report(
  props: ImportReport & {
    corrected: string
    isBusy: boolean
    correct: (text: string) => void
    again: () => unknown
  },
): JSX.Element {
  const { created, replaced, skipped, refused, corrected, isBusy, correct, again } = props
  const texts = refused.flatMap(({ text }) => text ?? [])
  return (
    <>
      <p class={refused.length > 0 ? 'notice' : 'notice good'} role="status">
        {t().imported(created, replaced, skipped, refused.length)}
      </p>
      {refused.length > 0 && (
        <>
          <ul class="refused">
            {refused.slice(0, REFUSED_SHOWN_MAX).map(({ line, reason }) => (
              <li key={line}>
                {t().line(line)}: {visible(reason)}
              </li>
            ))}
          </ul>
          {refused.length > REFUSED_SHOWN_MAX && <p>{t().firstOnly(REFUSED_SHOWN_MAX)}</p>}
        </>
      )}
      {texts.length > 0 && (
        <>
          <textarea
            aria-label={t().refusedLines}
            spellcheck={false}
            rows={Math.min(texts.length + 3, 16)}
            readOnly={isBusy}
            value={corrected}
            onInput={({ currentTarget }) => correct(currentTarget.value)}
          />
          <Button text={t().importLines} disabled={isBusy} act={again} />
        </>
      )}
    </>
  )
}
