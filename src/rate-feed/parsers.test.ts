import { assert as fcAssert, property, string } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ecbFile, frankfurterBody, PER_EUR } from '../../test/rates/feeds.ts'
import { RateSourceError } from './errors.ts'
import { formatVectorDocument, parseEcb, parseFrankfurter, parseVectorDocument } from './parsers.ts'
import type { Quote } from './rates.ts'
import { parseRetryAfter } from './sources.ts'

const DATE = '2026-10-07'
const vector = { source: 'desk', origin: null, asOf: DATE, asOfMs: 0, perEur: PER_EUR }
const document = { source: 'desk', asOf: DATE, perEur: { ...PER_EUR } }

const PARSERS: Readonly<Record<string, (text: string) => Quote>> = {
  ecb: parseEcb,
  frankfurter: parseFrankfurter,
  document: parseVectorDocument,
}

const GOOD: readonly (readonly [string, string, string])[] = [
  ['ecb', ecbFile(DATE), DATE],
  ['ecb', ecbFile(DATE, PER_EUR, '"'), DATE],
  ['frankfurter', frankfurterBody(DATE), DATE],
  ['document', JSON.stringify(document), DATE],
]

describe('every source', () => {
  it.each(GOOD)('%s: parses the documented body', (name, body, asOf) => {
    const quote = PARSERS[name]?.(body)
    expect(quote?.asOf).toBe(asOf)
    for (const [code, value] of Object.entries(PER_EUR)) {
      expect(quote?.perEur[code]).toBeCloseTo(value, 12)
    }
  })

  const HTML = '<html><body>We are down. <Cube currency="USD" rate="1"/></body></html>'
  const junk = ['', ' ', HTML, 'null', '[]', '{}', '"x"', '{', '1', '{"success":false}', '\u0000']
  const every = Object.keys(PARSERS).flatMap((name) => junk.map((body) => [name, body] as const))
  it.each(every)('%s: rejects %j', (name, body) => {
    expect(() => PARSERS[name]?.(body)).toThrow(RateSourceError)
  })

  it('returns a quote or throws a RateSourceError for any string', () => {
    void fcAssert(
      property(string({ maxLength: 200, unit: 'binary' }), (text) => {
        for (const parse of Object.values(PARSERS)) {
          try {
            parse(text)
          } catch (error) {
            expect(error).toBeInstanceOf(RateSourceError)
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
    expect(() => parseVectorDocument(put(JSON.stringify(document)))).toThrow(refused)
  })
})

describe('the ECB file', () => {
  it.each([
    `<!DOCTYPE x [<!ENTITY a "b">]>${ecbFile(DATE)}`,
    ecbFile(DATE).replace('<Cube>', '<!-- <Cube> -->'),
    ecbFile(DATE).replace('<Cube>', '<![CDATA[<Cube>]]>'),
  ])('the ECB file is rejected with a DTD, a comment or CDATA', (file) => {
    expect(() => parseEcb(file)).toThrow(expect.objectContaining({ code: 'MALFORMED' }))
  })

  it.each([
    ecbFile('2026-02-30'),
    ecbFile('yesterday'),
    ecbFile('2026-10-07T00:00:00'),
    ecbFile('07.10.2026'),
  ])('the ECB file is rejected with an invalid date', (file) => {
    expect(() => parseEcb(file)).toThrow(expect.objectContaining({ code: 'DATE_INVALID' }))
  })

  it('the ECB file is rejected with two dates or a duplicate currency', () => {
    expect(() => parseEcb(ecbFile(DATE) + ecbFile('2026-10-06'))).toThrow(RateSourceError)
    const twice = ecbFile(DATE).replace('</Cube>', "<Cube currency='USD' rate='1.14'/></Cube>")
    expect(() => parseEcb(twice)).toThrow(expect.objectContaining({ code: 'VALUE_INVALID' }))
  })

  it('the ECB file is parsed in linear time, even if it is malicious', () => {
    const hostile = `<Cube time='2026-10-07'>${"<Cube currency='USD' rate='".repeat(30_000)}`
    expect(() => parseEcb(hostile)).toThrow(expect.objectContaining({ code: 'INCOMPLETE' }))
  })
})

describe('a stored set of rates', () => {
  it('a stored set of rates is rejected if its checksum is wrong', () => {
    const text = formatVectorDocument(vector)
    expect(parseVectorDocument(text).perEur.USD).toBe(1.13)
    const flipped = text.replace('1.13', '1.73')
    expect(() => parseVectorDocument(flipped)).toThrow(
      expect.objectContaining({ code: 'CHECKSUM_WRONG' }),
    )
  })

  it('a stored set of rates is rejected if it names a currency twice', () => {
    const twice = JSON.stringify(document).replace('"USD":', '"USD":9,"USD":')
    expect(() => parseVectorDocument(twice)).toThrow(
      expect.objectContaining({ code: 'MALFORMED', message: expect.stringContaining('duplicate') }),
    )
  })

  it('a stored set of rates is rejected if the source contains characters for header injection', () => {
    const hostile = JSON.stringify({ ...document, source: 'x\r\nSet-Cookie: a=b' })
    expect(() => parseVectorDocument(hostile)).toThrow(
      expect.objectContaining({ code: 'MALFORMED' }),
    )
  })

  it('a stored set of rates is rejected if currencies are missing, with a list of these currencies', () => {
    const { NOK: _, SEK: __, ...perEur } = document.perEur
    const text = JSON.stringify({ ...document, perEur })
    expect(() => parseVectorDocument(text)).toThrow('NOK, SEK are missing')
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
  ])('Retry-After is parsed from %j to %j ms', (header, ms) =>
    expect(parseRetryAfter(header, now)).toBe(ms),
  )
})
