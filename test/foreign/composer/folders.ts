// Deploys each network in the sub-folders of a folder on Composer 0.20.9 and on daicho, sends valid generated resources,
// all transactions and all named queries to both, and prints a table and all differences that `explained.ts` does not
// explain. After a difference, the network is deployed again without the request that differs.
// Usage: node scripts/run.mjs test/foreign/composer/folders.ts <folder> [seed] [Composer's packages]
import '../../support/built-threads.ts'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkNetwork, type NetworkDefinition } from '../../../src/network/index.ts'
import type { Property } from '../../../src/network/model/model.ts'
import { parameterValue } from './calls.ts'
import { compare, summarize } from './compare.ts'
import { ComposerSide } from './composer.ts'
import { DaichoSide } from './daicho.ts'
import { type Case, formatFiles, type Request } from './generate.ts'
import { Instances, type Type } from './models.ts'
import { Random } from './random.ts'

const [folder = '', seed = '1', composer = '/tmp/composer-oracle'] = process.argv.slice(2)

/** The ids of all resources, and in all relationships. */
const RESOURCE_IDS = ['a', 'b', 'c']
const SUBMISSIONS = 4
const DEPLOYMENTS_MAX = 40

/** Returns the network in a folder, without requests. */
function readCase(path: string): Case {
  const paths = readdirSync(path, { recursive: true, encoding: 'utf8' }).sort()
  const texts = (ending: string) =>
    paths
      .filter((each) => each.endsWith(ending))
      .map((each) => readFileSync(join(path, each), 'utf8'))
  const [rules] = texts('permissions.acl')
  return {
    ...{ seed: Number(seed), kinds: {}, identifiers: {}, features: [], requests: [], people: null },
    ...{ models: texts('.cto'), rules: rules === undefined ? null : [rules] },
    ...{ queries: texts('queries.qry'), scripts: texts('.js').map(withFixedValues) },
  }
}

/** Returns a script with the same times and random numbers on both. */
function withFixedValues(script: string): string {
  return script
    .replaceAll('Math.random()', '0.421875')
    .replaceAll(/Date\.now\(\)/g, '1500000000000')
    .replaceAll(/new Date(?:\(\)|(?!\())/g, 'new Date(1500000000000)')
}

/** Returns the types of a model, with system types, as the generator of instances needs them. */
function toTypes({ model }: NetworkDefinition): Type[] {
  const types = new Map<string, Type>()
  const declared = [...model.types()]
  // Parents first: a type is added when its parent is known.
  while (types.size < declared.length) {
    for (const each of declared) {
      const { superType } = each
      const parent = superType === null ? null : (types.get(superType.qualifiedName) ?? null)
      if (superType !== null && parent === null) continue
      types.set(each.qualifiedName, {
        ...{ kind: each.kind, namespace: each.namespace, name: each.name, abstract: each.abstract },
        ...{ qualified: each.qualifiedName, id: each.identifier, values: [...each.values], parent },
        fields: [...each.properties.values()]
          .filter(({ name }) => parent === null || !superType?.properties.has(name))
          .filter(({ name }) => !['transactionId', 'eventId', 'timestamp'].includes(name))
          .map((property) => ({
            ...{ name: property.name, array: property.array, optional: property.optional },
            ...{ relationship: property.relationship, options: '' },
            type: property.primitive ?? property.type?.qualifiedName ?? '',
            accepts: (value: unknown) => isUsable(property, value),
          })),
      })
    }
  }
  return [...types.values()]
}

/** Scripts may repeat something as often as a number says, and Composer has no deadline. */
const NUMBER_MAX = 1_000

function isUsable({ range, regex }: Property, value: unknown): boolean {
  if (typeof value !== 'number') return regex === null || regex.test(String(value))
  const { lower, upper } = range ?? { lower: null, upper: null }
  return value >= (lower ?? -NUMBER_MAX) && value <= (upper ?? NUMBER_MAX)
}

const SYSTEM = 'org.hyperledger.composer.system'

function withRequests(network: Case, definition: NetworkDefinition): Case {
  const random = new Random(Number(seed))
  const types = toTypes(definition)
  const instances = new Instances(random, types, RESOURCE_IDS)
  const concrete = types.filter(
    ({ abstract, kind, namespace }) => !abstract && kind !== 'concept' && namespace !== SYSTEM,
  )
  const registered = concrete.filter(({ kind }) => kind === 'asset' || kind === 'participant')
  const [person] = concrete.filter(({ kind }) => kind === 'participant')
  const people =
    person === undefined
      ? null
      : {
          ...{ type: person.qualified, ids: ['a', 'b'] },
          bodies: { a: instances.make(person, 'a', 0), b: instances.make(person, 'b', 0) },
        }
  const created = registered.flatMap((type) =>
    RESOURCE_IDS.filter((id) => type !== person || id === 'c').map(
      (id): Request => ({
        ...{ kind: 'create', caller: null, type: type.qualified },
        body: instances.make(type, id, 0),
      }),
    ),
  )
  const callers = people === null ? [null] : [null, null, 'a']
  const lists = registered.map(
    ({ qualified }): Request => ({ kind: 'list', caller: null, type: qualified }),
  )
  const submitted = concrete
    .filter(({ kind }) => kind === 'transaction')
    .flatMap((type) =>
      random.several(SUBMISSIONS, SUBMISSIONS, (): Request => {
        const body = instances.make(type, null, 0)
        return { kind: 'submit', caller: random.pick(callers), type: type.qualified, body }
      }),
    )
  const queried = [...definition.queries].flatMap(([name, { parameters }]) =>
    random.several(2, 2, (): Request => {
      const given = [...parameters].map(([parameter, type]) => {
        if (type === 'count') return [parameter, parameterValue(random, type)] as const
        const target = `resource:${type.type?.qualifiedName}#a`
        const others = type.relationship ? target : [...(type.type?.values ?? [])].join()
        const values = type.primitive ?? others
        return [parameter, parameterValue(random, values)] as const
      })
      return { kind: 'query', caller: null, name, parameters: Object.fromEntries(given) }
    }),
  )
  const seen = people === null ? [] : lists.map((list) => ({ ...list, caller: 'a' }))
  return {
    ...network,
    kinds: Object.fromEntries(types.map(({ qualified, kind }) => [qualified, kind])),
    identifiers: Object.fromEntries(types.map(({ qualified, id }) => [qualified, id])),
    people,
    requests: [
      ...created,
      ...lists,
      ...seen,
      ...queried,
      ...random.shuffled(submitted).flatMap((request) => [request, ...lists]),
      ...queried,
    ],
  }
}

const print = console.log
// Composer runs scripts in this process, with its console.
for (const level of ['log', 'error', 'warn', 'info', 'debug'] as const) console[level] = () => {}
// Composer leaves some rejections unhandled, for example of a processor that awaits nothing; they change no answer.
let rejections = 0
process.on('unhandledRejection', () => {
  rejections += 1
})
const one = new ComposerSide(composer)
const other = await DaichoSide.start()
let unexplained = 0
for (const { name } of readdirSync(folder, { withFileTypes: true }).filter((each) =>
  each.isDirectory(),
)) {
  const plain = readCase(join(folder, name))
  if (plain.models.length === 0) continue
  const files = [...formatFiles(plain, 'folder')].map(
    ([path, text]) => [path, Buffer.from(text)] as const,
  )
  const { definition } = checkNetwork({ files: new Map(files), packed: null })
  let network = definition === null ? plain : withRequests(plain, definition)
  const submitted = new Set(
    network.requests.flatMap((each) => (each.kind === 'submit' ? each.type : [])),
  )
  const found: string[] = []
  let ran = 0
  for (let deployments = 0; deployments < DEPLOYMENTS_MAX; deployments += 1) {
    const compared = await compare(network, one, other)
    ran = Math.max(ran, compared.ran)
    if (compared.difference !== null) found.push(summarize(compared.difference))
    found.push(...compared.explained.map((key) => `explained: ${key}`))
    const { end, difference } = compared
    // In Composer, a participant who may not READ the network itself cannot connect.
    if (difference?.request === null && network.people !== null) {
      const requests = network.requests.filter(({ caller }) => caller === null)
      network = { ...network, people: null, requests }
      continue
    }
    if (end === null) break
    network = { ...network, requests: network.requests.filter((each) => each !== end) }
  }
  const differing = [...new Set(found)]
  const open = differing.filter((text) => !text.startsWith('explained')).length
  unexplained += open
  const state = definition === null ? 'refused' : 'deployed'
  const cells = [name, state, `${submitted.size} types`, `${ran} ran`, `${open} open`]
  print(cells.join(' | '))
  for (const text of differing) print(`  ${text}`)
}
await other.close()
print(
  `${unexplained} unexplained differences; ${rejections} rejections that Composer left unhandled`,
)
process.exit(unexplained === 0 ? 0 : 1)
