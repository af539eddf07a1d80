import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useActing } from '../parts/acting.ts'
import { Dialog } from '../parts/dialog.tsx'
import { tell } from '../parts/told.tsx'

/** Asks before an item is deleted. */
export function DeleteItem(props: {
  db: string
  id: string
  close: () => void
  done: () => void
}): JSX.Element {
  const acting = useActing()
  const remove = async () => {
    const done = await acting.run(async () => {
      await ledger.database(props.db).delete(props.id)
    })
    if (!done) return
    props.close()
    props.done()
    tell(t().itemDeleted(props.id))
  }
  return (
    <Dialog
      title={t().deleteItem(props.id)}
      submitText={t().delete}
      danger
      close={props.close}
      submit={() => void remove()}
      {...acting}
    >
      <p>{t().deleteItemMeans}</p>
    </Dialog>
  )
}
