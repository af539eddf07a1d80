import type { Clock } from '../../base/clock.ts'
import { outboundGet } from '../../http/outbound.ts'
import { parseSourceList, type RateFeedDeps } from '../../rate-feed/index.ts'
import type { Settings } from '../settings.ts'

/** Longest time for one request to a source, from the name's resolution to the last byte. */
const SOURCE_TIMEOUT_MS = 5_000
/** Longest reply of a source, decompressed. */
const SOURCE_BYTES_MAX = 1_048_576

/**
 * What a rate feed is made with in this process, but for its log and its ledger: sources are asked
 * over https only, and nowhere near the operator's own networks unless that was allowed.
 *
 * Errors: SourceListError for a bad RATES_SOURCES.
 */
export function rateFeedDeps(
  settings: Settings,
  version: string,
  clock: Clock,
): Omit<RateFeedDeps, 'log' | 'ledger'> {
  return {
    settings: {
      sources: parseSourceList(settings.RATES_SOURCES),
      strict: settings.RATES_STRICT,
      staleAfterMs: settings.RATES_STALE_AFTER,
      maxStaleMs: settings.RATES_MAX_STALE,
      folder: settings.SYSTEM_FOLDER,
      openExchangeRatesAppId: settings.RATES_OPENEXCHANGERATES_APP_ID,
      banded: settings.RATES_BAND === 'on',
    },
    clock,
    random: Math.random,
    get: (url, headers) =>
      outboundGet(
        url,
        { ...headers, 'user-agent': `daicho/${version}` },
        {
          schemes: ['https:'],
          allowPrivate: settings.RATES_ALLOW_PRIVATE,
          timeoutMs: SOURCE_TIMEOUT_MS,
          bodyBytesMax: SOURCE_BYTES_MAX,
        },
      ),
  }
}
