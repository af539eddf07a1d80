import type { Json } from '../../base/json.ts'
import { parseStrictJson, StrictJsonError } from '../../base/strict-json.ts'
import type { Aggregated } from '../../client/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { callNode } from '../node/node-client.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { formatTable, print } from '../output/output.ts'

const FUNCTIONS = ['sum', 'avg', 'min', 'max'] as const
type Lists = { readonly [Name in (typeof FUNCTIONS)[number] | 'group']?: string }

interface Flags extends NodeFlags, Lists {
  readonly url: string
  readonly where?: string
}

export async function runCount(db: string, flags: Flags): Promise<void> {
  const { json, where } = flags
  const lists = (['group', ...FUNCTIONS] as const).flatMap((name) => {
    const list = flags[name]
    return list === undefined ? [] : [[name, list]]
  })
  if (where !== undefined) parseWhereFlag(where)
  const filter = where === undefined ? {} : { filter: `{"where":${where}}` }
  // Without groups and functions, the node can count with an index.
  if (lists.length === 0 && json !== true) {
    const query = { count: 'true', limit: 1, ...filter } as const
    const reply = await callNode(flags, 'GET /api/{db}', { path: { db }, query })
    return print(false, null, `${reply.count}`)
  }
  const query = { db, ...Object.fromEntries(lists), ...filter }
  const reply = await callNode(flags, 'GET /api/config/aggregate', { query })
  print(json, reply, formatGroups(reply))
}

/** Returns the value of the flag --where. Reports its syntax errors here, with positions in the text of the flag. */
export function parseWhereFlag(where: string): Json {
  try {
    return parseStrictJson(Buffer.from(where))
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error
    const message = `--where: ${error.message.replace('the body is', 'it is')}`
    throw new Exit(EXIT.usage, message, { cause: error })
  }
}

/** Returns a line with the column names, followed by one line per group. */
function formatGroups({ groups, height, consistent }: Aggregated): string {
  const rows = groups.map(({ group, count, ...functions }) => {
    const values = FUNCTIONS.flatMap((name) =>
      Object.entries(functions[name] ?? {}).map(([path, value]) => [`${name} ${path}`, value]),
    )
    return [...Object.entries(group), ['count', count], ...values]
  })
  const [first] = rows
  if (first === undefined) return 'no items'
  const text = formatTable([
    first.map(([name]) => String(name)),
    ...rows.map((row) => row.map(([, value]) => formatCell(value ?? null))),
  ])
  const changed = `(blocks were added while the items were read; the first read was at height ${height})`
  return consistent ? text : `${text}\n${changed}`
}

/** Returns a value as text. Strings have quotes only if they look like another value or have several lines. */
function formatCell(value: string | number | boolean | null): string {
  if (typeof value !== 'string') return String(value)
  return /^[^\s"][^\n"]*$/.test(value) && !/^(null|true|false|-?\d.*)$/.test(value)
    ? value
    : JSON.stringify(value)
}
