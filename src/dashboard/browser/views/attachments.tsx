import type { JSX } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { type Attachment, ClientError } from '../../../client/index.ts'
import { bytesText, t } from '../language/language.ts'
import { dataUrlOf, saveFile } from '../node/files.ts'
import { blobAt, ledger } from '../node/ledger.ts'
import { Dialog } from '../parts/dialog.tsx'
import { useAction, useLoaded } from '../parts/hooks.ts'
import { LongText } from '../parts/json.tsx'
import { Field } from '../parts/layout.tsx'
import { Failure, showMessage, Waiting } from '../parts/notices.tsx'
import { previewOf } from '../preview.ts'

const SHOWN_MAX = 200

interface Item {
  readonly db: string
  readonly id: string
}

/** Returns at most SHOWN_MAX + 1 attachments, or null if the item does not exist. */
async function attachmentsOf(
  { db, id }: Item,
  signal: AbortSignal,
): Promise<readonly Attachment[] | null> {
  try {
    const [path, query] = [{ db, id }, { limit: SHOWN_MAX + 1 }]
    const operation = 'GET /api/{db}/{id}/attachments'
    return (await ledger.request(operation, { path, query }, { signal })).attachments
  } catch (error) {
    if (error instanceof ClientError && error.status === 404) return null
    throw error
  }
}

function contentOf({ db, id }: Item, name: string): Promise<Blob> {
  const [inDb, ofId, called] = [db, id, name].map(encodeURIComponent)
  return blobAt(`api/${inDb}/${ofId}/attachments/${called}`)
}

type Asked = 'upload' | { readonly delete: string } | null

/** Lists the attachments of an item, and lets the user view, save, add and delete them. */
export function Attachments(props: Item & { version: number }): JSX.Element | null {
  const { db, id, version } = props
  const item = { db, id }
  const [loaded, reload] = useLoaded(`attachments ${JSON.stringify(item)}`, (signal) =>
    attachmentsOf(item, signal),
  )
  useEffect(reload, [version])
  const [asked, setAsked] = useState<Asked>(null)
  const close = () => setAsked(null)
  if (loaded.state === 'loaded' && loaded.value === null) return null
  return (
    <section class="attachments" aria-labelledby="attachments-title">
      <header class="head">
        <h2 id="attachments-title">{t().attachments}</h2>
        <button type="button" class="secondary small" onClick={() => setAsked('upload')}>
          {t().upload}
        </button>
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
                      key={attachment.name}
                      item={item}
                      attachment={attachment}
                      remove={() => setAsked({ delete: attachment.name })}
                    />
                  ))}
                </ul>
              )}
              {all.length > SHOWN_MAX && <p>{t().firstOnly(SHOWN_MAX)}</p>}
              {asked === 'upload' && (
                <Upload
                  item={item}
                  names={all.map(({ name }) => name)}
                  close={close}
                  done={reload}
                />
              )}
            </>
          )
        }}
      </Waiting>
      {asked !== null && asked !== 'upload' && (
        <DeleteAttachment item={item} name={asked.delete} close={close} done={reload} />
      )}
    </section>
  )
}

type Preview = { readonly text: string } | { readonly image: string }

function AttachmentRow(props: {
  item: Item
  attachment: Attachment
  remove: () => void
}): JSX.Element {
  const { item, attachment, remove } = props
  const { name, content_type: type, length, sha256 } = attachment
  const [preview, setPreview] = useState<Preview | null>(null)
  const action = useAction()
  const kind = previewOf(type, length)
  const view = () =>
    action.run(async () => {
      const content = await contentOf(item, name)
      setPreview(
        kind === 'image'
          ? { image: await dataUrlOf(content, type) }
          : { text: await content.text() },
      )
    })
  const save = () => action.run(async () => saveFile(name, await contentOf(item, name)))
  return (
    <li class="attachment">
      <div>
        <strong class="name">{name}</strong>
        <small>
          {type} · {bytesText(length)} · SHA-256 <code title={sha256}>{sha256.slice(0, 16)}…</code>
        </small>
      </div>
      <div class="buttons" aria-busy={action.busy}>
        {kind !== null && (
          <button
            type="button"
            class="secondary small"
            aria-label={`${preview === null ? t().view : t().close}: ${name}`}
            disabled={action.busy}
            onClick={() => (preview === null ? void view() : setPreview(null))}
          >
            {preview === null ? t().view : t().close}
          </button>
        )}
        <button
          type="button"
          class="secondary small"
          aria-label={`${t().download}: ${name}`}
          disabled={action.busy}
          onClick={() => void save()}
        >
          {t().download}
        </button>
        <button
          type="button"
          class="secondary small"
          aria-label={`${t().delete}: ${name}`}
          onClick={remove}
        >
          {t().delete}
        </button>
      </div>
      {action.error !== undefined && <Failure error={action.error} />}
      {preview !== null && (
        <div class="preview">
          {'image' in preview ? (
            <img src={preview.image} alt={name} />
          ) : (
            <LongText text={preview.text} />
          )}
        </div>
      )}
    </li>
  )
}

function Upload(props: {
  item: Item
  names: readonly string[]
  close: () => void
  done: () => void
}): JSX.Element {
  const { item, names } = props
  const [file, setFile] = useState<File | null>(null)
  const [name, setName] = useState('')
  const fileId = useId()
  const action = useAction()
  const upload = async () => {
    if (file === null) return
    const isDone = await action.run(async () => {
      const options = file.type === '' ? {} : { contentType: file.type }
      await ledger.database(item.db).attachments(item.id).put(name, file, options)
    })
    if (!isDone) return
    props.close()
    props.done()
    showMessage(t().attached(name))
  }
  return (
    <Dialog
      title={t().uploadTitle}
      submitText={t().upload}
      disabled={file === null || name === ''}
      close={props.close}
      submit={() => void upload()}
      {...action}
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

function DeleteAttachment(props: {
  item: Item
  name: string
  close: () => void
  done: () => void
}): JSX.Element {
  const { item, name } = props
  const action = useAction()
  const remove = async () => {
    const isDone = await action.run(() =>
      ledger.database(item.db).attachments(item.id).delete(name),
    )
    if (!isDone) return
    props.close()
    props.done()
    showMessage(t().attachmentDeleted(name))
  }
  return (
    <Dialog
      title={t().deleteAttachment(name)}
      submitText={t().delete}
      danger
      close={props.close}
      submit={() => void remove()}
      {...action}
    >
      <p>{t().deleteAttachmentMeans}</p>
    </Dialog>
  )
}
