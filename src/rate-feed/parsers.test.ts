import { assert as fcAssert, property, string } from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ecbFile,
  exchangeApiBody,
  frankfurterBody,
  gmoBody,
  openExchangeRatesBody,
  PER_EUR,
} from '../../test/rates/feeds.ts'
import { SourceError } from './errors.ts'
import {
  formatVectorDocument,
  parseEcb,
  parseExchangeApi,
  parseFrankfurter,
  parseGmo,
  parseOpenExchangeRates,
  parseVectorDocument,
} from './parsers.ts'
import { type Quote, vectorOf } from './rates.ts'
import { retryAfterMs } from './sources.ts'

const DATE = '2026-10-07'
const INSTANT = '2026-10-07T11:00:00Z'
const WITH_CNH = { ...PER_EUR, CNH: 7.57 }
const document = { source: 'desk', asOf: DATE, perEur: { ...PER_EUR } }

const PARSERS: Readonly<Record<string, (text: string) => Quote>> = {
  ecb: parseEcb,
  frankfurter: parseFrankfurter,
  'exchange-api': parseExchangeApi,
  openexchangerates: parseOpenExchangeRates,
  gmo: parseGmo,
  document: parseVectorDocument,
}

const GOOD: readonly (readonly [string, string, string])[] = [
  ['ecb', ecbFile(DATE), DATE],
  ['ecb', ecbFile(DATE, PER_EUR, '"'), DATE],
  ['frankfurter', frankfurterBody(DATE), DATE],
  ['exchange-api', exchangeApiBody(DATE, WITH_CNH), DATE],
  ['openexchangerates', openExchangeRatesBody(INSTANT, WITH_CNH), INSTANT],
  ['document', JSON.stringify(document), DATE],
]

describe('every source', () => {
  it.each(GOOD)('%s: parses the documented body', (name, body, asOf) => {
    const quote = PARSERS[name]?.(body)
    expect(quote?.asOf).toBe(asOf)
    for (const [code, value] of Object.entries(PER_EUR)) {
      expect(quote?.perEur.get(code)).toBeCloseTo(value, 12)
    }
  })

  const HTML = '<html><body>We are down. <Cube currency="USD" rate="1"/></body></html>'
  const junk = ['', ' ', HTML, 'null', '[]', '{}', '"x"', '{', '1', '{"success":false}', '\u0000']
  const every = Object.keys(PARSERS).flatMap((name) => junk.map((body) => [name, body] as const))
  it.each(every)('%s: rejects %j', (name, body) => {
    expect(() => PARSERS[name]?.(body)).toThrow(SourceError)
  })

  it('returns a quote or throws a SourceError for any string', () => {
    void fcAssert(
      property(string({ maxLength: 200, unit: 'binary' }), (text) => {
        for (const parse of Object.values(PARSERS)) {
          try {
            parse(text)
          } catch (error) {
            expect(error).toBeInstanceOf(SourceError)
          }
        }
      }),
    )
  })
})

describe('the check of values', () => {
  const BAD = [
    '0',
    '-1.13',
    '.',
    '',
    '1e3',
    'NaN',
    'Infinity',
    '1,13',
    '+1',
    '0x1',
    ' 1',
    '1.',
  ] as const
  it.each(BAD)('rejects the ECB file with the dollar rate %j', (rate) => {
    const file = ecbFile(DATE).replace("rate='1.13'", `rate='${rate}'`)
    expect(() => parseEcb(file)).toThrow(expect.objectContaining({ code: 'VALUE_INVALID' }))
  })

  const bad = ['0', '-1.13', '"1.13"', '"."', 'null', 'true', '1e999', '1e-9', '[1]']
  it.each(bad)('rejects JSON bodies with the dollar rate %s', (rate) => {
    const refused = expect.objectContaining({ code: 'VALUE_INVALID' })
    const put = (body: string) => body.replace(/("usd":)[^,}]*/i, `$1${rate}`)
    expect(() => parseFrankfurter(put(frankfurterBody(DATE)))).toThrow(refused)
    expect(() => parseExchangeApi(put(exchangeApiBody(DATE, WITH_CNH)))).toThrow(refused)
    expect(() => parseVectorDocument(put(JSON.stringify(document)))).toThrow(refused)
  })

  it.each(['0', '-1', '"x"', 'null'])('rejects rates per dollar with the euro rate %s', (rate) => {
    const body = openExchangeRatesBody(INSTANT, WITH_CNH).replace(/("EUR":)[^,}]*/, `$1${rate}`)
    const refused = expect.objectContaining({ code: 'VALUE_INVALID' })
    expect(() => parseOpenExchangeRates(body)).toThrow(refused)
  })

  it.each(['.', '0', '-158', '', '1e2'])('rejects a price of %j', (price) => {
    const body = gmoBody(INSTANT).replace(/"bid":"[^"]*"/, `"bid":"${price}"`)
    const refused = expect.objectContaining({ code: 'VALUE_INVALID' })
    expect(() => parseGmo(body)).toThrow(refused)
  })

  it('rejects an order book whose ask is below the bid, or far above the bid', () => {
    const refused = expect.objectContaining({ code: 'VALUE_INVALID' })
    for (const ask of ['1', '900']) {
      const body = gmoBody(INSTANT).replace(/"ask":"[^"]*"/, `"ask":"${ask}"`)
      expect(() => parseGmo(body)).toThrow(refused)
    }
  })
})

describe('the ECB file', () => {
  it.each([
    `<!DOCTYPE x [<!ENTITY a "b">]>${ecbFile(DATE)}`,
    ecbFile(DATE).replace('<Cube>', '<!-- <Cube> -->'),
    ecbFile(DATE).replace('<Cube>', '<![CDATA[<Cube>]]>'),
  ])('is rejected with a DTD, a comment or CDATA', (file) => {
    expect(() => parseEcb(file)).toThrow(expect.objectContaining({ code: 'MALFORMED' }))
  })

  it.each([
    ecbFile('2026-02-30'),
    ecbFile('yesterday'),
    ecbFile('2026-10-07T00:00:00'),
    ecbFile('07.10.2026'),
  ])('is rejected with an invalid date', (file) => {
    expect(() => parseEcb(file)).toThrow(expect.objectContaining({ code: 'DATE_INVALID' }))
  })

  it('is rejected with two dates or a duplicate currency', () => {
    expect(() => parseEcb(ecbFile(DATE) + ecbFile('2026-10-06'))).toThrow(SourceError)
    const twice = ecbFile(DATE).replace('</Cube>', "<Cube currency='USD' rate='1.14'/></Cube>")
    expect(() => parseEcb(twice)).toThrow(expect.objectContaining({ code: 'VALUE_INVALID' }))
  })

  it('is parsed in linear time, even if it is malicious', () => {
    const hostile = `<Cube time='2026-10-07'>${"<Cube currency='USD' rate='".repeat(30_000)}`
    expect(vectorError(() => parseEcb(hostile))).toBe('INCOMPLETE')
  })
})

describe('the live ticker', () => {
  it('is parsed to the mean of bid and ask, without currencies that have no price', () => {
    const quote = parseGmo(gmoBody('2026-10-07T11:00:00.123456Z'))
    expect(quote.asOf).toBe('2026-10-07T11:00:00Z')
    expect(quote.perEur.get('JPY')).toBeCloseTo(178.9, 6)
    expect(quote.perEur.get('USD')).toBeCloseTo(1.13, 6)
    expect([...quote.perEur.keys()]).not.toContain('NOK')
    expect(vectorError(() => quote)).toBe('INCOMPLETE')
  })

  it('gets missing currencies from `bridge`: HKD and CNY at their dollar rates, others at their euro rates', () => {
    const bridge = parseFrankfurter(frankfurterBody('2026-10-06', { ...PER_EUR, USD: 1 }))
    const quote = parseGmo(gmoBody(INSTANT))
    const { perEur, source, cnhIsCny } = vectorOf('gmo', quote, null, {
      name: 'ecb',
      quote: bridge,
    })
    expect(source).toBe('gmo+ecb')
    expect(perEur.HKD).toBeCloseTo(8.85 * 1.13, 6)
    expect(perEur.CNH).toBeCloseTo(7.56 * 1.13, 6)
    expect(cnhIsCny).toBe(true)
    expect(perEur.NOK).toBe(10.79)
    expect(perEur.SEK).toBe(11.25)
  })

  it('is rejected while the market is closed, with a delay of ten minutes until the next request', () => {
    const closed = { code: 'MARKET_CLOSED', retryAfterMs: 600_000 }
    expect(() => parseGmo(gmoBody(INSTANT, PER_EUR, 'CLOSE'))).toThrow(
      expect.objectContaining(closed),
    )
  })

  it('is rejected if it reports an error, has no price of the euro, or has an invalid timestamp', () => {
    const good = gmoBody(INSTANT)
    expect(() => parseGmo(good.replace('"status":0', '"status":4'))).toThrow(
      expect.objectContaining({ code: 'REFUSED' }),
    )
    expect(() => parseGmo(good.replace('EUR_JPY', 'XXX_JPY'))).toThrow(
      expect.objectContaining({ code: 'INCOMPLETE' }),
    )
    expect(() => parseGmo(good.replace(`"timestamp":"${INSTANT}"`, '"timestamp":"now"'))).toThrow(
      expect.objectContaining({ code: 'DATE_INVALID' }),
    )
  })
})

describe('CNH', () => {
  const quote = parseFrankfurter(frankfurterBody(DATE))
  const overlayOf = (cnh: number, date = DATE) => ({
    name: 'exchange-api',
    quote: parseExchangeApi(exchangeApiBody(date, { ...PER_EUR, CNY: 8, CNH: cnh })),
  })
  it.each([
    ['is CNY without an overlay', null, 7.56, true, 'ecb'],
    [
      'is CNY times the ratio of the overlay',
      overlayOf(8.08),
      7.56 * 1.01,
      false,
      'ecb+exchange-api',
    ],
    [
      'uses a ratio of the overlay just below 2 %',
      overlayOf(8.15),
      7.56 * 1.01875,
      false,
      'ecb+exchange-api',
    ],
    ['is CNY if the ratio of the overlay exceeds 2 %', overlayOf(8.17), 7.56, true, 'ecb'],
    ['is CNY if the overlay is too old', overlayOf(8.08, '2026-09-20'), 7.56, true, 'ecb'],
  ] as const)('%s', (_name, overlay, cnh, isCny, source) => {
    const vector = vectorOf('ecb', quote, overlay)
    expect(vector.perEur.CNH).toBeCloseTo(cnh, 12)
    expect(vector.cnhIsCny).toBe(isCny)
    expect(vector.source).toBe(source)
  })
})

describe('a stored set of rates', () => {
  it('is rejected if its checksum is wrong', () => {
    const text = formatVectorDocument(document)
    expect(parseVectorDocument(text).perEur.get('USD')).toBe(1.13)
    const flipped = text.replace('1.13', '1.73')
    expect(() => parseVectorDocument(flipped)).toThrow(
      expect.objectContaining({ code: 'CHECKSUM_WRONG' }),
    )
  })

  it('is rejected if it names a currency twice', () => {
    const twice = JSON.stringify(document).replace('"USD":', '"USD":9,"USD":')
    expect(() => parseVectorDocument(twice)).toThrow(
      expect.objectContaining({ code: 'MALFORMED', message: expect.stringContaining('duplicate') }),
    )
  })

  it('is rejected if the source contains characters for header injection', () => {
    const hostile = JSON.stringify({ ...document, source: 'x\r\nSet-Cookie: a=b' })
    expect(() => parseVectorDocument(hostile)).toThrow(
      expect.objectContaining({ code: 'MALFORMED' }),
    )
  })

  it('is rejected if currencies are missing, with a list of these currencies', () => {
    const { NOK: _, SEK: __, ...perEur } = document.perEur
    const quote = parseVectorDocument(JSON.stringify({ ...document, perEur }))
    expect(() => vectorOf('file', quote)).toThrow('NOK, SEK are missing')
  })
})

describe('Retry-After', () => {
  const now = Date.parse('2026-10-07T11:00:00Z')
  it.each([
    [null, null],
    ['120', 120_000],
    ['0', 0],
    ['Wed, 07 Oct 2026 11:05:00 GMT', 300_000],
    ['Wed, 07 Oct 2026 10:00:00 GMT', 0],
    ['999999999', 86_400_000],
    ['soon', null],
  ])('is parsed from %j to %j ms', (header, ms) => expect(retryAfterMs(header, now)).toBe(ms))
})

/** Returns the error code when a vector is created from the quote that `make` returns. */
function vectorError(make: () => Quote): string {
  try {
    vectorOf('x', make())
    return 'none'
  } catch (error) {
    return error instanceof SourceError ? error.code : 'not a SourceError'
  }
}
