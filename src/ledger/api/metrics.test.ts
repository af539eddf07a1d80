import { expect, it } from 'vitest'
import { startLedgerNode } from '../../../test/support/ledger-node.ts'
import { Registry } from '../../http/index.ts'
import { commitMetrics } from './metrics.ts'

it('serves metrics of requests, blocks, the queue, the chain, the store and the feed', async () => {
  const node = await startLedgerNode({ clock: { now: () => 1_700_000_000_500 } })
  const newest = 'daicho_newest_block_timestamp_seconds'
  expect((await node.send('GET', '/metrics')).text).not.toContain(`\n${newest} `)
  await node.send('POST', '/api/a')
  await node.send('POST', '/api/a', [{ id: 'x' }, { id: 'y' }, { id: 'hidden' }])
  await node.send('GET', '/api/a/hidden?token=hidden')
  const { text, headers } = await node.send('GET', '/metrics')
  expect(headers.get('content-type')).toContain('text/plain')
  for (const line of [
    'daicho_http_request_seconds_count{method="POST",route="/api/:db",status="200"} 2',
    'daicho_http_request_seconds_count{method="GET",route="/api/:db/:id",status="200"} 1',
    'daicho_commit_seconds_count 2',
    'daicho_commit_entries_bucket{le="1"} 1',
    'daicho_commit_entries_bucket{le="4"} 2',
    'daicho_commit_entries_sum 4',
    'daicho_queue_units 0',
    'daicho_queue_bytes 0',
    'daicho_ready 1',
    'daicho_writer_stopped 0',
    'daicho_store_full 0',
    'daicho_erasures_unfinished 0',
    'daicho_chain_blocks 2',
    'daicho_chain_entries 4',
    `${newest} 1700000000.5`,
    'daicho_feed_followers 0',
    'daicho_feed_left_total{why="stalled"} 0',
  ]) {
    expect(text).toContain(`${line}\n`)
  }
  expect(text).toMatch(/daicho_store_file_bytes [1-9]\d+\n/)
  expect(text).toMatch(/daicho_store_log_bytes [1-9]\d+\n/)
  expect(text).toMatch(/daicho_store_free_bytes [1-9]\d+\n/)
  expect(text).toMatch(/daicho_event_loop_delay_seconds\{quantile="0.99"\}/)
  expect(text).not.toContain('hidden')
  await node.send('DELETE', '/api/a/x')
  expect((await node.send('GET', '/metrics')).text).toContain('daicho_chain_entries 5\n')
  await node.close()
})

/** Returns the buckets of a histogram with their counts. */
function boundsOf(text: string, name: string): [string, number][] {
  const lines = text.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\} (\\d+)$`, 'gm'))
  return [...lines].map(([, bound = '', count]) => [bound, Number(count)])
}

it('counts blocks in ascending buckets of commit time, entries and bytes', async () => {
  const registry = new Registry()
  const count = commitMetrics(registry)
  const block = { height: 0, id: 'x' }
  count({ ...block, ms: 2.5, entries: 1, bytes: 256 })
  count({ ...block, ms: 7_000, entries: 1_025, bytes: 257 })
  const text = await registry.metrics()
  const counts = ['seconds', 'entries', 'bytes'].map((metric) => {
    const bounds = boundsOf(text, `daicho_commit_${metric}`)
    const numbers = bounds.map(([bound]) => (bound === '+Inf' ? Number.POSITIVE_INFINITY : +bound))
    expect(numbers).toEqual(numbers.toSorted((one, other) => one - other))
    return Object.fromEntries(bounds)
  })
  expect(counts).toMatchObject([
    { 0.001: 0, 0.0025: 1, 5: 1, '+Inf': 2 },
    { 1: 1, 1024: 1, 10000: 2, '+Inf': 2 },
    { 256: 1, 1024: 2, '+Inf': 2 },
  ])
  expect(text).toContain('\ndaicho_commit_seconds_sum 7.0025\ndaicho_commit_seconds_count 2\n')
  expect(text).toContain('\ndaicho_commit_bytes_sum 513\ndaicho_commit_bytes_count 2\n')
})
