// A caller cannot tell a resource that he may not read from one that does not exist. Each run compares two networks with
// the same generated access rules. In one, the hidden resources exist; in the other, they were deleted. All replies to
// the caller and all of his events must be equal.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type GatewayNode, networkOf, startGateway } from '../support/gateway.ts'
import { roundsOf } from '../support/rounds.ts'

const MODEL = `namespace org.test
concept Content { o String owner o Integer size o Boolean secret }
asset Thing identified by id { o String id o String owner o Integer size o Boolean secret --> Thing next optional }
asset Note identified by id { o String id --> Thing about }
participant Person identified by name { o String name }
transaction Tell { o Content[] contents }
transaction Touch { --> Thing thing }
@returns(String[])
@commit(false)
transaction Look { o String id o Boolean removes }
event Told { o String owner o Integer size o Boolean secret }
event Done { }`
const LIB = `
async function onTell(tx) {
  for (const { owner, size, secret } of tx.contents) {
    const told = getFactory().newEvent('org.test', 'Told')
    Object.assign(told, { owner, size, secret })
    emit(told)
  }
  emit(getFactory().newEvent('org.test', 'Done'))
}
async function onTouch(tx) {
  tx.thing.size += 1
  await (await getAssetRegistry('org.test.Thing')).update(tx.thing)
}
async function onLook({ id, removes }) {
  const things = await getAssetRegistry('org.test.Thing')
  const ids = (list) => list.map((each) => each.getIdentifier()).join(' ')
  const failure = (promise) => promise.then((thing) => thing.owner, (error) => error.message)
  const owner = getFactory().newRelationship('org.test', 'Thing', id)
  return [
    ids(await things.getAll()), ids(await query('all')), String(await things.exists(id)),
    await failure(things.get(id)), await failure(things.resolve(id)), owner.isRelationship() + '',
    removes ? await failure(things.remove(id).then(() => ({ owner: 'removed' }))) : '',
  ]
}`
const QUERIES = `
query all { description: "-" statement: SELECT org.test.Thing ORDER BY [size DESC, id ASC] }
query of { description: "-" statement: SELECT org.test.Thing WHERE (owner == _$owner) }`

interface Content {
  readonly owner: string
  readonly size: number
  readonly secret: boolean
}

/** Conditions of rules, and their values: null if the condition throws. */
const CONDITIONS: readonly (readonly [string, (content: Content) => boolean | null])[] = [
  ['true', () => true],
  ['t.owner === p.getIdentifier()', ({ owner }) => owner === 'ann'],
  ['!t.secret', ({ secret }) => !secret],
  ['t.size > 2', ({ size }) => size > 2],
  ['t.secret ? nothing.there : true', ({ secret }) => (secret ? null : true)],
]

interface Rule {
  readonly participant: string
  readonly operations: string
  readonly resource: string
  readonly condition: number
  readonly allows: boolean
}

const anyRule: fc.Arbitrary<Rule> = fc.record({
  participant: fc.constantFrom(
    'ANY',
    'org.test.Person',
    'org.test.Person#ann',
    'org.test.Person#bob',
  ),
  operations: fc.constantFrom(
    'READ',
    'READ',
    'READ',
    'ALL',
    'READ, UPDATE',
    'CREATE',
    'CREATE, DELETE',
  ),
  resource: fc.constantFrom(
    ...['org.test.Thing', 'org.test.Thing', 'org.test.Thing#h1', 'org.test.Thing#v1'],
    ...['org.test.Told', 'org.test.*', '**'],
  ),
  condition: fc.nat(CONDITIONS.length - 1),
  allows: fc.boolean(),
})
const anyContent: fc.Arbitrary<Content> = fc.record({
  owner: fc.constantFrom('ann', 'bob'),
  size: fc.nat(4),
  secret: fc.boolean(),
})

const BEFORE = `
rule Own { description: "-" participant(p): "org.test.Person" operation: READ
  resource(r): "org.hyperledger.composer.system.HistorianRecord"
  condition: (r.participantInvoking.getIdentifier() === p.getIdentifier()) action: ALLOW }
rule Records { description: "-" participant: "org.test.Person" operation: READ
  resource: "org.hyperledger.composer.system.**" action: DENY }
rule Submit { description: "-" participant: "org.test.Person" operation: CREATE
  resource: "org.hyperledger.composer.system.**" action: ALLOW }
rule Telling { description: "-" participant: "org.test.Person" operation: ALL resource: "org.test.Tell" action: DENY }
rule Looking { description: "-" participant: "org.test.Person" operation: CREATE resource: "org.test.Look" action: ALLOW }
rule Touching { description: "-" participant: "org.test.Person" operation: CREATE resource: "org.test.Touch" action: ALLOW }
rule Noting { description: "-" participant: "org.test.Person" operation: ALL resource: "org.test.Note" action: ALLOW }
rule Done { description: "-" participant: "ANY" operation: READ resource: "org.test.Done" action: ALLOW }
rule Admin { description: "-" participant: "org.hyperledger.composer.system.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }
`

function ruleText(
  { participant, operations, resource, condition, allows }: Rule,
  at: number,
): string {
  const [text] = CONDITIONS[condition] ?? ['true']
  // Without a condition, the gateway decides for all resources of a type at once.
  const isPlain = condition === 0 || !/Thing|Told/.test(resource) || participant === 'ANY'
  const [p, t] = isPlain ? ['', ''] : ['(p)', '(t)']
  const given = isPlain ? '' : `condition: (${text})`
  const action = allows ? 'ALLOW' : 'DENY'
  return `rule R${at} { description: "-" participant${p}: "${participant}" operation: ${operations}
    resource${t}: "${resource}" ${given} action: ${action} }\n`
}

/** Whether ann may perform `operation` on the instance `id` of `type`. The first rule that matches decides. */
function mayAnn(
  rules: readonly Rule[],
  operation: string,
  type: string,
  id: string,
  content: Content,
) {
  for (const { participant, operations, resource, condition, allows } of rules) {
    if (operations !== 'ALL' && !operations.split(', ').includes(operation)) continue
    if (participant === 'org.test.Person#bob') continue
    const covered = ['**', 'org.test.*', `org.test.${type}`, `org.test.${type}#${id}`]
    if (!covered.includes(resource)) continue
    const isPlain = !/Thing|Told/.test(resource) || participant === 'ANY'
    const holds = isPlain ? true : CONDITIONS[condition]?.[1](content)
    if (holds ?? !allows) return allows
  }
  return false
}

/** Starts a network with these rules and ann, in which `change` is made of the hidden things. */
async function started(
  rules: readonly Rule[],
  visible: readonly Content[],
  hidden: readonly (readonly [Content, Content])[],
  exist: boolean,
) {
  const files = {
    'lib/logic.js': LIB,
    'queries.qry': QUERIES,
    'permissions.acl': BEFORE + rules.map(ruleText).join(''),
  }
  const about = { daicho: { strictReferences: true } }
  const node = await startGateway({ deploy: [networkOf(MODEL, files, about)] })
  const admin = async (method: string, path: string, body?: unknown) => {
    const { status, text } = await node.send(method, `/api/${path}`, body)
    expect([status < 300, text]).toEqual([true, text])
    return text
  }
  await admin('POST', 'Person', [{ name: 'ann' }, { name: 'bob' }])
  const identity = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { userSecret } = JSON.parse(await admin('POST', 'system/identities/issue', identity))
  await admin(
    'POST',
    'Thing',
    hidden.map(([content], at) => ({ id: `h${at}`, ...content })),
  )
  const things = visible.map((content, at) => ({
    id: `v${at}`,
    ...content,
    next: `h${at % hidden.length}`,
  }))
  await admin('POST', 'Thing', things)
  for (const [at, [, content]] of hidden.entries()) {
    if (exist) await admin('PUT', `Thing/h${at}`, content)
    else await admin('DELETE', `Thing/h${at}`)
  }
  return { node, admin, userSecret }
}

type Sent = readonly [string, string, unknown?, Record<string, string>?]

function requestsAbout(id: string, may: (operation: string) => boolean): Sent[] {
  const filter = (value: object) => `filter=${encodeURIComponent(JSON.stringify(value))}`
  const content = { owner: 'ann', size: 3, secret: false }
  const lists = [
    ...[{}, { where: { id } }, { where: { id: { inq: [id, 'v0'] } } }, { where: { next: id } }],
    ...[{ order: 'size DESC' }, { order: ['owner', 'size'], limit: 2 }, { limit: 1, skip: 1 }],
    ...[{ include: 'resolve' }, { fields: ['id', 'next'], include: 'resolve' }],
    ...[
      { where: { or: [{ size: { gt: 1 } }, { secret: true }] } },
      { where: { id: { like: 'h%' } } },
    ],
  ]
  const aggregates = [
    ...['count=true', 'group=owner&sum=size&avg=size', 'min=id&max=id', 'group=next,secret'],
    `count=true&${filter({ where: { id } })}`,
  ]
  const resolved = filter({ include: 'resolve' })
  const changes: Sent[] = [
    ['PATCH', `Thing/${id}`, { size: 1 }],
    ['DELETE', `Thing/${id}`],
    ['DELETE', `Thing/${id}`, undefined, { 'if-match': '"1.0"' }],
    ['DELETE', 'Thing', [id]],
    ['DELETE', 'Thing', ['v0', id]],
  ]
  const replacements: Sent[] = [
    ['PUT', `Thing/${id}`, content],
    ['PUT', `Thing/${id}`, content, { 'if-match': '"1.0"' }],
    ['PUT', `Thing/${id}`, { owner: 1 }],
    ['PUT', 'Thing', [{ id, ...content }]],
    [
      'PUT',
      'Thing',
      [
        { id: 'v0', ...content },
        { id, ...content },
      ],
    ],
  ]
  return [
    ...lists.map((one): Sent => ['GET', `Thing?${filter(one)}`]),
    ...aggregates.map((one): Sent => ['GET', `Thing/aggregate?${one}`]),
    ...['', '?order=newest&limit=1', '?after=1.0', '?after=9.9&order=newest'].map(
      (one): Sent => ['GET', `Thing/${id}/history${one}`],
    ),
    ...['GET', 'HEAD'].map((method): Sent => [method, `Thing/${id}`]),
    ['GET', `Thing/${id}?${resolved}`],
    ['GET', `Thing/v0?${resolved}`],
    ['GET', 'Thing/v0/history'],
    ['GET', 'queries/all'],
    ['GET', 'queries/of?owner=bob'],
    ['POST', 'system/query', { query: `SELECT org.test.Thing WHERE (id == '${id}')` }],
    ['GET', `system/historian?${filter({ include: 'resolve' })}`],
    ['GET', 'system/identities'],
    ['POST', 'Look', { id, removes: !may('DELETE') }],
    ['POST', 'Touch', { thing: id }],
    ['POST', 'Note', { id: `n-${id}`, about: id }],
    ...changes,
    // As in Composer, a caller who may create or replace what he may not read learns that it exists.
    ...(may('UPDATE') ? [] : replacements),
    ...(may('CREATE') ? [] : [['POST', 'Thing', { id, ...content }] as const]),
  ]
}

/** Replaces ids of transactions by their numbers in the order of appearance. */
function normalizer() {
  const seen = new Map<string, string>()
  return (text: string) =>
    text.replace(/[\da-f]{8}-[\da-f]{4}-7[\da-f-]{21}/g, (id) => {
      const known = seen.get(id) ?? `id-${seen.size}`
      seen.set(id, known)
      return known
    })
}

const HEADERS = ['x-total-count', 'etag', 'ledger-position', 'allow', 'content-type']

/** Returns ann's events and the replies to her requests. */
async function observed(
  { node, admin, userSecret }: Awaited<ReturnType<typeof started>>,
  requests: readonly Sent[],
  told: readonly Content[],
): Promise<string[]> {
  const normalized = normalizer()
  const seen: string[] = []
  for (const [method, path, body, headers] of requests) {
    const authorization = `Bearer ${userSecret}`
    const reply = await node.send(method, `/api/${path}`, body, { ...headers, authorization })
    const shown = HEADERS.map((name) => reply.headers.get(name)?.replace(/^\d+\//, ''))
    seen.push(
      normalized(
        `${method} ${path} ${JSON.stringify(body)} ${reply.status} ${shown} ${reply.text}`,
      ),
    )
  }
  await admin('POST', 'Tell', {
    contents: told.map((one) => ({ $class: 'org.test.Content', ...one })),
  })
  seen.push(...(await events(node, userSecret)).map(normalized))
  return seen
}

/** Returns the events that ann receives up to the last one. */
function events(node: GatewayNode, secret: string): Promise<string[]> {
  const socket = new WebSocket(`${node.url.replace('http', 'ws')}/?since=0&access_token=${secret}`)
  const texts: string[] = []
  return new Promise((resolve, reject) => {
    socket.on('error', reject)
    socket.on('message', (data) => {
      texts.push(String(data).replace(/#\d+"/, '"'))
      if (!String(data).includes('org.test.Done')) return
      socket.terminate()
      resolve(texts)
    })
  })
}

it('shows a caller nothing by which a resource that he may not read differs from a missing one', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyRule, { minLength: 1, maxLength: 5 }),
      fc.array(anyContent, { minLength: 2, maxLength: 4 }),
      fc.array(fc.tuple(anyContent, anyContent), { minLength: 2, maxLength: 3 }),
      fc.array(anyContent, { maxLength: 3 }),
      async (rules, visible, candidates, events) => {
        const isHidden = (type: string, id: string, content: Content) =>
          !mayAnn(rules, 'READ', type, id, content)
        const hidden = candidates.filter((contents) =>
          contents.every((content) => ['h0', 'h1'].every((id) => isHidden('Thing', id, content))),
        )
        // Tries other rules if they hide nothing.
        fc.pre(hidden.length > 0)
        const may = (operation: string) =>
          ['h0', 'h1'].some((id) =>
            [...hidden.flat(), { owner: 'ann', size: 3, secret: false }].some((content) =>
              mayAnn(rules, operation, 'Thing', id, content),
            ),
          )
        const requests = hidden.flatMap((_contents, at) => requestsAbout(`h${at}`, may))
        const seen: string[][] = []
        for (const exist of [true, false]) {
          const network = await started(rules, visible, hidden, exist)
          const told = events.filter((content) => exist || !isHidden('Told', '', content))
          seen.push(await observed(network, requests, told))
          await network.node.close()
        }
        expect(seen[0]).toEqual(seen[1])
      },
    ),
    { numRuns: roundsOf(5), endOnFailure: true },
  )
})
