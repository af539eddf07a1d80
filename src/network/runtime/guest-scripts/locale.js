// Runs inside a guest. Formats numbers and dates, and compares texts, in the locale en-US and the time zone UTC. The engine has no
// locales, and Node's depend on its version, while every replay must have the same result. Source: ECMA-402, CLDR.

/** Symbols of currencies; others are shown by their code and a space that does not break. */
const SYMBOLS = {
  ...{ USD: '$', EUR: '€', GBP: '£', JPY: '¥', CNY: 'CN¥', INR: '₹', KRW: '₩', BRL: 'R$' },
  ...{ CAD: 'CA$', AUD: 'A$', NZD: 'NZ$', MXN: 'MX$', HKD: 'HK$', TWD: 'NT$', ILS: '₪', VND: '₫' },
}
const WITHOUT_CENTS = ['JPY', 'KRW', 'VND', 'CLP', 'ISK']

/** Returns `value` with grouped digits, rounded half up, as `Number.prototype.toLocaleString('en-US', options)`. */
function formatLocaleNumber(value, options = {}) {
  const { style = 'decimal', currency = '', useGrouping = true } = options
  const code = String(currency).toUpperCase()
  const isMoney = style === 'currency'
  if (isMoney && code === '') throw new TypeError('Currency code is required with currency style.')
  const usual = isMoney && !WITHOUT_CENTS.includes(code) ? 2 : 0
  const most = style === 'decimal' ? 3 : usual
  const least =
    options.minimumFractionDigits ?? Math.min(usual, options.maximumFractionDigits ?? usual)
  const places = options.maximumFractionDigits ?? Math.max(most, least)
  if (!(least >= 0 && least <= places && places <= 100)) {
    throw new RangeError('maximumFractionDigits value is out of range.')
  }
  const sign = value < 0 || Object.is(value, -0) ? '-' : ''
  const digits = formatDigits(
    Math.abs(value),
    places,
    least,
    style === 'percent' ? 2 : 0,
    useGrouping,
  )
  if (style === 'percent') return `${sign}${digits}%`
  return `${sign}${isMoney ? (SYMBOLS[code] ?? `${code}\u00a0`) : ''}${digits}`
}

/** Returns `value` times ten to the power of `shift`, with `least` to `places` fraction digits. */
function formatDigits(value, places, least, shift, useGrouping) {
  if (Number.isNaN(value)) return 'NaN'
  if (value === Infinity) return '∞'
  const [mantissa, exponent] = value.toExponential().split('e')
  const [, decimals = ''] = mantissa.split('.')
  const power = Number(exponent) - decimals.length + places + shift
  const whole = BigInt(mantissa.replace('.', ''))
  const unit = 10n ** BigInt(Math.abs(power))
  const scaled = power >= 0 ? whole * unit : (whole + unit / 2n) / unit
  const text = scaled.toString().padStart(places + 1, '0')
  const integer = text.slice(0, text.length - places)
  const fraction = text.slice(text.length - places)
  const shown = fraction.slice(0, least) + fraction.slice(least).replace(/0+$/, '')
  const grouped = useGrouping ? integer.replace(/\B(?=(\d{3})+$)/g, ',') : integer
  return shown === '' ? grouped : `${grouped}.${shown}`
}

const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
]
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const DATE_PARTS = ['weekday', 'year', 'month', 'day']
const TIME_PARTS = ['hour', 'minute', 'second']

/** Returns `date` in UTC. `shown`: the parts without options, `date`, `time` or `both`. */
function formatLocaleDate(date, options = {}, shown) {
  if (Number.isNaN(date.getTime())) return 'Invalid Date'
  if (!['UTC', 'GMT', 'Etc/UTC'].includes(options.timeZone ?? 'UTC')) {
    throw new RangeError(`the time zone of a transaction is UTC, not ${options.timeZone}`)
  }
  const parts = { ...options }
  const relevant = { date: DATE_PARTS, time: TIME_PARTS, both: [...DATE_PARTS, ...TIME_PARTS] }[
    shown
  ]
  if (!relevant.some((name) => parts[name] !== undefined)) {
    if (shown !== 'time') for (const name of DATE_PARTS.slice(1)) parts[name] = 'numeric'
    if (shown !== 'date') for (const name of TIME_PARTS) parts[name] = 'numeric'
  }
  const day = formatDay(date, parts)
  const time = formatTime(date, parts)
  const isWeekday = DATE_PARTS.every((name) => (name === 'weekday') === (parts[name] !== undefined))
  const between = isWeekday ? ' ' : parts.month === 'long' ? ' at ' : ', '
  return [day, time].filter((text) => text !== '').join(between)
}

function formatDay(date, { weekday, year, month, day }) {
  const name = named(WEEKDAYS[date.getUTCDay()], weekday)
  const years = year && sized(date.getUTCFullYear(), year)
  const days = day && sized(date.getUTCDate(), day)
  if (month !== 'numeric' && month !== '2-digit' && month !== undefined) {
    const monthDay = [named(MONTHS[date.getUTCMonth()], month), days].filter(Boolean).join(' ')
    const whole = [monthDay, years].filter(Boolean).join(days === undefined ? ' ' : ', ')
    return [name, whole].filter(Boolean).join(', ')
  }
  const months = month && sized(date.getUTCMonth() + 1, month)
  if (months === undefined && years === undefined && name !== '' && days !== undefined)
    return `${days} ${name}`
  const numbers = [months, days, years].filter(Boolean).join('/')
  return [name, numbers].filter(Boolean).join(', ')
}

function formatTime(date, { hour, minute, second, hour12 = true }) {
  const hours = date.getUTCHours()
  const shownHour = hour && (hour12 ? sized(hours % 12 || 12, hour) : sized(hours, '2-digit'))
  const minutes = minute && sized(date.getUTCMinutes(), hour || second ? '2-digit' : minute)
  const seconds = second && sized(date.getUTCSeconds(), hour || minute ? '2-digit' : second)
  const time = [shownHour, minutes, seconds].filter(Boolean).join(':')
  return hour && hour12 ? `${time} ${hours < 12 ? 'AM' : 'PM'}` : time
}

function named(name, size) {
  if (size === undefined) return ''
  return size === 'long' ? name : name.slice(0, size === 'narrow' ? 1 : 3)
}

function sized(number, size) {
  return size === '2-digit' ? String(number % 100).padStart(2, '0') : String(number)
}

/** All characters before letters, in the order of the root collation. */
const SIGNS = '\t\n\v\f\r\u2028\u2029 _-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$0123456789'
/** Accents in their order: acute, grave, breve, circumflex, caron, ring, diaeresis, double acute, tilde, … */
const ACCENTS =
  '\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0338\u0335\u0327\u0328\u0304'
const EXPANDED = { ß: 'ss', æ: 'ae', œ: 'oe', ø: 'o\u0338', đ: 'd\u0335', ł: 'l\u0335' }

/** Returns the weights of `text` on three levels: letters, accents, upper case. */
function toCollation(text) {
  const levels = [[], [], []]
  for (const character of text.normalize('NFD')) {
    const lower = character.toLowerCase()
    const isUpper = lower !== character
    for (const base of EXPANDED[lower] ?? lower) {
      if (/\p{M}/u.test(base)) {
        const accent = ACCENTS.indexOf(base)
        levels[1].push(levels[0].length, accent === -1 ? base.codePointAt(0) : accent)
        continue
      }
      const sign = SIGNS.indexOf(base)
      if (sign === -1 && /\p{Cc}/u.test(base)) continue
      levels[0].push(sign === -1 ? 1_000 + base.codePointAt(0) : sign)
      levels[2].push(isUpper ? 1 : 0)
    }
  }
  return levels
}

/** Returns -1, 0 or 1 as `String.prototype.localeCompare` with the locale en-US. */
function compareLocale(one, other, { sensitivity = 'variant' } = {}) {
  const [left, right] = [toCollation(one), toCollation(other)]
  const levels = { base: [0], accent: [0, 1], case: [0, 2], variant: [0, 1, 2] }[sensitivity]
  for (const level of levels) {
    const [first, second] = [left[level], right[level]]
    for (let at = 0; at < Math.max(first.length, second.length); at += 1) {
      const [a = -1, b = -1] = [first[at], second[at]]
      if (a !== b) return a < b ? -1 : 1
    }
  }
  return 0
}
