// Behaviour of Hyperledger Composer 0.20.9 on which applications rely, tested over HTTP.
import { beforeAll, describe, expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf, startGateway } from '../support/gateway.ts'

const MODEL = `namespace org.test
concept Link { o String name o Link next optional o Link[] others optional }
asset Thing identified by id {
  o String id
  o String[] tags
  o Integer[] numbers
  o Link[] links
  --> Thing[] parts
  o String[] notes optional
  o Link link optional
}
participant Person identified by name { o String name }
transaction Untended { o String id optional }
transaction Silent extends Untended {}
transaction Tended extends Untended {}
transaction Run { o String code }
@returns(Link) transaction Ask { o String code }
event Made { o Link link }`

const RUNNER = 'Object.getPrototypeOf(async function () {}).constructor'
const SCRIPT = `
/** @param {org.test.Tended} tended
 * @transaction */
function tend() {}
/** A tag with a typing error.
 * @param {org.test.Silent} silent
 * @transation */
function silent() {}
/** @param {org.test.Run} run
 * @transaction */
async function run({ code }) { await new (${RUNNER})(code)() }
/** @param {org.test.Ask} ask
 * @transaction */
async function ask({ code }) { return new (${RUNNER})(code)() }`

let node: GatewayNode
beforeAll(async () => {
  node = await startGateway({ deploy: [networkOf(MODEL, { 'lib/script.js': SCRIPT })] })
  return () => node.close()
})

const send: GatewayNode['send'] = (...request) => node.send(...request)
const errorOf = async (reply: ReturnType<typeof send>) => {
  const { status, json } = await reply
  return { status, code: json.error?.code, message: json.error?.message, ...json.error }
}

describe('a transaction', () => {
  it.each(['Untended', 'Silent'])(
    'a transaction is rejected if no function processes it: %s',
    async (type) => {
      const { status, code, message } = await errorOf(send('POST', `/api/${type}`, {}))
      expect([status, code]).toEqual([422, 'TRANSACTION_FAILED'])
      expect(message).toMatch(
        new RegExp(
          `^Could not find any functions to execute for transaction org\\.test\\.${type}#[0-9a-f-]{36}$`,
        ),
      )
      expect((await send('GET', `/api/${type}`)).json).toEqual([])
    },
  )

  it('a transaction is accepted if a function processes its type or a supertype', async () => {
    expect((await send('POST', '/api/Tended', {})).status).toBe(200)
    expect((await send('GET', '/api/Tended')).json).toHaveLength(1)
  })
})

describe('a missing required array', () => {
  it('becomes empty, even if it is null, but a missing optional array stays missing', async () => {
    const expected = {
      $class: 'org.test.Thing',
      id: 'a',
      tags: [],
      numbers: [],
      links: [],
      parts: [],
    }
    const created = await send('POST', '/api/Thing', { id: 'a', tags: null, notes: null })
    expect([created.status, created.json]).toEqual([200, expected])
    expect((await send('GET', '/api/Thing/a')).json).toEqual(expected)
  })

  it('a missing required array is empty in a resource that a processor adds', async () => {
    const code = `await (await getAssetRegistry('org.test.Thing')).add(getFactory().newResource('org.test', 'Thing', 'b'))`
    expect((await send('POST', '/api/Run', { code })).status).toBe(200)
    expect((await send('GET', '/api/Thing/b')).json).toMatchObject({ tags: [], parts: [] })
  })
})

describe('the error for an invalid value', () => {
  it('names the expected array', async () => {
    const wrong = { id: 'c', tags: 'text', numbers: 5, links: { name: 'a' }, parts: 'a' }
    const { status, details } = await errorOf(send('POST', '/api/Thing', wrong))
    expect(status).toBe(422)
    expect(details).toEqual(
      [
        ['/tags', 'String[]'],
        ['/numbers', 'Integer[]'],
        ['/links', 'Link[]'],
        ['/parts', 'Thing[]'],
      ].map(([path, type]) => ({ path, code: 'WRONG_TYPE', message: `must be an array, ${type}` })),
    )
  })

  it('names the type of an array element', async () => {
    const { details } = await errorOf(send('POST', '/api/Thing', { id: 'c', tags: ['a', 1] }))
    expect(details).toEqual([{ path: '/tags/1', code: 'WRONG_TYPE', message: 'must be a String' }])
  })

  it.each([
    ['POST', '/api/Thing', '"x"', 'must be an object, a Thing'],
    ['POST', '/api/Run', '"x"', 'must be an object, a transaction'],
    ['PUT', '/api/Thing/a', '[]', 'must be an object'],
  ])(
    'the error for an invalid value has an empty pointer if the whole body is invalid: %s %s',
    async (method, path, body, message) => {
      const refused = await errorOf(send(method, path, body))
      expect(refused.details).toEqual([{ path: '', code: 'WRONG_TYPE', message }])
      expect(refused.message).toBe(message)
    },
  )
})

describe('resources that a processor creates', () => {
  const linked = (count: number) =>
    `let link; for (let n = 0; n < ${count}; n += 1) {
      const next = link
      link = getFactory().newConcept('org.test', 'Link')
      link.name = String(n)
      if (next !== undefined) link.next = next
    }`
  const cyclic = `${linked(1)}; link.next = link`
  const cyclicList = `${linked(1)}; link.others = [link, link]`
  const cyclicObject = `${linked(1)}; link.next = { $class: 'org.test.Link', name: 'a', next: link }`
  const uses: readonly [string, string, string][] = [
    [
      'added',
      'Run',
      `const thing = getFactory().newResource('org.test', 'Thing', 'deep')
       thing.link = link
       await (await getAssetRegistry('org.test.Thing')).add(thing)`,
    ],
    [
      'emitted',
      'Run',
      `const event = getFactory().newEvent('org.test', 'Made'); event.link = link; emit(event)`,
    ],
    ['returned', 'Ask', 'return link'],
    ['serialized', 'Run', 'JSON.stringify(getSerializer().toJSON(link))'],
  ]

  it.each(
    uses.flatMap(([use, type, code]) =>
      [cyclic, cyclicList, cyclicObject, linked(10_000)].map(
        (made) => [use, type, `${made};${code}`, made] as const,
      ),
    ),
  )(
    'resources that a processor creates are rejected with 422 when they are %s, if they are cyclic or too deep',
    async (_use, type, code) => {
      const refused = await errorOf(send('POST', `/api/${type}`, { code }))
      expect(refused.message).toMatch(
        /^nesting exceeds 64 levels$|circular|expected (?:type|a Resource)/,
      )
      expect([refused.status, refused.code]).toEqual([422, 'TRANSACTION_FAILED'])
      expect((await send('HEAD', '/api/Thing/deep')).status).toBe(404)
    },
  )

  it('resources that a processor creates are rejected if they have an unknown property, even with a cyclic value', async () => {
    const add = uses[0]?.[2] ?? ''
    const refused = await errorOf(
      send('POST', '/api/Run', { code: `${linked(1)}; link.unknown = link; ${add}` }),
    )
    expect([refused.status, refused.message]).toEqual([
      ...[422, '/link/unknown: Link has no property unknown'],
    ])
  })

  it('resources that a processor creates can be nested at most 64 levels deep', async () => {
    const returned = async (count: number) =>
      (await send('POST', '/api/Ask', { code: `${linked(count)}; return link` })).status
    expect([await returned(63), await returned(64)]).toEqual([200, 422])
  })
})

describe('`fields` in a filter', () => {
  it('applies to a request for a single resource', async () => {
    await send('POST', '/api/Thing', { id: 'f', tags: ['x'], parts: ['a'] })
    const read = async (filter: object) =>
      (await send('GET', `/api/Thing/f?filter=${encodeURIComponent(JSON.stringify(filter))}`)).json
    const fields = { id: true, tags: true }
    expect(await read({ fields })).toEqual({ id: 'f', tags: ['x'] })
    expect(await read({ fields: { tags: false, links: false, $class: false } })).toEqual({
      ...{ id: 'f', numbers: [], parts: ['resource:org.test.Thing#a'] },
    })
    const resolved = await read({ fields: { parts: true }, include: 'resolve' })
    expect(resolved.parts).toEqual([expect.objectContaining({ $class: 'org.test.Thing', id: 'a' })])
    expect((await send('GET', '/api/Thing/f?filter[fields][id]=true')).json).toMatchObject({
      id: 'f',
    })
  })
})

describe('a user ID', () => {
  it('a user ID can be issued only once in a network, even if the identity was revoked', async () => {
    const own = await gateway({ deploy: [networkOf(MODEL)] })
    await own.send('POST', '/api/Person', [{ name: 'ann' }, { name: 'bob' }])
    const issue = (name: string, userID: string) =>
      own.send('POST', '/api/system/identities/issue', {
        participant: `org.test.Person#${name}`,
        userID,
      })
    expect((await issue('ann', 'one')).status).toBe(200)
    for (const name of ['ann', 'bob']) {
      const { status, json } = await issue(name, 'one')
      expect([status, json.error.code, json.error.message]).toEqual([
        ...[409, 'RESOURCE_EXISTS', "the user ID 'one' has been issued already"],
      ])
    }
    expect((await issue('ann', 'two')).status).toBe(200)
    const [{ identityId }] = (
      await own.send('GET', '/api/system/identities?filter[where][name]=one')
    ).json
    await own.send('POST', `/api/system/identities/${identityId}/revoke`)
    expect((await issue('ann', 'one')).status).toBe(409)
    const racing = await Promise.all(['ann', 'bob', 'ann'].map((name) => issue(name, 'three')))
    expect(racing.map(({ status }) => status).toSorted()).toEqual([200, 409, 409])
  })

  it('a user ID can equal the id of a participant with a bound identity', async () => {
    const own = await gateway({ deploy: [networkOf(MODEL)] })
    await own.send('POST', '/api/Person', { name: 'ann' })
    const participant = 'org.test.Person#ann'
    const certificate = `sha256:${'a'.repeat(64)}`
    const identities = '/api/system/identities'
    expect(
      (await own.send('POST', `${identities}/bind`, { participant, certificate })).status,
    ).toBe(204)
    const issued = await own.send('POST', `${identities}/issue`, { participant, userID: 'ann' })
    expect(issued.status).toBe(200)
  })
})
