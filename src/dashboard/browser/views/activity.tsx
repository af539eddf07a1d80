import type { JSX } from 'preact'
import { formatBytes, formatClock, formatNumber, t } from '../language/language.ts'
import { type ActivityReply, toChart } from '../node/activity.ts'
import { ledger } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { useLoaded } from '../parts/hooks.ts'
import { Time } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'

/** Shows the changes of the last 24 hours and the size of the store. */
export function ActivitySection(): JSX.Element {
  const [loaded, reload] = useLoaded('activity', (signal) =>
    ledger.request('GET /api/config/activity', {}, { signal }),
  )
  useChanges(() => true, reload)
  return (
    <section class="activity" aria-labelledby="activity-title">
      <h2 id="activity-title">{t().activity}</h2>
      <Waiting loaded={loaded} again={reload}>
        {(reply) => <Charts reply={reply} />}
      </Waiting>
    </section>
  )
}

const WIDTH = 720
const HEIGHT = 90

function Charts({ reply }: { reply: ActivityReply }): JSX.Element {
  const { from, to, barMinutes, rates, sizes, entries, blocks } = toChart(reply)
  const axis = (
    <p class="chart-axis soft">
      <span>{formatClock(from)}</span>
      <span>{formatClock((from + to) / 2)}</span>
      <span>{formatClock(to, { timeZoneName: 'short' })}</span>
    </p>
  )
  return (
    <div class="card">
      <p class="soft">
        {t().activityTotal(blocks, entries)}{' '}
        {reply.since >= from && (
          <>
            {t().activitySince} <Time at={reply.since} />
          </>
        )}
      </p>
      <Chart
        title={t().entriesPerMinute(barMinutes)}
        format={formatNumber}
        values={rates}
        gap={0.75}
      >
        {axis}
      </Chart>
      <Chart title={t().storeSize} format={formatBytes} values={sizes} gap={0}>
        {axis}
      </Chart>
    </div>
  )
}

/** Draws a bar chart. There is no bar for 0. `children` are the labels of the time axis. */
function Chart(props: {
  title: string
  values: readonly number[]
  format: (value: number) => string
  /** Space between bars, in units of the drawing, whose width is WIDTH. */
  gap: number
  children: JSX.Element
}): JSX.Element {
  const { title, values, format, gap, children } = props
  const largest = Math.max(0, ...values)
  // The number has the spaces of the browser's locale.
  const caption = `(${t().largest} ${format(largest)})`
  const width = WIDTH / values.length
  return (
    <figure class="chart">
      <figcaption>
        {title} <span class="soft">{caption}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}, ${caption}`}
      >
        {values.map((value, at) => {
          if (value === 0) return null
          const height = Math.max((value / largest) * HEIGHT, 1)
          const bar = { x: at * width, y: HEIGHT - height, width: width - gap, height }
          return <rect key={bar.x} {...bar} />
        })}
      </svg>
      {children}
    </figure>
  )
}
