// The page of the feed: polls the rates and the state of the sources while it is visible. Text from a reply is
// inserted only with textContent.
import { language, t, timeText } from '{{assets}}/language.js'
import { visible } from '{{assets}}/visible.js'

/** Polling interval. Rates change a few times a day, but the state of the sources changes more often. */
const POLL_MS = 10_000
const PAIR = /^(...)(...)$/

const at = (id) => document.getElementById(id)
/** Returns a format with a fixed number of decimals, so that the decimal points are aligned. */
const numberOf = (digits) =>
  new Intl.NumberFormat(language, {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
const [inYen, inOthers] = [numberOf(3), numberOf(5)]
let timer = 0

function elementOf(tag, text, name = '') {
  const element = document.createElement(tag)
  element.textContent = text
  element.className = name
  return element
}

async function replyOf(path) {
  const reply = await fetch(path, { cache: 'no-store' })
  return reply.json()
}

async function refresh() {
  try {
    const [rates, health] = await Promise.all([replyOf('/?detail=1'), replyOf('/healthz')])
    if (rates.status === true) showRates(rates)
    at('failure').hidden = rates.status === true
    at('failure').textContent = rates.status === true ? '' : failureOf(rates)
    showSources(health.sources ?? [])
  } catch {
    at('failure').textContent = t('The service cannot be reached.', 'サービスに接続できません。')
    at('failure').hidden = false
  }
  at('waiting').hidden = true
}

function failureOf({ message, code }) {
  return `${t('There are no rates now:', '現在、レートはありません:')} ${visible(message)} (${code})`
}

function showRates({ result, meta }) {
  const { rate, datetime } = result
  at('given').hidden = false
  at('rates').tBodies[0].replaceChildren(...Object.entries(rate).map(rowOf))
  at('stale').hidden = !meta.stale
  const readAt = new Date(datetime.replace(' ', 'T').replace(/\+0$/, 'Z'))
  at('asked').textContent = `${t('Read', '取得')} ${timeText(readAt)}`
  const facts = [
    [t('Source', '取得元'), meta.origin === null ? meta.source : `${meta.source} (${meta.origin})`],
    [t('Date of the rates', 'レートの日付'), meta.asOf],
    [
      t('Confirmed by', '確認'),
      meta.confirmedBy === null
        ? t('no source since the start', '起動後の確認なし')
        : `${meta.confirmedBy}, ${timeText(meta.confirmedAt)}`,
    ],
    [
      t('Next refresh', '次の確認'),
      meta.nextRefresh === null ? t('none', 'なし') : timeText(meta.nextRefresh),
    ],
    ...meta.proxies.map((proxy) => [
      t('Substitute', '代用'),
      proxy.replace('=', t(' is computed as ', ' の計算に使用: ')),
    ]),
  ]
  at('from').replaceChildren(...facts.map(factOf))
}

function rowOf([pair, rate]) {
  const row = document.createElement('tr')
  const [, of, by] = PAIR.exec(pair) ?? []
  const name = elementOf('th', `${of} / ${by}`)
  name.scope = 'row'
  const number = by === 'JPY' ? inYen : inOthers
  row.append(name, elementOf('td', number.format(rate), 'number'))
  return row
}

function factOf([name, text]) {
  const fact = elementOf('div', '', 'fact')
  fact.append(elementOf('dt', name), elementOf('dd', visible(text)))
  return fact
}

function showSources(sources) {
  at('no-sources').hidden = sources.length > 0
  at('sources').replaceChildren(...sources.map(sourceOf))
}

function sourceOf({ name, lastSuccessAt, failures, lastError, backOffUntil }) {
  const item = document.createElement('li')
  const success =
    lastSuccessAt === null
      ? t('no success yet', 'まだ応答がありません')
      : `${t('last success', '応答')} ${timeText(lastSuccessAt)}`
  const title = elementOf('p', '')
  title.append(elementOf('strong', visible(name)), elementOf('span', ` · ${success}`, 'soft'))
  item.append(title)
  if (failures > 0) {
    const count = t(`Failures since then: ${failures}`, `以後の失敗: ${failures} 回`)
    const again =
      backOffUntil === null ? '' : `; ${t('next try', '次の試行')} ${timeText(backOffUntil)}`
    item.append(elementOf('p', `${count} (${visible(lastError ?? '')})${again}`, 'failed'))
  }
  return item
}

async function poll() {
  clearTimeout(timer)
  if (document.visibilityState === 'hidden') return
  await refresh()
  clearTimeout(timer)
  timer = setTimeout(() => void poll(), POLL_MS)
}

document.addEventListener('visibilitychange', () => void poll())
void poll()
