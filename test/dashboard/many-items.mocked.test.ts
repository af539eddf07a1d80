// The selections, exports and batches of the dashboard.
import { afterEach, expect, it, vi } from 'vitest'
import { ClientError } from '../../src/client/index.ts'

const { record, query } = vi.hoisted(() => ({ record: vi.fn(), query: vi.fn() }))
// Not a literal path, because the types of browsers are not those of this test.
const load = (name: string) => import(`../../src/dashboard/browser/node/${name}.ts`)
vi.mock('../../src/dashboard/browser/node/ledger.ts', () => ({
  ledger: { record, size: async () => 8, database: () => ({ query }) },
}))
afterEach(() => vi.resetAllMocks())

it('selects nothing if the conditions are not a JSON object, although the node could read them', async () => {
  const { toFilter } = await load('matches')
  expect([toFilter(null), toFilter('{"n":1}')]).toEqual([{}, { filter: { where: { n: 1 } } }])
  for (const where of ['{"n":1},"limit":50', '', 'null', '[]', '{"n":1}}']) {
    expect(() => toFilter(where)).toThrow('the conditions are not a JSON object')
  }
})

it('sends batches of at most 4 MiB of UTF-8, and refuses a record alone that the node cannot accept', async () => {
  const { recordBatches } = await load('batches')
  const sizes: number[] = []
  record.mockImplementation(async (changes: readonly object[]) => {
    sizes.push(Buffer.byteLength(JSON.stringify(changes)))
    if (JSON.stringify(changes).includes('huge')) throw new ClientError('BODY_TOO_LARGE', 413, '')
  })
  async function* changes() {
    for (const id of ['a', 'b', 'huge', 'c', 'd', 'e']) {
      const item = { id, text: '果'.repeat(500_000) }
      yield { change: { method: 'create_item' as const, db: 'fruit', item } }
    }
  }
  const { signal } = new AbortController()
  const report = await recordBatches(changes(), { signal })
  expect([report.recorded, report.refused.map(({ code }: { code: string }) => code)]).toEqual([
    5,
    ['BODY_TOO_LARGE'],
  ])
  expect(Math.max(...sizes)).toBeLessThan(4.1 * 1024 * 1024)
})

it('completes the batch that is being sent when the user stops, so that the last progress is what was recorded', async () => {
  const { recordBatches } = await load('batches')
  const stop = new AbortController()
  record.mockImplementation(async (_: unknown, options: object) => {
    if (record.mock.calls.length === 2) stop.abort(new Error('enough'))
    if ('signal' in options) throw stop.signal.reason
  })
  async function* changes() {
    for (let n = 0; n < 2_500; n += 1) yield { change: { method: 'create_item' as const, n } }
  }
  let seen = 0
  const progress = ({ recorded }: { recorded: number }) => {
    seen = recorded
  }
  const work = recordBatches(changes(), { signal: stop.signal, progress })
  await expect(work).rejects.toThrow('enough')
  expect([seen, record.mock.calls.length]).toEqual([2_000, 2])
})

it('returns refused records as they are in the file, to correct them', async () => {
  const { importFile, readUtf8 } = await load('import')
  const { signal } = new AbortController()
  const refused = async (text: string, isCsv = true, encoding: BufferEncoding = 'utf8') => {
    const bytes = await readUtf8(new Blob([Buffer.from(text, encoding)]))
    const options = { db: 'fruit', isCsv, policy: 'fail', signal, progress: () => {} }
    const report = await importFile(bytes, options)
    return report.refused.map(({ text }: { text: string | null }) => text)
  }
  // Empty cells at the end, and another line end in a quoted cell.
  expect(await refused('n:number\ta\tb\nx\t\t\n1\tc\td\n')).toEqual(['x\t\t'])
  expect(await refused('n:number,a\n1,"b\rc"\nx,d')).toEqual(['x,d'])
  // The start of the file decides which line end its records have.
  const many = `${'\r1,b'.repeat(70_000)}`
  expect(await refused(`n:number,a${many}\r1,"b\nc"\rx,d`)).toEqual(['x,d'])
  expect(await refused('\ufeff[{"id":1}]', false)).toEqual([null])
  expect(await refused('n:number\nx\n', true, 'utf16le')).toEqual(['x'])
})

it('saves a CSV of one state, so that no member of an item that changes meanwhile is left out', async () => {
  const { exportCsv } = await load('export')
  query.mockImplementation(async function* ({ at }: { at: number }) {
    yield { id: 'a', n: at }
  })
  const { signal } = new AbortController()
  const csv = await exportCsv({ db: 'fruit', where: '{"n":7}', signal }, () => {})
  expect(await csv.text()).toBe('id,n\r\na,7\r\n')
  const options = { filter: { where: { n: 7 } }, pageSize: 1_000, signal, at: 7 }
  expect(query.mock.calls).toEqual([[options], [options]])
})
