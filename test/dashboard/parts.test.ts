import { expect, it } from 'vitest'
import { Session, type SessionState } from '../../src/dashboard/browser/node/session.ts'
import {
  findDifferences,
  type Operator,
  parseItem,
  toWhere,
} from '../../src/dashboard/browser/text/json.ts'

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
  ['{\n"a":x}', null, { reason: 'json', code: 'JSON_MALFORMED', location: null }],
  [
    '{\n"a":1,}',
    null,
    { reason: 'json', code: 'JSON_MALFORMED', location: { line: 2, column: 7 } },
  ],
])('the editor validates %j like the node', (text, id, checked) => {
  expect(parseItem(text, id)).toMatchObject(checked)
})

it.each<[string, Operator, string, unknown]>([
  ['', 'eq', '1', null],
  ['  ', 'exists', '', null],
  [' a.b ', 'eq', 'plum', { 'a.b': { eq: 'plum' } }],
  ['a', 'eq', '1e2', { or: [{ a: { eq: 100 } }, { a: { eq: '1e2' } }] }],
  ['a', 'eq', '01', { a: { eq: '01' } }],
  ['a', 'neq', 'null', { and: [{ a: { neq: null } }, { a: { neq: 'null' } }] }],
  ['a', 'neq', 'x', { a: { neq: 'x' } }],
  ['a', 'gt', '-0.5', { a: { gt: -0.5 } }],
  ['a', 'lte', 'true', { a: { lte: true } }],
  ['a', 'like', '1%', { a: { like: '1%' } }],
  ['a', 'regexp', '12', { a: { regexp: '12' } }],
  ['a', 'exists', '', { a: { exists: true } }],
  ['a', 'exists', 'false', { a: { exists: false } }],
])(
  'a filter with member %j, operator %s and text %j becomes a query with values of the right type',
  (member, operator, text, where) => {
    expect(JSON.parse(toWhere(member, operator, text) ?? 'null')).toEqual(where)
  },
)

/**
 * Creates a session with a fake node that answers with `reply`. Records the requests that the node receives, and
 * the states of the session.
 */
function session(reply: (path: string, token: string | null) => Response | Error) {
  const sent: string[] = []
  const states: SessionState[] = []
  let now = 0
  const made = new Session({
    base: 'http://node/',
    now: () => now,
    onState: (state) => states.push(state),
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
  expect(ended.states).toEqual(['ended'])
  const lost = session(() => new TypeError('failed'))
  await expect(lost.made.fetch('http://node/a')).rejects.toThrow('failed')
  expect(lost.states).toEqual(['lost'])
})
