import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  ecbFile,
  FeedFixture,
  type ManualClock,
  MemoryLog,
  PER_EUR,
  type SourceServer,
  send,
} from '../../test/rates/feeds.ts'
import { SourceListError } from './errors.ts'
import { parseSourceList } from './sources.ts'

const MINUTE = 60_000
const GOOD_DATE = '2026-10-07'
const NEXT_DATE = '2026-10-08'

let fixture: FeedFixture
let server: SourceServer
let clock: ManualClock
let opened: FeedFixture['openFeed']
let folder: string

beforeEach(async () => {
  fixture = new FeedFixture()
  server = fixture.server
  clock = fixture.clock
  opened = fixture.openFeed
  folder = mkdtempSync(join(tmpdir(), 'daicho-rates-'))
  await server.open()
})
afterEach(async () => {
  await fixture.close()
  rmSync(folder, { recursive: true })
})

describe('the last good set of rates', () => {
  const path = () => join(folder, 'rates.json')

  it('the last good set of rates is stored in the system folder, and served as lastgood and stale after a restart', async () => {
    server.answer = send(ecbFile(GOOD_DATE))
    const first = await opened('ecb,lastgood,snapshot', { folder })
    await first.refresh()
    const before = await first.detail()
    await first.close()
    expect(readdirSync(folder)).toEqual(['rates.json'])
    expect(JSON.parse(readFileSync(path(), 'utf8'))).toMatchObject({
      source: 'ecb',
      asOf: GOOD_DATE,
      perEur: { USD: 1.13, CNY: 7.56 },
    })

    server.answer = send('', 503)
    const second = await opened('ecb,lastgood,snapshot', { folder })
    const after = await second.detail()
    expect(after.result.rate).toEqual(before.result.rate)
    expect(after.meta).toMatchObject({ source: 'lastgood', origin: 'ecb', stale: true })
    expect(after.meta.proxies).toEqual(['CNHJPY=CNYJPY'])
  })

  it.each([
    ['empty', ''],
    ['incomplete', '{"source":"ecb","asOf":"2026-10-07","perE'],
    ['not JSON', '\u0000\u0001'],
    ['with a future date', JSON.stringify({ source: 'ecb', asOf: '2030-01-01', perEur: PER_EUR })],
    ['without a currency', JSON.stringify({ source: 'ecb', asOf: GOOD_DATE, perEur: { USD: 1 } })],
    [
      'with a changed value',
      `{"source":"ecb","asOf":"2026-10-07","perEur":${JSON.stringify(PER_EUR)},"sha256":"00"}`,
    ],
    ['longer than any set of rates', ' '.repeat(2_000_000)],
  ])(
    'the last good set of rates is replaced by the built-in set of rates, with a warning, if the file is %s',
    async (_, text) => {
      writeFileSync(path(), text)
      const log = new MemoryLog()
      const feed = await opened('lastgood,snapshot', { folder }, { log })
      expect((await feed.detail()).meta.source).toBe('snapshot')
      expect(log.lines[0]).toMatch(/^warn the stored rates cannot be used/)
    },
  )

  it('the last good set of rates is replaced by the built-in set of rates at once if its file is not a regular file', async () => {
    symlinkSync('/dev/zero', path())
    const feed = await opened('lastgood,snapshot', { folder })
    expect((await feed.detail()).meta.source).toBe('snapshot')
  })

  it('causes no warning if it is missing at the first start', async () => {
    const log = new MemoryLog()
    await opened('lastgood,snapshot', { folder }, { log })
    expect(log.lines.some((line) => line.includes('stored'))).toBe(false)
  })

  it('causes a warning if it cannot be written, but the rates are served', async () => {
    const log = new MemoryLog()
    writeFileSync(join(folder, 'file'), '')
    server.answer = send(ecbFile(GOOD_DATE))
    const feed = await opened('ecb,lastgood', { folder: join(folder, 'file') }, { log })
    await feed.refresh()
    await feed.close()
    expect((await feed.detail()).meta.source).toBe('ecb')
    expect(log.lines.some((line) => line.includes('cannot be stored'))).toBe(true)
  })
})

describe('the operator’s own set of rates', () => {
  const write = (vector: object) => {
    writeFileSync(join(folder, 'own.json'), JSON.stringify(vector))
    return `file:${join(folder, 'own.json')}`
  }

  it('the operator’s own set of rates is served from the start if it comes from a file, which is read again later', async () => {
    const entry = write({ source: 'desk', asOf: GOOD_DATE, perEur: { ...PER_EUR, CNH: 7.58 } })
    const feed = await opened(`${entry},snapshot`)
    const { meta } = await feed.detail()
    expect(meta).toMatchObject({ source: 'file', origin: 'desk', stale: false, proxies: [] })
    write({ source: 'desk', asOf: NEXT_DATE, perEur: { ...PER_EUR, USD: 1.14 } })
    clock.advance(MINUTE)
    await feed.refresh()
    expect((await feed.detail()).result.rate.EURUSD).toBe(1.14)
  })

  it('the operator’s own set of rates has the source name file, file2 … instead of its path', async () => {
    const entry = write({ source: 'desk', asOf: GOOD_DATE, perEur: PER_EUR })
    const feed = await opened(`file:${join(folder, 'absent.json')},${entry}`)
    await feed.refresh()
    expect(feed.health().sources.map(({ name }) => name)).toEqual(['file', 'file2'])
    expect((await feed.detail()).meta).toMatchObject({ source: 'file2', origin: 'desk' })
  })
})

describe('RATES_SOURCES', () => {
  it.each([
    ['ecb,,snapshot', /unknown source ""/],
    ['ecb,yahoo', /unknown source "yahoo"/],
    ['ecb,ecb', /listed twice/],
    ['file:', /needs a path/],
    ['url:https://example.com/v', /unknown source/],
    [Array.from({ length: 17 }, (_, n) => `file:${n}`).join(), /more than 16/],
  ])('RATES_SOURCES is rejected for %s with a reason', (text, message) => {
    expect(() => parseSourceList(text)).toThrow(SourceListError)
    expect(() => parseSourceList(text)).toThrow(message)
  })
})
