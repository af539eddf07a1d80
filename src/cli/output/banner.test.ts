import { expect, it } from 'vitest'
import { bannerText, HeldLog } from './banner.ts'

const LISTENERS = [
  { name: 'ledger', url: 'http://127.0.0.1:4126' },
  { name: 'converter', url: 'http://127.0.0.1:4127' },
  { name: 'rates', url: 'http://127.0.0.1:4128' },
]
const linesOf = (text: string) => text.split('\n').map((line) => line.trim())

it('the banner shows the address of the dashboard and the path of the data folder', () => {
  const settings = { SYSTEM_FOLDER: '/srv/daicho', STORE: null }
  const text = bannerText({ listeners: LISTENERS, settings, notices: ['Sample API: demo'] })
  expect(linesOf(text).slice(2)).toEqual([
    'Dashboard: http://127.0.0.1:4126/',
    'API documentation: http://127.0.0.1:4126/doc',
    'Data folder: /srv/daicho',
    'Sample API: demo',
    'Press Ctrl-C to stop.',
    '',
    '',
  ])
})

it('the banner lists the data that is lost without a folder', () => {
  const settings = { SYSTEM_FOLDER: null, STORE: null }
  expect(bannerText({ listeners: LISTENERS, settings, notices: [] })).toContain(
    'Not persistent: databases and ledger, accepted rates. To keep the data: --folder <path>\n',
  )
  const converter = LISTENERS.slice(1, 2)
  expect(bannerText({ listeners: converter, settings, notices: [] })).not.toContain('persistent')
})

it('a terminal shows log lines after the banner, in order', () => {
  const written: string[] = []
  const log = new HeldLog({ write: (line) => written.push(line) }, true)
  log.write('first')
  expect(written).toEqual([])
  log.release()
  log.write('second')
  expect(written).toEqual(['first', 'second'])
})

it('writes log lines to a file at once, and to a terminal after 1,000 lines at the latest', () => {
  const written: string[] = []
  const out = { write: (line: string) => written.push(line) }
  new HeldLog(out, false).write('at once')
  expect(written).toEqual(['at once'])
  const held = new HeldLog(out, true)
  for (let line = 0; line < 1_000; line += 1) held.write('held')
  expect(written).toHaveLength(1_001)
})
