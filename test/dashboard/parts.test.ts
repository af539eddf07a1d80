import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  originalText,
  toFileName,
  visible,
  visibleJson,
  visibleText,
} from '../../src/base/visible.js'
import {
  type Renew,
  Session,
  SessionEnded,
  type SessionState,
} from '../../src/dashboard/browser/node/session.ts'
import {
  type Conditions,
  type FormCondition,
  formatWhere,
  parseConditions,
} from '../../src/dashboard/browser/text/conditions.ts'
import { findDifferences, parseItem } from '../../src/dashboard/browser/text/json.ts'

/** Returns conditions that must all hold. */
function all(
  ...rows: [string, FormCondition['operator'], FormCondition['type'], string][]
): Conditions {
  const list = rows.map(([member, operator, type, text]) => ({ member, operator, type, text }))
  return { isAny: false, list }
}

it.each<[unknown, unknown, unknown[]]>([
  [{ a: 1 }, { a: 1 }, []],
  [{ a: 1 }, { a: 2 }, [{ path: 'a', kind: 'changed', before: 1, after: 2 }]],
  [{}, { a: null }, [{ path: 'a', kind: 'added', after: null }]],
  [{ a: { b: [1, 2] } }, { a: { b: [1] } }, [{ path: 'a.b[1]', kind: 'removed', before: 2 }]],
  [{ 'a b': 1 }, {}, [{ path: '["a b"]', kind: 'removed', before: 1 }]],
  [{ a: [] }, { a: {} }, [{ path: 'a', kind: 'changed', before: [], after: {} }]],
  [undefined, { a: 1 }, [{ path: '', kind: 'changed', before: undefined, after: { a: 1 } }]],
])(
  'the comparison of two versions returns the differences of %j and %j',
  (before, after, found) => {
    expect(findDifferences(before, after)).toEqual(found)
  },
)

it.each([
  ['{"a":1}', null, { item: { a: 1 } }],
  ['{"id":"x"}', 'x', { item: { id: 'x' } }],
  ['{"id":"y"}', 'x', { reason: 'id-changed' }],
  ['{"id":1}', null, { reason: 'id-not-text' }],
  ['[]', null, { reason: 'not-object' }],
  ['{"a":1,"a":2}', null, { reason: 'json', code: 'JSON_DUPLICATE_MEMBER' }],
  ['{"a":1E400}', null, { reason: 'json', code: 'JSON_NUMBER_INEXACT' }],
  ['{\n"a":x}', null, { reason: 'json', code: 'JSON_MALFORMED', location: { line: 2, column: 5 } }],
  [
    '{\n"a":1,}',
    null,
    { reason: 'json', code: 'JSON_MALFORMED', location: { line: 2, column: 7 } },
  ],
])('the editor validates %j like the node', (text, id, checked) => {
  expect(parseItem(text, id)).toMatchObject(checked)
})

it.each<[Conditions, unknown]>([
  [{ isAny: false, list: [] }, null],
  [all(['  ', 'eq', 'text', 'x']), null],
  [all([' a.b ', 'eq', 'text', '1']), { 'a.b': { eq: '1' } }],
  [all(['a', 'neq', 'number', '100']), { a: { neq: 100 } }],
  [all(['a', 'gt', 'number', '-0.5']), { a: { gt: -0.5 } }],
  [all(['a', 'eq', 'boolean', 'true']), { a: { eq: true } }],
  [all(['a', 'eq', 'null', '']), { a: { eq: null } }],
  [all(['a', 'exists', 'boolean', 'false']), { a: { exists: false } }],
  [all(['a', 'inq', 'list', '["x",2]']), { a: { inq: ['x', 2] } }],
  [all(['a', 'eq', 'number', 'x']), undefined],
  [all(['a', 'eq', 'number', '9007199254740993']), undefined],
  [all(['a', 'inq', 'list', '"x"']), undefined],
  [
    all(['a', 'gt', 'number', '1'], ['a', 'lt', 'number', '5']),
    { and: [{ a: { gt: 1 } }, { a: { lt: 5 } }] },
  ],
  [
    { ...all(['a', 'eq', 'text', 'x'], ['b', 'like', 'text', '1%']), isAny: true },
    { or: [{ a: { eq: 'x' } }, { b: { like: '1%' } }] },
  ],
])('the conditions %j become a filter, and the filter becomes these conditions', (form, where) => {
  const json = formatWhere(form)
  expect(json === undefined ? undefined : JSON.parse(json ?? 'null')).toEqual(where)
  const list = form.list.map((one) => ({ ...one, member: one.member.trim() }))
  if (typeof json === 'string') expect(parseConditions(json)).toEqual({ ...form, list })
})

it.each([
  ['{"a":1,"b":{"gte":2,"lt":5}}', 3],
  ['{"or":[{"a":1},{"b":2}]}', 2],
  ['{"or":[{"a":1,"c":3},{"b":2}]}', null],
  ['{"and":[{"or":[{"a":1}]},{"b":2}]}', null],
  ['{"a":{"lx":1}}', null],
  ['{"a":{"eq":[1]}}', null],
  ['[1]', null],
  ['{', null],
])('the form shows the filter %s as %j conditions, if it can', (where, count) => {
  expect(parseConditions(where)?.list.length ?? null).toBe(count)
})

it.each([
  ['plain text, C:\\x', 'plain text, C:\\x'],
  ['', ''],
  ['a\u202elive', 'a\\u{202e}live'],
  [' a  b ', '\\u{20}a \\u{20}b\\u{20}'],
  ['   ', '\\u{20}\\u{20}\\u{20}'],
  ['a\u200bb\ufeff\u00ad', 'a\\u{200b}b\\u{feff}\\u{ad}'],
  ['a\u00a0b\u3000c\u2003', 'a\\u{a0}b\\u{3000}c\\u{2003}'],
  ['山田\u3000太郎', '山田\u3000太郎'],
  ['👨‍👩‍👧 ❤️ 1️⃣', '👨‍👩‍👧 ❤️ 1️⃣'],
  ['a\u200db', 'a\\u{200d}b'],
  ['\\u{202e}', '\\u{5c}u{202e}'],
  ['\\\\u{20}', '\\u{5c}\\u{5c}u{20}'],
  ['\\\u202e', '\\u{5c}\\u{202e}'],
  ['\u0301a', '\\u{301}a'],
  ['e\u0301', 'e\\u{301}'],
  ['é x\u0301', 'é x\u0301'],
  ['か\u3099', 'か\\u{3099}'],
  ['\u1112\u1161\u11ab 한', '\u1112\\u{1161}\\u{11ab} 한'],
  ['\u212b神\ufa19', '\\u{212b}神\ufa19'],
  ['\ud800\n\ue000', '\\u{d800}\\u{a}\\u{e000}'],
  ['שלום', '\u2067שלום\u2069'],
  ['שלום עולם 12', '\u2067שלום עולם\u2069 12'],
  ['12 שלום, x', '12 \u2067שלום\u2069, x'],
  ['р\u0430ypal', '\\u{440}\\u{430}ypal'],
  ['п\u0430п\u0430 оса Ωμέγα', 'папа оса Ωμέγα'],
  ['п\u0061па', '\\u{43f}a\\u{43f}\\u{430}'],
  ['live-\u0430 x.\u0391', 'live-\\u{430} x.\\u{391}'],
  ['IT-компания, файл.txt, 山田A社', 'IT-компания, файл.txt, 山田A社'],
  ['5 μm, kΩ, γ-GTP, TNFα, ＡＢＣ商事, B１F', '5 μm, kΩ, γ-GTP, TNFα, ＡＢＣ商事, B１F'],
  ['W\u0456\u0445.\u0441\u043em', 'W\\u{456}\\u{445}.\\u{441}\\u{43e}m'],
  ['\u0430\u0440\u0440\u04cf\u0435.com', '\\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com'],
  ['p\uff41y l\u0966ve', 'p\\u{ff41}y l\\u{966}ve'],
  ['C:\\\u0440ay a\u2011b\u2f08', 'C:\\u{5c}\\u{440}ay a\\u{2011}b\\u{2f08}'],
  ['٣٤', '\u2067٣\u2069\u2067٤\u2069'],
])('shows %j as %j, and copies it as it is', (text, shown) => {
  expect([visible(text), originalText(shown)]).toEqual([shown, text])
})

it('no two different texts look the same, and JSON stays the same JSON', () => {
  const unit = fc.constantFrom(
    ...'ab \\u{}20"\u202e\u200b\u3000\u00a0\u0301\ud83d\ude00\n山אéeàか\u3099がÅ\u212bрп\uff41n',
  )
  fc.assert(
    fc.property(fc.string({ unit }), (text) => {
      expect(originalText(visible(text).normalize('NFC'))).toBe(text)
      const json = visibleJson(JSON.stringify({ [text]: text }, null, 2))
      expect(JSON.parse(json.replace(/[\u2067\u2069]/g, ''))).toEqual({ [text]: text })
      expect(json).not.toMatch(/[\u202e\u200b\u00a0]/)
    }),
  )
  expect(toFileName('fruit\u202egnp/a:b.csv')).toBe('fruit_u{202e}gnp_a_b.csv')
  expect(visibleText('a  b\n\tc\u202e')).toBe('a  b\n\tc\\u{202e}')
})

it('shows long runs of backslashes in linear time', () => {
  const text = `\u00e9${'\\'.repeat(100_000)} п`
  expect(visible(text)).toBe(text)
})

/**
 * Creates a session with a fake node that answers with `reply`, and with an account if there is `renew`. Records the
 * requests that the node receives, and the states of the session.
 */
function session(
  reply: (path: string, token: string | null) => Response | Error,
  renew: Renew | null = null,
) {
  const sent: string[] = []
  const states: SessionState[] = []
  let now = 0
  const made = new Session({
    base: 'http://node/',
    now: () => now,
    onState: (state) => states.push(state),
    findRenewal: () => renew,
    fetch: async (input, init) => {
      const path = String(input).replace('http://node/', '')
      const token = new Headers(init?.headers).get('authorization')
      sent.push(`${init?.method ?? 'GET'} ${path} ${token ?? '-'}`)
      const response = reply(path, token)
      if (response instanceof Error) throw response
      return response
    },
  })
  return {
    made,
    sent,
    states,
    wait: (ms: number) => {
      now += ms
    },
  }
}

const DATE = 'Fri, 20 Nov 2026 21:00:00 GMT'
const issued = (token: string | null) =>
  Response.json(
    { status: true, token, expires_at: token === null ? null : Date.parse(DATE) + 900_000 },
    { headers: { date: DATE } },
  )

it('requests a token once, sends it in a header, and renews it a minute before it expires', async () => {
  let count = 0
  const { made, sent, wait } = session((path) => {
    if (path !== 'session') return Response.json({})
    count += 1
    return issued(`t${count}`)
  })
  await Promise.all([made.fetch('http://node/a'), made.fetch('http://node/b')])
  wait(839_000)
  await made.fetch('http://node/c')
  wait(1_000)
  await made.fetch('http://node/d')
  expect(sent.slice(1, 3).sort()).toEqual(['GET a Bearer t1', 'GET b Bearer t1'])
  expect([sent[0], ...sent.slice(3)]).toEqual([
    'POST session -',
    'GET c Bearer t1',
    'POST session -',
    'GET d Bearer t2',
  ])
})

it('requests one new token after a rejected token, and sends no token if tokens are disabled', async () => {
  let count = 0
  const refused = session((path) => {
    if (path !== 'session') return Response.json({}, { status: 401 })
    count += 1
    return issued(`t${count}`)
  })
  expect((await refused.made.fetch('http://node/a')).status).toBe(401)
  expect(refused.sent).toEqual([
    'POST session -',
    'GET a Bearer t1',
    'POST session -',
    'GET a Bearer t2',
  ])
  const open = session((path) => (path === 'session' ? issued(null) : Response.json({})))
  await open.made.fetch('http://node/a')
  await open.made.fetch('http://node/b')
  expect(open.sent).toEqual(['POST session -', 'GET a -', 'GET b -'])
})

it('stops sending tokens after the node was restarted with tokens disabled', async () => {
  let isNew = false
  const { made, sent } = session((path, token) => {
    if (path === 'session') return issued(isNew ? null : 't1')
    return Response.json({}, { status: token === null ? 200 : 401 })
  })
  isNew = true
  expect((await made.fetch('http://node/a')).status).toBe(200)
  expect(sent).toEqual(['POST session -', 'GET a -'])
})

it('the session ends if the node refuses a token with 429, and a token without an expiry is used for a minute', async () => {
  const ended = session(() => Response.json({ status: false }, { status: 429 }))
  await expect(ended.made.fetch('http://node/a')).rejects.toThrow('no session: 429')
  expect(ended.states).toEqual(['ended'])
  const timeless = session(() => Response.json({ status: true, token: 't' }))
  await timeless.made.fetch('http://node/a')
  timeless.wait(59_999)
  await timeless.made.fetch('http://node/b')
  timeless.wait(1)
  await timeless.made.fetch('http://node/c')
  expect(timeless.sent.filter((line) => line.startsWith('POST'))).toHaveLength(2)
})

it('reports an expired session and an unreachable node', async () => {
  const ended = session(() => Response.json({ status: false }, { status: 401 }))
  await expect(ended.made.fetch('http://node/a')).rejects.toThrow('no session')
  // The wrong password is not sent again, because the node would soon refuse every password of this address.
  await expect(ended.made.fetch('http://node/b')).rejects.toThrow('no session')
  expect([ended.states, ended.sent]).toEqual([['ended'], ['POST session -']])
  const lost = session(() => new TypeError('failed'))
  await expect(lost.made.fetch('http://node/a')).rejects.toThrow('failed')
  expect(lost.states).toEqual(['lost'])
})

it('the session of an account goes on if its issuer cannot be reached for a while, and ends if the issuer refuses', async () => {
  const failures = [new TypeError('no network'), new SessionEnded('invalid_grant')]
  const { made, states } = session(
    () => Response.json({}),
    async () => {
      throw failures.shift()
    },
  )
  await expect(made.fetch('http://node/a')).rejects.toThrow('no network')
  expect(states).toEqual(['lost'])
  await expect(made.fetch('http://node/a')).rejects.toThrow('invalid_grant')
  await expect(made.fetch('http://node/a')).rejects.toThrow('invalid_grant')
  expect(states).toEqual(['lost', 'ended'])
})
