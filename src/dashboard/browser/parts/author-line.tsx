import type { JSX } from 'preact'
import { visible } from '../../../base/visible.js'
import type { Entry } from '../../../chain/portable.ts'
import { t } from '../language/language.ts'
import { formatRoute, ledgerAt } from '../routing/routes.ts'

/** Shows who made a change, with a link to all changes of this author, and why; nothing if the entry has neither. */
export function AuthorLine({ by, reason }: AuthorLineProps): JSX.Element | null {
  if (by === undefined && reason === undefined) return null
  return (
    <small class="authorship">
      {by !== undefined && (
        <>
          {t().by} <a href={formatRoute({ ...ledgerAt(null), by: by.sub })}>{visible(by.sub)}</a>
          {by.iss !== undefined && ` (${visible(by.iss)})`}
        </>
      )}
      {reason !== undefined && <q>{visible(reason)}</q>}
    </small>
  )
}

interface AuthorLineProps {
  readonly by?: Entry['by'] | undefined
  readonly reason?: Entry['reason'] | undefined
}
