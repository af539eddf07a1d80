import type { JSX } from 'preact'
import { bytesText, clockText, numberText, t } from '../language/language.ts'
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
  const peak = Math.max(0, ...rates)
  const largest = Math.max(0, ...sizes)
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
        gap={0.75}
        title={t().entriesPerMinute(barMinutes)}
        top={numberText(peak)}
        values={rates.map((rate) => (peak === 0 ? 0 : rate / peak))}
        {...{ from, to }}
      />
      <Chart
        gap={0}
        title={t().storeSize}
        top={bytesText(largest)}
        values={sizes.map((size) => (largest === 0 ? 0 : size / largest))}
        {...{ from, to }}
      />
    </div>
  )
}

/** Draws a bar chart of `values` between 0 and 1. There is no bar for 0. */
function Chart(props: {
  /** Space between bars, in units of the drawing, whose width is WIDTH. */
  gap: number
  title: string
  top: string
  values: readonly number[]
  from: number
  to: number
}): JSX.Element {
  const { gap, title, top, values, from, to } = props
  const width = WIDTH / values.length
  return (
    <figure class="chart">
      <figcaption>
        {title} <span class="soft">{t().atMost(top)}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}, ${t().atMost(top)}`}
      >
        {values.map((value, at) => {
          if (value === 0) return null
          const height = Math.max(value * HEIGHT, 1)
          const bar = { x: at * width, y: HEIGHT - height, width: width - gap, height }
          return <rect key={bar.x} {...bar} />
        })}
      </svg>
      <p class="chart-axis soft">
        <span>{clockText(from)}</span>
        <span>{clockText((from + to) / 2)}</span>
        <span>{clockText(to, { timeZoneName: 'short' })}</span>
      </p>
    </figure>
  )
}
