// Which functions of `lib/` run for a transaction, as in Hyperledger Composer 0.20.9.
import { describe, expect, it } from 'vitest'
import { checkNetwork, type NetworkDefinition } from '../../src/network/index.ts'
import { gateway, networkOf } from '../support/gateway.ts'

const MODEL = `namespace org.bar
asset Till identified by id { o String id o Integer cents default=0 }
transaction Sale { --> Till till o Integer cents }
transaction Refund extends Sale { }`

const RULE = 'description: "" participant: "ANY" operation: ALL resource: "**" action: ALLOW'
const BODY = `{ tx.till.cents += tx.cents; await (await getAssetRegistry('org.bar.Till')).update(tx.till) }`
const SALE = '@param {org.bar.Sale} tx the sale\n * @transaction'

const network = (lib: string, acl = `rule All { ${RULE} }`) =>
  networkOf(MODEL, { 'lib/till.js': lib, 'permissions.acl': acl })

/** Submits a sale of 5 cents, and returns the status and the cents in the till. */
async function sold(definition: NetworkDefinition, type = 'Sale') {
  const node = await gateway({ deploy: [definition] })
  await node.send('POST', '/api/Till', { id: 'front' })
  const { status } = await node.send('POST', `/api/${type}`, { till: 'front', cents: 5 })
  return { status, cents: (await node.send('GET', '/api/Till/front')).json.cents }
}

const RUNS: [string, string][] = [
  ['a doc comment with its tag and its type', `/** ${SALE} */\nasync function ring(tx) ${BODY}`],
  ['a comment that starts with one star', `/* ${SALE} */\nasync function ring(tx) ${BODY}`],
  ['the name on<Type>, without a comment', `async function onSale(tx) ${BODY}`],
  [
    'a comment after the end of another function',
    `function a() { return {} } /* ${SALE} */ async function ring(tx) ${BODY}`,
  ],
  [
    'a comment after strings, templates and patterns that look like comments',
    `function make({ a, b}) { return \`\${a}/*\${b}\` }\nconst s = "/*", t = \`\${"\`"} /* \${1 / 2}\`, r = /[/*'"]/.test(s)\n/** ${SALE} */\nasync function ring(tx) ${BODY}`,
  ],
  [
    'its name in a script with "use strict" and undeclared variables',
    `'use strict'; async function onSale(tx) { total = tx.cents; tx.cents = total; ${BODY} }`,
  ],
]

it.each(RUNS)('a function runs for a transaction because of %s', async (_, lib) => {
  expect(await sold(network(lib))).toEqual({ status: 200, cents: 5 })
})

it('a function does not run for a subtype of its transaction', async () => {
  const refund = SALE.replace('Sale', 'Refund')
  const lib = `/** ${SALE} */ async function ring(tx) ${BODY}\n/** ${refund} */ async function undo(tx) ${BODY}`
  expect(await sold(network(lib), 'Refund')).toEqual({ status: 200, cents: 5 })
})

describe('the check of a network', () => {
  const warnings = (lib: string, rules = `rule All { ${RULE} }`) => {
    const { findings } = checkNetwork({
      packed: null,
      files: new Map(
        Object.entries({
          'package.json': '{"name":"bar","version":"1.0.0"}',
          'models/bar.cto': MODEL.replace(/transaction Refund.*/, 'concept Size {}'),
          'lib/till.js': lib,
          'permissions.acl': rules,
        }).map(([path, text]) => [path, Buffer.from(text)] as const),
      ),
    })
    return findings.map(({ severity, line, message }) => `${severity} ${line} ${message}`)
  }
  const unprocessed = 'warning 3 no function processes org.bar.Sale, so it is always rejected'

  it('warns of a transaction that no function processes, and of a function that nobody calls', () => {
    const lib = 'function helper() { return part() }\nfunction part() {}'
    const uncalled = 'warning 1 nothing calls helper, and it processes no transaction'
    expect(warnings(lib)).toEqual([uncalled, unprocessed])
    expect(warnings(`${lib}\nsetUp(helper)`)).toEqual([unprocessed])
    const rule = `rule R { ${RULE.replace('action', 'condition: (helper()) action')} }`
    expect(warnings(lib, rule)).toEqual([unprocessed])
  })

  it.each([
    ['its condition is false', RULE.replace('action', 'condition: (false) action')],
    ['its resource covers no type', RULE.replace('"**"', '"org.bar.Size"')],
    ['its participant covers no type', RULE.replace('ANY', 'org.bar.*')],
    ['rule First decides first', RULE.replace('"**"', '"org.bar.Till"').replace('ALL', 'CREATE')],
    ['rule First decides first', RULE.replace('"**"', '"org.bar.Till#a"').replace('ALL', 'READ')],
  ])('warns of a rule that never matches: %s', (reason, rule) => {
    const first = RULE.replace('"**"', '"org.bar.*"').replace('ALL', 'CREATE, READ')
    const found = warnings('function onSale() {}', `rule First { ${first} }\nrule R { ${rule} }`)
    expect(found).toEqual([expect.stringContaining(`warning 2 rule R never matches: ${reason}`)])
    const last = `rule First { ${first} }\nrule R { ${RULE} }`
    expect(warnings('function onSale() {}', last)).toEqual([])
  })

  it('warns of an empty file of rules at its first line', () => {
    expect(warnings('function onSale() {}', '')).toEqual([
      'warning 1 the file is empty, so everyone may do everything',
    ])
  })

  it.each([
    ['an arrow function', `/** ${SALE} */\nconst ring = async (tx) => ${BODY}`],
    ['a function in a block', `{ /** ${SALE} */ function ring(tx) {} }`],
    [
      'another comment before the function',
      `/** ${SALE} */\n// eslint-disable-line\nfunction ring(tx) {}`,
    ],
  ])('warns of a tag that no function has: %s', (_, lib) => {
    const found = warnings(lib)
    expect(found).toContain(unprocessed)
    expect(found[0]).toMatch(/^warning 1 no top-level function follows this @transaction/)
  })

  it('ignores functions that are commented out', () => {
    const old = `/** ${SALE} */\nasync function old(tx) {}`.replace(/^/gm, '// ')
    expect(warnings(`${old}\nfunction onSale() {}`)).toEqual([])
  })

  it('warns of a private processor, of a generator, and of a processor that is declared twice', () => {
    const lib = `/** @private\n * ${SALE} */ function a() {}\n/** ${SALE} */ function* b() {}
      /** ${SALE} */ function c() {}\n/** ${SALE} */ function c() {}`
    expect(warnings(lib)).toEqual([
      'warning 0 the processor c is declared twice: its last declaration runs twice',
      'warning 3 a has the tag @private, so it is no processor',
      'warning 5 the processor b is a generator: its body never runs',
    ])
  })
})

it('a rule needs no space after the words of its grammar', () => {
  const rules = `ruleAll { ${RULE} }ruleRead{${RULE.replace('ALL ', 'READ,UPDATE')}}`
  expect(network('', rules).rules).toMatchObject([
    { name: 'All', operations: ['CREATE', 'READ', 'UPDATE', 'DELETE'] },
    { name: 'Read', operations: ['READ', 'UPDATE'] },
  ])
})

it('a network is deployed even if its rules give the administrator nothing', async () => {
  const node = await gateway({
    deploy: [network('', `rule None { ${RULE.replace('**', 'org.bar.Till')} }`)],
  })
  expect((await node.send('POST', '/api/Till', { id: 'front' })).status).toBe(403)
})

it('an empty file of rules allows everything, as no file does, but a file of comments is an error', async () => {
  const lib = `async function onSale(tx) ${BODY}`
  expect(await sold(network(lib, ''))).toEqual({ status: 200, cents: 5 })
  expect(() => network(lib, '// no rules yet')).toThrow('expected “rule”')
})

it('a condition that ends in a comment is evaluated', async () => {
  const condition = "condition: (r.id === 'front' // the only till\n) action: ALLOW"
  const all = (name: string, resource: string, rest: string) =>
    `rule ${name} { description: "" participant: "ANY" operation: ALL ${resource} ${rest} }\n`
  const rules =
    all('Front', 'resource(r): "org.bar.Till"', condition) +
    all('None', 'resource: "org.bar.Till"', 'action: DENY') +
    all('All', 'resource: "**"', 'action: ALLOW')
  const lib = `async function onSale(tx) ${BODY}`
  expect(await sold(network(lib, rules))).toEqual({ status: 200, cents: 5 })
})

it('ANY binds no variable, so a condition that uses one allows nothing', async () => {
  const rule = (participant: string) =>
    `rule R { description: "" participant(p): "${participant}" operation: ALL resource: "org.bar.Till"
      condition: (p.getIdentifier() === 'admin') action: ALLOW }
     rule Rest { ${RULE.replace('**', 'org.hyperledger.**')} }`
  const created = async (participant: string) => {
    const node = await gateway({ deploy: [network('', rule(participant))] })
    return (await node.send('POST', '/api/Till', { id: 'front' })).status
  }
  expect(await created('ANY')).toBe(403)
  expect(await created('**')).toBe(200)
})

it.each([
  ['a word of JavaScript as a variable', 'resource(class): "**" condition: (true)'],
  ['a statement', 'resource(r): "**" condition: (true; false)'],
  ['a spread', 'resource(r): "**" condition: (...r)'],
])('a condition is rejected for %s, because the sandbox could not compile it', (_, parts) => {
  const rules = `rule R { description: "" participant: "ANY" operation: ALL ${parts} action: ALLOW }`
  expect(() => network('', rules)).toThrow('the condition is not a JavaScript expression')
})
