// The formats of en-US in scripts, compared with those of Node, whose newer versions use other spaces.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { gateway, networkOf } from '../support/gateway.ts'

type Options = Readonly<Record<string, unknown>>
interface Locale {
  formatLocaleNumber(value: number, options?: Options): string
  formatLocaleDate(date: Date, options: Options, shown: 'date' | 'time' | 'both'): string
  compareLocale(one: string, other: string, options?: Options): number
}

const file = new URL('../../src/network/runtime/guest-scripts/locale.js', import.meta.url)
const names = 'formatLocaleNumber, formatLocaleDate, compareLocale'
const locale: Locale = new Function(`${readFileSync(file, 'utf8')}\nreturn { ${names} }`)()

let state = 1
const random = (below: number) => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
  return Math.trunc((state / 0x80000000) * below)
}
const pick = <Value>(values: readonly Value[]): Value => values[random(values.length)] as Value
const plain = (text: string) => text.replaceAll('\u202f', ' ')

it('numbers, percentages and sums of money have the format of en-US', () => {
  const special = [0, -0, 1.005, 2.5, 0.0005, -0.0001, 999.9995, 1e21, 5e-324, 1.7e308, Number.NaN]
  const numbers = Array.from({ length: 3_000 }, () => (random(2e9) - 1e9) / 10 ** random(12))
  const kinds: Options[] = [
    ...[{}, { minimumFractionDigits: 2 }, { maximumFractionDigits: 0 }, { useGrouping: false }],
    ...[{ style: 'percent' }, { style: 'percent', minimumFractionDigits: 1 }],
    ...['USD', 'EUR', 'JPY', 'CHF', 'CAD'].map((currency) => ({ style: 'currency', currency })),
    { style: 'currency', currency: 'USD', maximumFractionDigits: 0 },
    { minimumFractionDigits: 2, maximumFractionDigits: 4 },
  ]
  for (const value of [...special, Number.POSITIVE_INFINITY, ...numbers]) {
    const options = pick(kinds)
    const expected = value.toLocaleString('en-US', options as Intl.NumberFormatOptions)
    expect([value, options, locale.formatLocaleNumber(value, options)]).toEqual([
      value,
      options,
      expected,
    ])
  }
})

it('dates and times have the format of en-US', () => {
  const maybe = (name: string, sizes: readonly string[]) =>
    random(2) === 0 ? {} : { [name]: pick(sizes) }
  for (let n = 0; n < 3_000; n += 1) {
    const date = new Date(
      Date.UTC(1970 + random(150), random(12), 1 + random(28), random(24), random(60), random(60)),
    )
    const numeric = ['numeric', '2-digit']
    const day = {
      ...maybe('weekday', ['long', 'short']),
      month: pick([...numeric, 'long', 'short']),
      day: pick(numeric),
      year: pick(numeric),
    }
    const time = { hour: pick(numeric), minute: '2-digit', ...maybe('second', ['2-digit']) }
    const options = pick<Options>([
      {},
      {},
      day,
      time,
      { ...day, ...time },
      { month: 'long', year: 'numeric' },
      { month: 'short', day: 'numeric' },
      { weekday: 'long' },
    ])
    const hour12 = random(4) === 0 ? { hour12: false } : {}
    const given = { timeZone: 'UTC', ...options, ...hour12 } as Intl.DateTimeFormatOptions
    const expected = [
      date.toLocaleString('en-US', given),
      date.toLocaleDateString('en-US', given),
      date.toLocaleTimeString('en-US', given),
    ].map(plain)
    const found = (['both', 'date', 'time'] as const).map((shown) =>
      locale.formatLocaleDate(date, { ...options, ...hour12 }, shown),
    )
    expect([date, given, found]).toEqual([date, given, expected])
  }
  expect(locale.formatLocaleDate(new Date(Number.NaN), {}, 'both')).toBe('Invalid Date')
})

it('texts are compared in the order of en-US', () => {
  const characters = [...' _-,;:!?.\'"()[]@*/\\&#%`^+<=>|~$0129abcdezABZéèêÉüÜñçåöäÄßøł\tαΩжЯ']
  const word = () => Array.from({ length: random(5) }, () => pick(characters)).join('')
  for (let n = 0; n < 5_000; n += 1) {
    const [one, other] = [word(), word()]
    const sensitivity = pick(['variant', 'variant', 'base', 'accent'] as const)
    const expected = Math.sign(one.localeCompare(other, 'en-US', { sensitivity }))
    expect([one, other, sensitivity, locale.compareLocale(one, other, { sensitivity })]).toEqual([
      one,
      other,
      sensitivity,
      expected,
    ])
  }
})

it('scripts have the formats of en-US, in UTC, whatever the locale of the node is', async () => {
  const model = 'namespace org.test\n@returns(String[]) transaction Ask {}'
  const lib = `function onAsk() {
    const made = new Date(Date.UTC(2020, 0, 5, 15, 4, 9))
    return [(1234567.891).toLocaleString(), (5).toLocaleString('de', { style: 'currency', currency: 'USD' }), made.toLocaleString(),
      made.toLocaleDateString(), made.toLocaleTimeString(), ['b', 'a', 'Ä', 'z', 'B'].sort((x, y) => x.localeCompare(y)).join('')]
  }`
  const node = await gateway({ deploy: [networkOf(model, { 'lib/ask.js': lib })] })
  expect((await node.send('POST', '/api/Ask', {})).json).toEqual([
    ...['1,234,567.891', '$5.00', '1/5/2020, 3:04:09 PM', '1/5/2020', '3:04:09 PM', 'aÄbBz'],
  ])
})
