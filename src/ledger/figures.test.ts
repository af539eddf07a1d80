import { expect, it } from 'vitest'
import { startLedgerNode } from '../../test/support/ledger-node.ts'

it('/metrics tells requests, blocks, the queue, the chain, the store and the followers', async () => {
  const node = await startLedgerNode()
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
    'daicho_writer_stopped 0',
    'daicho_store_full 0',
    'daicho_chain_blocks 2',
    'daicho_chain_entries 4',
    'daicho_feed_followers 0',
    'daicho_feed_left_total{why="stalled"} 0',
  ]) {
    expect(text).toContain(`${line}\n`)
  }
  expect(text).toMatch(/daicho_store_file_bytes [1-9]\d+\n/)
  expect(text).toMatch(/daicho_store_log_bytes [1-9]\d+\n/)
  expect(text).toMatch(/daicho_event_loop_delay_seconds\{quantile="0.99"\}/)
  expect(text).not.toContain('hidden')
  await node.send('DELETE', '/api/a/x')
  expect((await node.send('GET', '/metrics')).text).toContain('daicho_chain_entries 5\n')
  await node.close()
})
