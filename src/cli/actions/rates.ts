import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { outboundGet } from '../../http/outbound.ts'
import {
  type FeedLog,
  formatRateTable,
  parseRateDetail,
  type RateDetail,
  RateFeed,
  RateFeedError,
  type Schedule,
} from '../../rate-feed/index.ts'
import { rateFeedDeps } from '../composition/rates.ts'
import { readSettings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import { print, warn } from '../output/output.ts'
import { VERSION } from '../version.ts'

const REPLY_TIMEOUT_MS = 15_000
const REPLY_BYTES_MAX = 1_048_576

interface RatesFlags {
  readonly url?: URL
  readonly json?: boolean
}

export async function runRates({ url, json }: RatesFlags): Promise<void> {
  try {
    const detail = url === undefined ? await fromSources() : await fromFeed(url)
    print(json, { status: true, ...detail }, formatRateTable(detail).trimEnd())
    const { stale, asOf } = detail.meta
    // Without --url, the feed in this process has already printed a warning.
    if (stale && url !== undefined && json !== true) warn(`these rates are stale, from ${asOf}`)
  } catch (error) {
    if (!(error instanceof RateFeedError)) throw error
    const { code, message } = error
    if (json === true) print(json, { status: false, code, message }, '')
    throw new Exit(EXIT.finding, message, { cause: error })
  }
}

async function fromSources(): Promise<RateDetail> {
  const settings = readSettings(process.env)
  const log: FeedLog = {
    info: () => {},
    warn: (_fields, message) => warn(message),
  }
  try {
    const deps = rateFeedDeps(settings, VERSION, systemClock)
    const feed = new RateFeed({ ...deps, log, ledger: null, schedule: referencedTimers })
    await feed.open()
    await feed.refresh()
    await feed.close()
    return await feed.detail()
  } catch (error) {
    if (!(error instanceof CodedError) || error instanceof RateFeedError) throw error
    throw new Exit(EXIT.configuration, error.message, { cause: error })
  }
}

/** Timers that keep the process alive until the feed is closed. */
const referencedTimers: Schedule = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** Fetches rates from a running rate feed. The operator chose the address, so private networks are allowed. */
async function fromFeed(base: URL): Promise<RateDetail> {
  const url = new URL(base)
  url.search = '?detail=1'
  const { status, body } = await outboundGet(
    url,
    { accept: 'application/json', 'user-agent': `daicho/${VERSION}` },
    {
      schemes: ['https:', 'http:'],
      allowPrivate: true,
      timeoutMs: REPLY_TIMEOUT_MS,
      bodyBytesMax: REPLY_BYTES_MAX,
    },
  )
  const detail = await parseRateDetail(body.toString('utf8'))
  if (detail !== null) return detail
  throw new Exit(EXIT.finding, `${url.host} answered with status ${status}, without rates`)
}
