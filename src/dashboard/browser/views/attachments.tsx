import type { JSX } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { visible, visibleText } from '../../../base/visible.js'
import { type Attachment, ClientError } from '../../../client/index.ts'
import { formatBytes, t } from '../language/language.ts'
import { saveFile, toDataUrl } from '../node/files.ts'
import { type ItemName, ledger } from '../node/ledger.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useAction, useLast, useLoaded } from '../parts/hooks.ts'
import { LongText } from '../parts/json.tsx'
import { Button, Field } from '../parts/layout.tsx'
import { FailureNotice, Waiting } from '../parts/notices.tsx'
import { previewKind } from '../text/preview.ts'

const SHOWN_MAX = 200

/** Returns at most SHOWN_MAX + 1 attachments, or null if the item does not exist. */
async function readAttachments(
  path: ItemName,
  past: number | null,
  signal: AbortSignal,
): Promise<readonly Attachment[] | null> {
  try {
    const at = past === null ? {} : { at: `${past}` }
    const input = { path, query: { limit: SHOWN_MAX + 1, ...at } }
    return (await ledger.request('GET /api/{db}/{id}/attachments', input, { signal })).attachments
  } catch (error) {
    if (error instanceof ClientError && error.status === 404) return null
    throw error
  }
}

function clientFor({ db, id }: ItemName) {
  return ledger.database(db).attachments(id)
}

async function readContent(item: ItemName, name: string, past: number | null): Promise<Blob> {
  const at = past === null ? {} : { at: past }
  return new Response((await clientFor(item).get(name, at)).stream).blob()
}

type Asked = 'upload' | { readonly delete: string } | null

/** Lists the attachments of an item, now or at a past height, and lets the user view, save, add and delete them. */
export function Attachments(
  props: ItemName & { past: number | null; version: number },
): JSX.Element | null {
  const { version, past, ...item } = props
  const [loaded, reload] = useLoaded(JSON.stringify([item, past]), (signal) =>
    readAttachments(item, past, signal),
  )
  useEffect(() => {
    if (version > 0) reload()
  }, [version])
  const [asked, setAsked] = useState<Asked>(null)
  const ends = { close: () => setAsked(null), done: reload }
  const names = (useLast(loaded) ?? []).map(({ name }) => name)
  if (asked === null && loaded.state === 'loaded' && loaded.value === null) return null
  return (
    <section class="attachments" aria-labelledby="attachments-title">
      <header class="head">
        <h2 id="attachments-title">{t().attachments}</h2>
        {past === null && <Button text={t().upload} act={() => setAsked('upload')} />}
      </header>
      <Waiting loaded={loaded} again={reload}>
        {(list) => {
          const all = list ?? []
          return (
            <>
              {all.length === 0 && <p class="soft">{t().noAttachments}</p>}
              {all.length > 0 && (
                <ul class="rows">
                  {all.slice(0, SHOWN_MAX).map((attachment) => (
                    <AttachmentRow
                      key={`${attachment.name} ${attachment.sha256}`}
                      {...{ item, past, attachment }}
                      remove={() => setAsked({ delete: attachment.name })}
                    />
                  ))}
                </ul>
              )}
              {all.length > SHOWN_MAX && <p>{t().firstOnly(SHOWN_MAX)}</p>}
            </>
          )
        }}
      </Waiting>
      {/* Not inside of `Waiting`: a failed load must not close the dialog. */}
      {asked === 'upload' && <Upload item={item} names={names} {...ends} />}
      {asked !== null && asked !== 'upload' && (
        <DeleteAttachment item={item} name={asked.delete} {...ends} />
      )}
    </section>
  )
}

type Preview = { readonly text: string } | { readonly image: string }

function AttachmentRow(props: {
  item: ItemName
  past: number | null
  attachment: Attachment
  remove: () => void
}): JSX.Element {
  const { item, past, attachment, remove } = props
  const { name, content_type: type, length, sha256 } = attachment
  const [preview, setPreview] = useState<Preview | null>(null)
  const action = useAction()
  const kind = previewKind(type, length)
  const view = () =>
    action.run(async () => {
      const content = await readContent(item, name, past)
      const isImage = kind === 'image'
      setPreview(
        isImage ? { image: await toDataUrl(content, type) } : { text: await content.text() },
      )
    })
  const save = () => action.run(async () => saveFile(name, await readContent(item, name, past)))
  return (
    <li class="attachment">
      <div>
        <strong class="name">{visible(name)}</strong>
        <small>
          {visible(type)} · {formatBytes(length)} · SHA-256{' '}
          <code title={sha256}>{sha256.slice(0, 16)}…</code>
        </small>
      </div>
      <div class="buttons" aria-busy={action.busy}>
        {kind !== null && (
          <Button
            text={preview === null ? t().view : t().close}
            subject={name}
            disabled={action.busy}
            act={preview === null ? view : () => setPreview(null)}
          />
        )}
        <Button text={t().download} subject={name} disabled={action.busy} act={save} />
        {past === null && <Button text={t().delete} subject={name} act={remove} />}
      </div>
      {action.error !== undefined && <FailureNotice error={action.error} />}
      {preview !== null && (
        <div class="preview">
          {'image' in preview ? (
            <img src={preview.image} alt={visible(name)} />
          ) : (
            <LongText text={visibleText(preview.text)} />
          )}
        </div>
      )}
    </li>
  )
}

function Upload(props: DialogEnds & { item: ItemName; names: readonly string[] }): JSX.Element {
  const { item, names, ...ends } = props
  const [file, setFile] = useState<File | null>(null)
  const [name, setName] = useState('')
  const fileId = useId()
  const upload = async () => {
    // Fails if the file was changed or removed since it was chosen; a request would fail as if there were no node.
    await file?.slice(0, 1).arrayBuffer()
    const content = file ?? ''
    const options = file === null || file.type === '' ? {} : { contentType: file.type }
    await clientFor(item).put(name, content, options)
    return t().attached(name)
  }
  const [title, submitText] = [t().uploadTitle, t().upload]
  return (
    <Dialog
      {...{ title, submitText, ...ends }}
      disabled={file === null || name === ''}
      act={upload}
    >
      <label for={fileId}>{t().file}</label>
      <input
        id={fileId}
        type="file"
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.files?.[0] ?? null
          setFile(chosen)
          setName(chosen?.name ?? '')
        }}
      />
      <Field label={t().name} value={name} change={setName} spellcheck={false} />
      {names.includes(name) && <p class="notice">{t().replaces(name)}</p>}
      <small>{t().uploadMeans}</small>
    </Dialog>
  )
}

function DeleteAttachment(props: DialogEnds & { item: ItemName; name: string }): JSX.Element {
  const { item, name, ...ends } = props
  const remove = async () => {
    await clientFor(item).delete(name)
    return t().attachmentDeleted(name)
  }
  const [title, submitText] = [t().deleteAttachment(name), t().delete]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={remove}>
      <p>{t().deleteAttachmentMeans}</p>
    </Dialog>
  )
}
