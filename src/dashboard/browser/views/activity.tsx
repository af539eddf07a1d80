import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
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
  const { from, to, barMinutes, bars, entries, blocks } = toChart(reply)
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
        title={t().entriesPer(barMinutes)}
        format={formatNumber}
        bars={bars.map(({ entries: value, ...bar }) => ({ ...bar, value }))}
        gap={0.75}
      >
        {axis}
      </Chart>
      <Chart
        title={t().storeSize}
        format={formatBytes}
        bars={bars.map(({ size: value, ...bar }) => ({ ...bar, value }))}
        gap={0}
      >
        {axis}
      </Chart>
    </div>
  )
}

interface Bar {
  readonly begin: number
  readonly end: number
  readonly value: number
}

/**
 * Draws a bar chart. There is no bar for 0. `children` are the labels of the time axis. The value of a bar is shown when
 * the pointer is on the bar, or the slider is moved to it.
 */
function Chart(props: {
  title: string
  bars: readonly Bar[]
  format: (value: number) => string
  /** Space between bars, in units of the drawing, whose width is WIDTH. */
  gap: number
  children: JSX.Element
}): JSX.Element {
  const { title, bars, format, gap, children } = props
  const [at, setAt] = useState<number | null>(null)
  const largest = Math.max(0, ...bars.map(({ value }) => value))
  // The number has the spaces of the browser's locale.
  const caption = `(${t().largest} ${format(largest)})`
  const width = WIDTH / bars.length
  const bar = at === null ? undefined : bars[at]
  const range = bar && `${formatClock(bar.begin)} – ${formatClock(bar.end)}`
  return (
    <figure class="chart">
      <figcaption>
        {title}{' '}
        <span class="soft" role="status">
          {bar === undefined ? caption : `${range}: ${format(bar.value)}`}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}, ${caption}`}
        onPointerMove={({ currentTarget, offsetX }) =>
          setAt(
            Math.min(
              Math.floor((offsetX / currentTarget.clientWidth) * bars.length),
              bars.length - 1,
            ),
          )
        }
        onPointerLeave={() => setAt(null)}
      >
        {bars.map(({ value }, index) => {
          if (value === 0) return null
          const height = Math.max((value / largest) * HEIGHT, 1)
          const shape = { x: index * width, y: HEIGHT - height, width: width - gap, height }
          return <rect key={shape.x} {...shape} {...(index === at ? { class: 'at' } : {})} />
        })}
      </svg>
      <input
        type="range"
        aria-label={title}
        aria-valuetext={bar === undefined ? caption : `${range}: ${format(bar.value)}`}
        max={bars.length - 1}
        value={at ?? bars.length - 1}
        onInput={({ currentTarget }) => setAt(Number(currentTarget.value))}
      />
      {children}
    </figure>
  )
}
