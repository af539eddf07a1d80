import { PAIRS } from '../rates.ts'
import type { RateDetail } from '../service.ts'
import { RatesReply } from './schemas.ts'

const INTEGER_DIGITS = 5

/** Parses the body of `GET /?detail=1`. Returns null for an invalid body. */
export async function parseRateDetail(text: string): Promise<RateDetail | null> {
  // Imported here, because only `daicho rates` needs this slow import.
  const { Value } = await import('typebox/value')
  try {
    const body: unknown = JSON.parse(text)
    if (!Value.Check(RatesReply, body) || body.meta === undefined) return null
    return { result: body.result, meta: body.meta }
  } catch {
    return null
  }
}

/** Formats `detail` for a terminal: one line per pair, with aligned decimal points. */
export function formatRateTable({ result, meta }: RateDetail): string {
  const { source, origin, asOf, stale, proxies } = meta
  const from = origin === null || origin === source ? source : `${source} (${origin})`
  const head = `Rates of ${asOf} from ${from}${stale ? ', stale' : ''}; read ${result.datetime}`
  const lines = PAIRS.map((pair) => {
    const text = String(result.rate[pair])
    const [integer = ''] = text.split('.')
    return `${pair}  ${' '.repeat(Math.max(0, INTEGER_DIGITS - integer.length))}${text}`
  })
  const notes = proxies.map((proxy) => `Substitute: ${proxy.replace('=', ' is computed as ')}`)
  return `${[head, '', ...lines, ...(notes.length > 0 ? ['', ...notes] : [])].join('\n')}\n`
}
