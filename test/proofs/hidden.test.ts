// A node, or a proxy before it, that hides changes. Every reply is one that the node has given at some time, a mixture of
// several, or a changed one. Whatever is accepted must be true. ATTEMPTS and SEED make a longer run.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { canonicalJson } from '../../src/base/canonical-json.ts'
import type { Json } from '../../src/base/json.ts'
import {
  formatItemState,
  nodeVerifySignature,
  ProofError,
  parseVerifierKey,
  type VerifierKey,
  verifyStateList,
  verifyStateProof,
} from '../../src/chain/index.ts'
import { VerifyingReader } from '../../src/chain/portable.ts'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { runHere } from '../support/command.ts'
import { isOnDatabases } from '../support/engine.ts'
import { hideItem } from '../support/hidden-items.ts'
import { modelValue, replayBlocks, type StateModel } from '../support/independent-state.ts'
import { Dice } from '../support/ledger-load.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { hasPython, LinesOfPython, pythonNote } from '../support/python.ts'
import { roundsOf } from '../support/rounds.ts'

const DATABASES = ['a', 'b']
const IDS = ['x', 'y', 'z', 'none']
const ATTEMPTS = Number(process.env.ATTEMPTS ?? roundsOf(500))
const SEED = Number(process.env.SEED ?? 1)
/** Attempts between two checks by all programs, because a long run does not fit into memory. */
const ATTEMPTS_AT_A_TIME = 2_000

async function textOf(node: LedgerNode, path: string): Promise<string> {
  const { status, text } = await node.send('GET', path)
  expect([path, status]).toEqual([path, 200])
  return text
}

/** Every how many files are also given to \`daicho verify\`. */
const VERIFIED_EVERY = process.env.ATTEMPTS === undefined ? 20 : 1

/** Verifies the file in each line, and prints the answer in a line. */
const PROGRAM = `
import sys, json
from daicho.verify_state import ProofError, verify_list, verify_state
def value(proven):
    attachments = f'"attachments":"{proven.attachments}",' if proven.attachments else ""
    return f'{{{attachments}"position":"{proven.position}"}}'
for line in sys.stdin:
    file = json.loads(line).encode()
    try:
        if file.startswith(b"daicho/state-list"):
            items = verify_list(file, sys.argv[1]).items
            answer = "absent-database" if items is None else sorted(items.items())
        else:
            proven = verify_state(file, sys.argv[1])
            answer = [value(proven), proven.entry["item"]] if proven.entry else "absent" if proven.has_database else "absent-database"
    except ProofError as error:
        assert "\\n" not in str(error) and len(str(error)) > 10
        answer = "refused"
    print(json.dumps(answer, ensure_ascii=False, separators=(",", ":")), flush=True)
`

/** A question to the node: what is item `id` of `db`, or which items does `db` have (`id` is null). */
interface Question {
  readonly db: string
  readonly id: string | null
}

function pathTo({ db, id }: Question): string {
  return id === null ? `/api/${db}?proof=1` : `/api/${db}/${id}/proof?current=1`
}

/** The true answer, as a text: the values in the map by the reference page, and the item as the node reads it. */
async function truthAbout(
  node: LedgerNode,
  model: StateModel,
  { db, id }: Question,
): Promise<string> {
  const items = model.get(db)?.items
  if (items === undefined) return 'absent-database'
  if (id === null)
    return JSON.stringify([...items.keys()].sort().map((one) => [one, modelValue(items.get(one))]))
  const value = modelValue(items.get(id))
  if (value === null) return 'absent'
  return JSON.stringify([value, (await node.send('GET', `/api/${db}/${id}`)).json.item])
}

interface Kept extends Question {
  readonly file: string
}

interface Collected {
  readonly kept: readonly Kept[]
  /** The true answers by size of the state and question. */
  readonly truths: ReadonlyMap<string, string>
  /** Size of the newest state. */
  readonly size: number
  readonly key: VerifierKey
  readonly vkey: string
}

const QUESTIONS: readonly Question[] = DATABASES.flatMap((db) =>
  [...IDS, null].map((id) => ({ db, id })),
)

function nameOf({ db, id }: Question, size: number): string {
  return JSON.stringify([size, db, id])
}

/** Changes items and databases of `node` in rounds; keeps all proofs of each round. */
async function collect(node: LedgerNode, rounds: number, dice: Dice): Promise<Collected> {
  const kept: Kept[] = []
  const truths = new Map<string, string>()
  const model: StateModel = new Map()
  let replayed = 0
  const vkey = (await textOf(node, `/api/ledgers/${node.service.serverId}/vkey`)).trim()
  for (let round = 0; round < rounds; round += 1) {
    for (let n = 0; n < 6; n += 1) {
      const { db, id } = QUESTIONS[dice.below(QUESTIONS.length)] ?? { db: 'a', id: null }
      const kind = dice.below(12)
      if (kind === 0) await node.send('DELETE', `/api/${db}`)
      await node.send('POST', `/api/${db}`)
      if (kind === 1) await node.send('DELETE', `/api/${db}/${id ?? 'x'}`)
      else if (id !== null && id !== 'none') {
        const path = `/api/${db}/${id}`
        await node.send('POST', `/api/${db}`, { id, round: -1 })
        if (kind < 7) await node.send('POST', path, { round, n })
        else await node.send('PUT', `${path}/attachments/a`, `${round}.${n}`)
        if (kind > 9) await node.send('DELETE', `${path}/attachments/a`)
        if (kind > 10) await node.send('POST', `${path}/erase`)
      }
    }
    const size = Number(
      (await textOf(node, `/api/ledgers/${node.service.serverId}/state`)).split('\n')[1],
    )
    const chain = `/api/ledgers?serverid=${node.service.serverId}&proof=1&offset=${replayed}`
    replayBlocks(model, (await node.send('GET', chain)).json.ledgers)
    replayed = size
    for (const question of QUESTIONS) {
      truths.set(nameOf(question, size), await truthAbout(node, model, question))
      kept.push({ ...question, file: await textOf(node, pathTo(question)) })
    }
  }
  return { kept, truths, size: replayed, vkey, key: parseVerifierKey(vkey) }
}

/** Changes one character, line, member or hash of a file, or mixes it with another one. */
function changed(file: string, other: string, dice: Dice): string {
  const lines = file.split('\n')
  const others = other.split('\n')
  const at = dice.below(lines.length)
  switch (dice.below(8)) {
    case 0: {
      const place = dice.below(file.length)
      return file.slice(0, place) + String.fromCharCode(33 + dice.below(90)) + file.slice(place + 1)
    }
    case 1:
      return lines.with(at, others[dice.below(others.length)] ?? '').join('\n')
    case 2:
      return lines.filter((_, line) => line !== at).join('\n')
    case 3: {
      const [own, foreign] = [JSON.parse(lines[1] ?? ''), JSON.parse(others[1] ?? '')]
      const name = Object.keys(own)[dice.below(Object.keys(own).length)] ?? 'id'
      return lines.with(1, JSON.stringify({ ...own, [name]: foreign[name] })).join('\n')
    }
    case 4: {
      const own = JSON.parse(lines[1] ?? '')
      const map = own.item ?? own.database
      if (dice.below(2) === 0) map.path.pop()
      else {
        delete map.key
        delete map.value
      }
      return lines.with(1, JSON.stringify(own)).join('\n')
    }
    case 5:
      return lines.toSpliced(at, 0, others[dice.below(others.length)] ?? '').join('\n')
    case 6: {
      // The note of another state.
      const [end, otherEnd] = [file.lastIndexOf('\n\ndaicho/'), other.lastIndexOf('\n\ndaicho/')]
      return file.slice(0, end) + other.slice(otherEnd)
    }
    default:
      return [...lines.slice(0, 2), ...others.slice(2)].join('\n')
  }
}

/** The attempts: for each question, the answer to another one, or at another time, or a changed file. */
function attempt({ kept }: Collected, dice: Dice): Kept {
  const [one, other] = [kept[dice.below(kept.length)], kept[dice.below(kept.length)]]
  if (one === undefined || other === undefined) throw new Error('nothing was kept')
  const same = kept.filter(({ db, id }) => db === one.db && id === one.id)
  // Half of them are from the newest state, so that some are true.
  const before = same[dice.below(2) === 0 ? same.length - 1 : dice.below(same.length)] ?? other
  const file = [before.file, other.file, changed(one.file, before.file, dice)][dice.below(5)]
  return { db: one.db, id: one.id, file: file ?? changed(one.file, other.file, dice) }
}

/** What the client returns of a true answer: the item, or the ids of the items. */
function shownOf(truth: string, id: string | null): unknown {
  if (truth.startsWith('absent')) return null
  const values = JSON.parse(truth)
  return id === null ? values.map(([one]: readonly string[]) => one) : values[1]
}

/** Requires that a refusal is one line that says something. */
function requireOneLine(error: unknown): void {
  expect(error).toBeInstanceOf(ProofError)
  expect((error as ProofError).message).toMatch(/^[^\n]{15,400}$/)
}

/** What a file proves, or `refused`. */
async function provenBy(
  key: VerifierKey,
  file: string,
): Promise<[name: string, answer: string] | 'refused'> {
  try {
    if (file.startsWith('daicho/state-list')) {
      const { db, state, items } = await verifyStateList(nodeVerifySignature, key, file.split('\n'))
      const values = items?.map((item) => [item.id, formatItemState(item)] as const)
      const sorted = values?.toSorted(([one], [other]) => (one < other ? -1 : 1))
      const answer = sorted === undefined ? 'absent-database' : JSON.stringify(sorted)
      return [nameOf({ db, id: null }, state.size), answer]
    }
    const { db, id, state, kind, revision } = await verifyStateProof(nodeVerifySignature, key, file)
    const answer =
      revision === null ? kind : JSON.stringify([formatItemState(revision), revision.item])
    return [nameOf({ db, id }, state.size), answer]
  } catch (error) {
    requireOneLine(error)
    return 'refused'
  }
}

it('a client with `current` accepts only what is true now: no older state, other item, shortened list or changed proof', async () => {
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  const dice = new Dice(SEED)
  const collected = await collect(node, 8, dice)
  const accepted = new Set<string>()
  /** The true replies. The node no longer changes. */
  const replies = new Map<string, { readonly status: number; readonly text: string }>()
  for (let n = 0; n < ATTEMPTS; n += 1) {
    const question = attempt(collected, dice)
    let isAttacked = false
    const reader = new VerifyingReader({
      ...{
        verifySignature: nodeVerifySignature,
        key: collected.key,
        checkpoint: null,
        current: true,
      },
      fetch: async (path) => {
        if (isAttacked && path.includes('proof')) return { status: 200, text: question.file }
        const reply = replies.get(path) ?? (await node.send('GET', path))
        replies.set(path, reply)
        return reply
      },
    })
    // The client has seen the newest checkpoint or the newest state, so older states are refused.
    if (dice.below(2) === 0) await reader.refresh()
    else await reader.readItem('a', 'none')
    isAttacked = true
    const { db, id } = question
    const read = async () => {
      if (id !== null) return (await reader.readItem(db, id))?.item ?? null
      return (await reader.readIds(db))?.toSorted() ?? null
    }
    const result = await read().catch((error: unknown) => {
      requireOneLine(error)
      return undefined
    })
    if (result === undefined) continue
    const truth = collected.truths.get(nameOf(question, collected.size)) ?? ''
    expect([question.file, result]).toEqual([question.file, shownOf(truth, id)])
    accepted.add(truth)
  }
  expect(accepted.size).toBeGreaterThan(1)
})

it(`\`daicho verify\`, TypeScript and Python accept the same files, and only those that are true for their state${pythonNote}`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-state-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  const dice = new Dice(SEED + 1)
  const collected = await collect(node, 6, dice)
  const python = hasPython ? new LinesOfPython(PROGRAM, [collected.vkey]) : null
  onTestFinished(() => python?.close())
  const path = join(folder, 'file')
  let left = ATTEMPTS
  for (
    let files = collected.kept.map(({ file }) => file), isWhole = true;
    files.length > 0;
    isWhole = false
  ) {
    const answers: (readonly [string, string] | 'refused')[] = []
    for (const [at, file] of files.entries()) {
      const answer = await provenBy(collected.key, file)
      answers.push(answer)
      if (answer !== 'refused') {
        // A changed file may ask about another name, which never existed.
        const truth = collected.truths.get(answer[0]) ?? expect.stringMatching(/^absent/)
        expect([file, answer[1]]).toEqual([file, truth])
      } else expect([file, isWhole]).toEqual([file, false])
      if (at % VERIFIED_EVERY > 0) continue
      writeFileSync(path, file)
      const run = await runHere(verifyCommand(), [path, '--key', collected.vkey])
      // A file with another first line is not taken for a proof.
      const isProof = /^daicho\/state-(proof|list)/.test(file)
      const code = answer !== 'refused' ? 0 : isProof ? 1 : expect.any(Number)
      expect([file, run.code]).toEqual([file, code])
      if (run.code === 1) expect(run.stdout).toMatch(/^DIFFERENCE [^\n]+\n$/)
    }
    const lines = (await python?.answers(files.map((file) => JSON.stringify(file)))) ?? []
    for (const [at, line] of lines.entries()) {
      const value: unknown = JSON.parse(line)
      const shown = typeof value === 'string' ? value : JSON.stringify(value)
      const answer = answers[at] ?? 'refused'
      expect([files[at], shown]).toEqual([files[at], answer === 'refused' ? answer : answer[1]])
    }
    const next = Math.min(left, ATTEMPTS_AT_A_TIME)
    left -= next
    files = Array.from({ length: next }, () => attempt(collected, dice).file)
  }
})

type Parts = Record<string, unknown> & { readonly path: readonly string[] }
type Body = { readonly database: Parts; readonly item: Parts; readonly log: unknown } & Record<
  string,
  unknown
>

const ZERO = Buffer.alloc(32).toString('base64')
const hexOf = (hash: string) => Buffer.from(hash, 'base64').toString('hex')

/** Published attacks on Merkle maps: `x` is an item, `y` another one, `none` is missing. */
const ATTACKS: Record<string, (x: Body, y: Body, none: Body) => unknown> = {
  'an item is missing, shown by its own leaf': ({ log: _, ...x }) => x,
  'an item is missing, shown by the leaf of another one': ({ log: _, ...x }, y) => ({
    ...x,
    item: y.item,
  }),
  'an item is missing, shown by an empty subtree': ({ log: _, ...x }) => ({
    ...x,
    item: { path: x.item.path },
  }),
  'an item is missing, shown by an empty map': ({ log: _, ...x }) => ({ ...x, item: { path: [] } }),
  'an item is missing, shown by an empty subtree beside empty ones': ({ log: _, ...x }) => ({
    ...x,
    item: { path: [...x.item.path, ZERO] },
  }),
  'an item is missing, shown by the path of a missing one': ({ log: _, ...x }, __, none) => ({
    ...x,
    item: none.item,
  }),
  'a missing item has the value of another one': (x, _, none) => ({
    ...none,
    item: x.item,
    log: x.log,
  }),
  'an inner node as a leaf': (x) => {
    const [left = '', right = ''] = x.item.path.slice(-2)
    const value = Buffer.from(right, 'base64').toString('latin1')
    return { ...x, item: { path: x.item.path.slice(0, -2), key: hexOf(left), value } }
  },
  'a leaf as an inner node': (x) => ({
    ...x,
    item: { ...x.item, path: [...x.item.path, x.item.path.at(-1)] },
  }),
  'a shorter path': (x) => ({ ...x, item: { ...x.item, path: x.item.path.slice(0, -1) } }),
  'a path with an empty subtree more': (x) => ({
    ...x,
    item: { ...x.item, path: [...x.item.path, ZERO] },
  }),
  'a path longer than a key': (x) => ({
    ...x,
    item: { ...x.item, path: new Array(257).fill(ZERO) },
  }),
  'a shorter key, with its last byte in the value': (x) => ({
    ...x,
    item: { ...x.item, key: String(x.item.key).slice(0, -2), value: `a${x.item.value}` },
  }),
  'a key in capitals': (x) => ({
    ...x,
    item: { ...x.item, key: String(x.item.key).toUpperCase() },
  }),
  'a longer hash': (x) => ({
    ...x,
    item: {
      ...x.item,
      path: x.item.path.map((one) => Buffer.from(`${hexOf(one)}00`, 'hex').toString('base64')),
    },
  }),
  'a hash that is not canonical base64': (x) => ({
    ...x,
    item: { ...x.item, path: x.item.path.map((one) => one.replace('=', '')) },
  }),
  'hashes on both sides': (x) => ({
    ...x,
    item: { ...x.item, left: x.item.path[0], right: x.item.path[0] },
  }),
  'the map of the databases as the map of the items': (x) => ({ ...x, id: 'a', item: x.database }),
  'the map of the items as the map of the databases': (x) => ({ ...x, db: 'x', database: x.item }),
  'a value without its attachments': (x) => ({
    ...x,
    item: { ...x.item, value: String(x.item.value).replace(/"attachments":"[^"]+",/, '') },
  }),
  'a value with spaces': (x) => ({ ...x, item: { ...x.item, value: `${x.item.value} ` } }),
}

it('published attacks on Merkle maps are refused, by TypeScript and Python', async () => {
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  await node.send('POST', '/api/a')
  await node.send(
    'POST',
    '/api/a',
    ['x', 'y', ...Array.from({ length: 60 }, (_, n) => `i${n}`)].map((id) => ({ id })),
  )
  await node.send('PUT', '/api/a/x/attachments/a', 'text')
  const key = (await textOf(node, `/api/ledgers/${node.service.serverId}/vkey`)).trim()
  const checkpoint = await textOf(node, `/api/ledgers/${node.service.serverId}/checkpoint`)
  const [x = '', y = '', none = ''] = await Promise.all(
    ['x', 'y', 'none'].map((id) => textOf(node, `/api/a/${id}/proof?current=1`)),
  )
  const [bodyX, bodyY, bodyNone] = [x, y, none].map(
    (file): Body => JSON.parse(file.split('\n')[1] ?? ''),
  )
  if (bodyX === undefined || bodyY === undefined || bodyNone === undefined)
    throw new Error('no proof')
  const files: [string, string][] = Object.entries(ATTACKS).map(([what, attack]) => {
    const changed = canonicalJson(attack(bodyX, bodyY, bodyNone) as Json)
    const lines = x.split('\n').with(1, changed)
    return [what, (/"log"/.test(changed) ? lines : lines.toSpliced(2, 1)).join('\n')]
  })
  const end = x.lastIndexOf('\n\ndaicho/')
  const list = await textOf(node, '/api/a?proof=1')
  const item = list.split('\n').find((line) => line.includes('"id":"y"')) ?? ''
  const [, head = ''] = list.split('\n')
  files.push(
    ['a member twice', x.replace('"id":"x"', '"id":"x","id":"none"')],
    ['a checkpoint as a state', `${x.slice(0, end)}\n\n${checkpoint}`],
    ['a line after the signed root', x.replace(/\n\n— /, '\nextension\n\n— ')],
    ['a list with an item twice', list.replace(`${item}\n`, `${item}\n${item}\n`)],
    ['a list without an item', list.replace(`${item}\n`, '')],
    ['a list with another id', list.replace('"id":"y"', '"id":"Y"')],
    ['a list that was cut off', list.slice(0, list.indexOf(item))],
    ['a list whose end was cut off', list.slice(0, list.lastIndexOf('\n\ndaicho/'))],
    ['a list of no items', list.replace(/(?<=\n)\{("attachments"|"id").*\n/g, '')],
    ['a list of another database', list.replace(head, head.replace('"db":"a"', '"db":"b"'))],
  )
  const python = hasPython ? new LinesOfPython(PROGRAM, [key]) : null
  onTestFinished(() => python?.close())
  for (const file of [x, y, none, list]) {
    expect(await provenBy(parseVerifierKey(key), file)).not.toBe('refused')
  }
  for (const [what, file] of files) {
    expect([what, await provenBy(parseVerifierKey(key), file)]).toEqual([what, 'refused'])
  }
  const answers = await python?.answers(files.map(([, file]) => JSON.stringify(file)))
  expect(answers ?? []).toEqual(hasPython ? files.map(() => '"refused"') : [])
})

it('a client with `current` finds that a node has signed two states of the same blocks, or a state without an item that it has seen', async () => {
  const folder = temporaryFolder()
  let node = await startLedgerNode({ folder })
  await node.send('POST', '/api/a')
  for (const id of ['x', 'y']) await node.send('POST', '/api/a', { id })
  const vkey = (await textOf(node, `/api/ledgers/${node.service.serverId}/vkey`)).trim()
  const reader = new VerifyingReader({
    ...{ verifySignature: nodeVerifySignature, key: parseVerifierKey(vkey), checkpoint: null },
    ...{ current: true, fetch: (path) => node.send('GET', path) },
  })
  for (const id of ['x', 'y']) expect((await reader.readItem('a', id))?.item.id).toBe(id)
  await node.close()
  hideItem(folder, 'a', 'x')
  node = await startLedgerNode({ folder })
  onTestFinished(() => node.close())
  const what = 'the node has signed two different states of 3 blocks'
  await expect(reader.readItem('a', 'x')).rejects.toThrow(what)
  await expect(reader.readIds('a')).rejects.toThrow(what)
  // In a later state, the client misses the deletion of the item that it has seen.
  await node.send('POST', '/api/a', { id: 'z' })
  const stale = 'the server reports item x of a as missing without a proof of its deletion'
  await expect(reader.readItem('a', 'x')).rejects.toThrow(stale)
  await expect(reader.readIds('a')).rejects.toThrow(stale)
  // The reader accepts a list without an item, if the item was deleted.
  await node.send('DELETE', '/api/a/y')
  await node.send('DELETE', '/api/a')
  expect(await reader.readIds('a')).toBeNull()
})

it.skipIf(isOnDatabases())(
  'a node with a patched store cannot hide an item, a revision or a database from a client with `current`',
  async () => {
    for (const sql of [
      "DELETE FROM items WHERE id = 'y'",
      'UPDATE items SET item = \'{"id":"y","n":1}\', revision = created WHERE id = \'y\'',
      "DELETE FROM databases WHERE name = 'a'",
      "UPDATE databases SET name = 'c' WHERE name = 'a'",
    ]) {
      const folder = temporaryFolder()
      const before = await startLedgerNode({ folder })
      await before.send('POST', '/api/a')
      for (const id of ['x', 'y']) await before.send('POST', '/api/a', { id, n: 1 })
      await before.send('POST', '/api/a/y', { n: 2 })
      await before.close()
      const database = new DatabaseSync(join(folder, 'ledger.db'))
      database.exec(sql)
      database.close()
      const node = await startLedgerNode({ folder })
      const vkey = (await textOf(node, `/api/ledgers/${node.service.serverId}/vkey`)).trim()
      const reader = new VerifyingReader({
        ...{ verifySignature: nodeVerifySignature, key: parseVerifierKey(vkey), checkpoint: null },
        ...{ current: true, fetch: (path) => node.send('GET', path) },
      })
      expect([sql, await reader.readItem('a', 'y')]).toMatchObject([sql, { item: { n: 2 } }])
      const ids = await reader.readIds('a').catch((error: unknown) => (error as ProofError).message)
      // The list is read from the rows of the items, so only a missing row shows.
      const isListed = !sql.startsWith('DELETE FROM items')
      const what = 'the list of 1 items is not the one of the signed state'
      expect([sql, ids]).toEqual([sql, isListed ? ['x', 'y'] : expect.stringContaining(what)])
      await node.close()
    }
  },
)
