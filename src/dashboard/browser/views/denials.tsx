import type { JSX } from 'preact'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useLoaded } from '../parts/hooks.ts'
import { Button, Time } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { Table } from '../parts/table.tsx'

/** Maximum number of denials that are shown. */
const SHOWN_MAX = 100

/** Lists the requests that the node has refused in the last hour, repeated requests as one. */
export function DenialsSection(): JSX.Element {
  const [loaded, reload] = useLoaded('denials', (signal) =>
    ledger.request('GET /api/config/denials', {}, { signal }),
  )
  const heads = [t().denialReason, t().subject, t().address, t().lastRequest, t().times]
  return (
    <section class="tokens" aria-labelledby="denials-title">
      <header class="head">
        <h2 id="denials-title">{t().denials}</h2>
        <Button text={t().refresh} subject={t().denials} act={reload} />
      </header>
      <p class="soft">{t().denialsAre}</p>
      <Waiting loaded={loaded} again={reload}>
        {({ denials }) =>
          denials.length === 0 ? (
            <p class="empty">{t().noDenials}</p>
          ) : (
            <Table
              class="denials"
              headings={1}
              columns={heads.map((head) => ({ head, label: head }))}
              rows={denials.slice(0, SHOWN_MAX).map((denial, at) => [
                at,
                <code key="reason">{denial.reason}</code>,
                denial.subject === null ? t().unknownSubject : visible(denial.subject),
                `${denial.address} → ${denial.component}`,
                <span key="last" class="name">
                  <code>{visible(`${denial.method} ${denial.path}`)}</code>{' '}
                  <Time at={denial.last} />
                </span>,
                denial.count,
              ])}
            />
          )
        }
      </Waiting>
    </section>
  )
}
