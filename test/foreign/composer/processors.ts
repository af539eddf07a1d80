// Generates scripts with processors: which of their functions run, and how they read and write resources.
import { allFields, type Field, Instances, type Type } from './models.ts'
import type { Random } from './random.ts'

/** Returns scripts whose functions emit their names, so that it shows which of them run, and how often. */
export function generateProcessors(
  random: Random,
  types: readonly Type[],
  bodies: Random,
): string[] {
  const transactions = types.filter(({ kind }) => kind === 'transaction')
  // A second processor of a transaction would see the changes of the first one, which differs on purpose.
  const writing = new Set<Type>()
  const bodyFor = (type: Type) => {
    const isSecond = writing.has(type)
    writing.add(type)
    return body(bodies, types, type, isSecond)
  }
  return random.several(1, 2, (file) => {
    const functions = random.several(0, 5, (at) =>
      generateFunction(random, transactions, `fn${file}_${at}`, bodyFor),
    )
    return `${random.pick(['', "'use strict';\n", '/* header */\n', '// header\n', 'var shared = 1\n'])}${functions.join('\n')}\n`
  })
}

const BODY = (name: string) =>
  `{ const e = getFactory().newEvent('org.oracle', 'Ran'); e.name = '${name}'; emit(e) }`

function generateFunction(
  random: Random,
  transactions: readonly Type[],
  name: string,
  bodyFor: (type: Type) => string | null,
): string {
  const type = random.pick(transactions)
  const named = random.chance(30) ? `on${type.name}` : name
  const parameter = `@param {${type.qualified}} tx the transaction`
  const comment = random.pick([
    `/**\n * Does it.\n * ${parameter}\n * @transaction\n */\n`,
    `/**\n * ${parameter}\n * @transaction\n */\n`,
    `/* ${parameter}\n @transaction */\n`,
    `/** ${parameter} @transaction */ `,
    `// ${parameter} @transaction\n`,
    `// @transaction\n`,
    `/**\n * ${parameter}\n */\n`,
    `/**\n * @transaction\n * ${parameter}\n * @return {Promise}\n */\n`,
    `/**\n * ${parameter}\n * @transaction\n */\n// another comment\n`,
    `/**\n * ${parameter}\n * @transaction\n * @private\n */\n`,
    `/**\n * @private\n * ${parameter}\n * @transaction\n */\n`,
    `/**\n * ${parameter}\n * @transactions\n */\n`,
    `/**\n * ${parameter}\n * mail@transaction.org\n */\n`,
    `/**\n * @param {${type.qualified}} tx - the one\n * @param {String} other x\n */\n`,
    `/**\n * @param {!${type.qualified}} tx x\n * @transaction\n */\n`,
    `/**\n * ${parameter}\n * @Transaction\n */\n`,
    '',
    '',
  ])
  const head = random.pick(['async function', 'function', 'async  function'])
  const body = bodyFor(type)?.replaceAll('NAME', named) ?? BODY(named)
  const declared = `${comment}${head} ${named}(tx) ${body}`
  const kind = random.below(20)
  if (kind === 0) return `/*\n${declared.replaceAll('*/', '* /')}\n*/`
  if (kind === 1) return declared.replace(/^/gm, '// ')
  if (kind === 2) return `${comment}const ${name} = async (tx) => ${body}`
  if (kind === 3) return `{ ${declared} }`
  return declared
}

const EMIT = (value: string) =>
  `const e = getFactory().newEvent('org.oracle', 'Ran'); e.name = ${value}; emit(e)`

/** Shows all members of the transaction. Nested resources show only their ids. */
const SHOW_ALL =
  'Object.keys(tx).filter((key) => !/^(?:\\$|timestamp$|transactionId$)/.test(key)).sort().map((key) => key + show(tx[key])).join()'

/** Returns the body of a processor that reads or writes resources; null for one that only emits its name. */
function body(
  random: Random,
  types: readonly Type[],
  type: Type,
  isSecond: boolean,
): string | null {
  if (random.chance(15)) return null
  if (isSecond) return null
  if (random.chance(15)) return `{ ${EMIT(`'NAME' + ${SHOW_ALL}`)} }`
  const links = allFields(type).filter(({ relationship, array }) => relationship && !array)
  const link = links.length > 0 && random.chance(70) ? random.pick(links) : null
  const registered = types.filter(({ kind }) => kind === 'asset' || kind === 'participant')
  const target =
    types.find(({ qualified }) => qualified === link?.type) ??
    random.pick(registered.filter(({ abstract }) => !abstract))
  const fields = allFields(target).filter(({ name }) => name !== target.id)
  const lines = random.several(0, 3, () =>
    fields.length === 0 ? '' : change(random, types, type, random.pick(fields), link !== null),
  )
  const end = random.pick([
    ...['await r.update(one)', 'await r.update(one)', 'await r.updateAll([one])'],
    ...['await r.remove(one)', 'await r.update(read)', 'one.validate()', ''],
    'await r.add(getFactory().newResource(one.getNamespace(), one.getType(), "made"))',
  ])
  const registry = `get${target.kind === 'asset' ? 'Asset' : 'Participant'}Registry`
  const code = [
    ...(link === null
      ? [`const r = await ${registry}('${target.qualified}')`, "const one = await r.get('a')"]
      : [
          `const one = tx.${link.name}`,
          `const r = await ${registry}(one.getFullyQualifiedType())`,
        ]),
    ...lines,
    end.replace('read', link === null ? "await r.get('b')" : `tx.${link.name}`),
    EMIT("'NAME' + show(one)"),
  ]
  return `{ return (async () => { ${code.filter((line) => line !== '').join('; ')} })() }`
}

/**
 * Returns code that reads or changes a member of `one`, as processors of real networks do. Only if `isResolved` is set,
 * the relationships of `one` have members in Composer.
 */
function change(
  random: Random,
  types: readonly Type[],
  from: Type,
  field: Field,
  isResolved: boolean,
): string {
  const { name, type, array, relationship } = field
  const same = allFields(from).filter((each) => each.type === type && each.array === array)
  const given = same.length > 0 && random.chance(60) ? `tx.${random.pick(same).name}` : null
  const value = given ?? literal(random, types, field)
  const at = `one.${name}`
  if (array) {
    const element = given === null ? value : `${given}[0]`
    return random.pick([
      `${at} = ${given ?? `[${value}]`}`,
      `if (!${at}) ${at} = []; ${at}.push(${element})`,
      `if (${at}) ${at} = ${at}.filter((each, at) => at > 0)`,
      `${at} = (${at} || []).concat(${element})`,
      `one.addArrayValue('${name}', ${element})`,
    ])
  }
  const held = types.find(({ qualified }) => qualified === type)
  const inner =
    held?.kind === 'concept' || (relationship && isResolved) ? allFields(held ?? from) : []
  const usable = inner.filter((each) => !each.array && !each.relationship && each.name !== held?.id)
  const nested = usable.length > 0 && random.chance(50) ? random.pick(usable) : null
  if (nested !== null) {
    return relationship
      ? `if (${at}) { ${EMIT(`'NAME' + show(${at}.${nested.name})`)} }`
      : `if (${at}) ${at}.${nested.name} = ${literal(random, types, nested)}`
  }
  const numbers = ['Integer', 'Long', 'Double']
  if (numbers.includes(type) && random.chance(50)) {
    return random.pick([
      `${at} += 1`,
      `${at}++`,
      `${at} = ${at} / 4`,
      `${at} = ${at} ? ${at} - 2 : 2`,
      `${at} = parseInt(${at}) || 3`,
    ])
  }
  if (type === 'String' && random.chance(30)) return `${at} += 'x'`
  return random.pick([
    `${at} = ${value}`,
    `${at} = ${value}`,
    `one.setPropertyValue('${name}', ${value})`,
    `if (${at}) ${at} = ${value}`,
    `delete ${at}`,
    `${at} = null`,
    `${at} = undefined`,
    ...(relationship ? [`${at} = getCurrentParticipant()`, `${at} = one`] : []),
  ])
}

/** Returns an expression for a valid value. */
function literal(random: Random, types: readonly Type[], field: Field): string {
  const { type, relationship } = field
  const declared = types.find(({ qualified }) => qualified === type)
  const names = `'${declared?.namespace}', '${declared?.name}'`
  if (relationship) return `getFactory().newRelationship(${names}, '${random.pick(['a', 'b'])}')`
  const instances = new Instances(random, types, ['a', 'b'])
  const value = instances.value({ ...field, array: false })
  const json = JSON.stringify(value)
  if (declared !== undefined && declared.kind !== 'enum') {
    const made = { $class: declared.qualified, ...Object(value) }
    return `getSerializer().fromJSON(${JSON.stringify(made)})`
  }
  return type === 'DateTime' ? `new Date(${json})` : json
}
