import { SourceListError } from './errors.ts'
import { type KeeperTools, SourceKeeper } from './keeper.ts'
import type { Companions } from './rounds.ts'
import type { SourceEntry } from './source-list.ts'
import { ECB_URL, ecbSource } from './sources/ecb.ts'
import { EXCHANGE_API_URLS, exchangeApiSource } from './sources/exchange-api.ts'
import { FRANKFURTER_URL, frankfurterSource } from './sources/frankfurter.ts'
import { GMO_URL, gmoSource } from './sources/gmo.ts'
import type { Get } from './sources/http-source.ts'
import { OPEN_EXCHANGE_RATES_URL, openExchangeRatesSource } from './sources/open-exchange-rates.ts'
import { fileSource, urlSource } from './sources/operator.ts'
import type { RateSource } from './sources/source.ts'

/** Where the public sources are. */
export interface SourceAddresses {
  readonly ecb: string
  readonly frankfurter: string
  readonly exchangeApi: readonly string[]
  readonly openExchangeRates: string
  readonly gmo: string
}

/** Where they really are. */
export const PUBLIC_ADDRESSES: SourceAddresses = {
  ecb: ECB_URL,
  frankfurter: FRANKFURTER_URL,
  exchangeApi: EXCHANGE_API_URLS,
  openExchangeRates: OPEN_EXCHANGE_RATES_URL,
  gmo: GMO_URL,
}

/** What sources are made with. */
export interface SourceTools extends KeeperTools {
  readonly get: Get
  readonly addresses: SourceAddresses
  /** The operator's key at Open Exchange Rates; null when there is none. */
  readonly openExchangeRatesAppId: string | null
}

/** The sources of a list that can be asked again and again, with who completes whom. */
export interface LiveSources {
  /** In the operator's order. */
  readonly keepers: readonly SourceKeeper[]
  readonly companions: Companions
  /** The keepers of `file:` entries: they answer without a network. */
  readonly local: readonly SourceKeeper[]
}

/**
 * Makes the live sources of `entries`; `lastgood` and `snapshot` are not among them.
 *
 * Errors: SourceListError when `openexchangerates` is listed without a key.
 */
export function buildSources(entries: readonly SourceEntry[], tools: SourceTools): LiveSources {
  const keepers: SourceKeeper[] = []
  const local: SourceKeeper[] = []
  const byKind = new Map<string, SourceKeeper>()
  const count = { file: 0, url: 0 }
  for (const entry of entries) {
    const source = sourceOf(entry, tools, count)
    if (source === null) continue
    const keeper = new SourceKeeper(source, tools)
    keepers.push(keeper)
    if (entry.kind === 'file') local.push(keeper)
    if (!byKind.has(entry.kind)) byKind.set(entry.kind, keeper)
  }
  const overlay = byKind.get('exchange-api') ?? null
  return { keepers, local, companions: { overlay, bridge: bridgeFor(byKind, tools) } }
}

/** Live prices lack some currencies: the reference rates fill in, listed or not. */
function bridgeFor(
  byKind: ReadonlyMap<string, SourceKeeper>,
  tools: SourceTools,
): SourceKeeper | null {
  if (!byKind.has('gmo')) return null
  const listed = byKind.get('ecb') ?? byKind.get('frankfurter')
  const { addresses, get, clock } = tools
  return (
    listed ??
    new SourceKeeper(
      ecbSource(new URL(addresses.ecb), get, () => clock.now()),
      tools,
    )
  )
}

function sourceOf(
  entry: SourceEntry,
  tools: SourceTools,
  count: { file: number; url: number },
): RateSource | null {
  const { addresses, get, openExchangeRatesAppId: appId } = tools
  const now = () => tools.clock.now()
  switch (entry.kind) {
    case 'ecb':
      return ecbSource(new URL(addresses.ecb), get, now)
    case 'frankfurter':
      return frankfurterSource(new URL(addresses.frankfurter), get, now)
    case 'exchange-api':
      return exchangeApiSource(
        addresses.exchangeApi.map((address) => new URL(address)),
        get,
        now,
      )
    case 'openexchangerates':
      if (appId === null) {
        throw new SourceListError(
          'openexchangerates needs a key: set RATES_OPENEXCHANGERATES_APP_ID',
        )
      }
      return openExchangeRatesSource(new URL(addresses.openExchangeRates), appId, get, now)
    case 'gmo':
      return gmoSource(new URL(addresses.gmo), get, now)
    case 'file':
      count.file += 1
      return fileSource(numbered('file', count.file), entry.path)
    case 'url':
      count.url += 1
      return urlSource(numbered('url', count.url), entry.url, get, now)
    default:
      return null
  }
}

/** Clients see `url`, `url2`, never the address. */
function numbered(name: string, place: number): string {
  return place === 1 ? name : `${name}${place}`
}
