import type { JSX } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { CodedError } from '../../../base/coded-error.ts'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { type ExistingPolicy, type ImportReport, importFile, readUtf8 } from '../node/import.ts'
import { useAction } from '../parts/hooks.ts'
import { Button, Choice } from '../parts/layout.tsx'
import { FailureNotice, Notice } from '../parts/notices.tsx'

/** Maximum bytes of a file, which must fit into the memory of the browser. */
const FILE_BYTES_MAX = 256 * 1024 * 1024
const REFUSED_SHOWN_MAX = 200
const POLICIES = ['fail', 'skip', 'replace'] as const

/** Imports a file into a database, and lets the user correct the records that were refused. */
export function ItemImport(props: {
  db: string
  /** A file that was dropped on the page, or null. */
  dropped: File | null
  changed: () => void
  close: () => void
}): JSX.Element {
  const { db, dropped, changed, close } = props
  const [file, setFile] = useState<File | null>(dropped)
  const [policy, setPolicy] = useState<ExistingPolicy>('fail')
  const [done, setDone] = useState(0)
  const [report, setReport] = useState<ImportReport | null>(null)
  const action = useAction()
  const stop = useRef(new AbortController())
  const [fileId, titleId] = [useId(), useId()]
  useEffect(() => setFile(dropped), [dropped])
  useEffect(() => () => stop.current.abort(), [])
  const isCsv = /\.(?:csv|tsv|txt)$/i.test(file?.name ?? '')
  const run = (content: Blob) =>
    action.run(async () => {
      setDone(0)
      const options = { db, isCsv, policy, signal: stop.current.signal, progress: setDone }
      setReport(await importFile(await readUtf8(content), options))
      changed()
    })
  const isTooLarge = (file?.size ?? 0) > FILE_BYTES_MAX
  return (
    <section class="card import" aria-labelledby={titleId}>
      <header class="head">
        <h2 id={titleId}>{t().importFile}</h2>
        <Button text={t().close} act={close} />
      </header>
      <label for={fileId}>{t().fileToImport}</label>
      <input
        id={fileId}
        type="file"
        accept=".csv,.tsv,.txt,.json,.ndjson,.jsonl"
        onChange={({ currentTarget }) => setFile(currentTarget.files?.[0] ?? null)}
      />
      {file === dropped && file !== null && <p>{visible(file.name)}</p>}
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
          act={() => file !== null && run(file)}
        />
      </div>
      {isTooLarge && <p class="notice">{t().fileTooLarge}</p>}
      <small>{t().importMeans}</small>
      {action.busy && <p role="status">{t().doneItems(done)}</p>}
      {action.error !== undefined && <ImportFailure error={action.error} />}
      {report !== null && !action.busy && action.error === undefined && (
        <Report report={report} again={(text) => run(new Blob([text]))} />
      )}
    </section>
  )
}

function ImportFailure({ error }: { error: unknown }): JSX.Element {
  if (!(error instanceof CodedError)) return <FailureNotice error={error} />
  return <Notice title={t().failed}>{visible(error.message)}</Notice>
}

function Report(props: { report: ImportReport; again: (text: string) => void }): JSX.Element {
  const { created, replaced, skipped, refused, header } = props.report
  const texts = refused.flatMap(({ text }) => text ?? [])
  const [text, setText] = useState([header, ...texts].filter((one) => one !== '').join('\n'))
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
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
          <Button text={t().importLines} act={() => props.again(text)} />
        </>
      )}
    </>
  )
}
