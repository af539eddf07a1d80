// A node, or a proxy before it, that hides changes. Every reply is one that the node has given at some time, a mixture of
// several, or a changed one. Whatever is accepted must be true.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import {
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
import { Dice } from '../support/ledger-load.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { hasPython, pythonNote, runPython } from '../support/python.ts'
import { roundsOf } from '../support/rounds.ts'

const DATABASES = ['a', 'b']
const IDS = ['x', 'y', 'z', 'none']
const ATTEMPTS = roundsOf(500)

async function textOf(node: LedgerNode, path: string): Promise<string> {
  const { status, text } = await node.send('GET', path)
  expect([path, status]).toEqual([path, 200])
  return text
}

/** A question to the node: what is item `id` of `db`, or which items does `db` have (`id` is null). */
interface Question {
  readonly db: string
  readonly id: string | null
}

function pathTo({ db, id }: Question): string {
  return id === null ? `/api/${db}?proof=1` : `/api/${db}/${id}/proof?current=1`
}

/** The true answer, as a text. */
async function truthAbout(node: LedgerNode, { db, id }: Question): Promise<string> {
  const { status, json } = await node.send('GET', id === null ? `/api/${db}` : `/api/${db}/${id}`)
  if (status === 200) return JSON.stringify(id === null ? json.items.toSorted() : json.item)
  return json.code === 'DATABASE_NOT_FOUND' ? 'absent-database' : 'absent'
}

interface Kept extends Question {
  readonly file: string
}

interface Collected {
  readonly kept: readonly Kept[]
  /** The true answers by size of the state and question. */
  readonly truths: ReadonlyMap<string, string>
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
  const vkey = (await textOf(node, `/api/ledgers/${node.service.serverId}/vkey`)).trim()
  for (let round = 0; round < rounds; round += 1) {
    for (let n = 0; n < 4; n += 1) {
      const { db, id } = QUESTIONS[dice.below(QUESTIONS.length)] ?? { db: 'a', id: null }
      const kind = dice.below(8)
      if (kind === 0) await node.send('DELETE', `/api/${db}`)
      await node.send('POST', `/api/${db}`)
      if (kind === 1) await node.send('DELETE', `/api/${db}/${id ?? 'x'}`)
      else if (id !== null && id !== 'none') {
        await node.send('POST', `/api/${db}`, { id, round: -1 })
        await node.send('POST', `/api/${db}/${id}`, { round, n })
      }
    }
    const size = Number(
      (await textOf(node, `/api/ledgers/${node.service.serverId}/state`)).split('\n')[1],
    )
    for (const question of QUESTIONS) {
      truths.set(nameOf(question, size), await truthAbout(node, question))
      kept.push({ ...question, file: await textOf(node, pathTo(question)) })
    }
  }
  return { kept, truths, vkey, key: parseVerifierKey(vkey) }
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
  const before = same[dice.below(same.length)] ?? other
  const file = [before.file, other.file, changed(one.file, before.file, dice)][dice.below(5)]
  return { db: one.db, id: one.id, file: file ?? changed(one.file, other.file, dice) }
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
      const ids = items?.map(({ id }) => id).sort()
      const answer = ids === undefined ? 'absent-database' : JSON.stringify(ids)
      return [nameOf({ db, id: null }, state.size), answer]
    }
    const { db, id, state, kind, revision } = await verifyStateProof(nodeVerifySignature, key, file)
    const answer = revision === null ? kind : JSON.stringify(revision.item)
    return [nameOf({ db, id }, state.size), answer]
  } catch (error) {
    requireOneLine(error)
    return 'refused'
  }
}

it('a client with `current` accepts only what is true now: no older state, other item, shortened list or changed proof', async () => {
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  const dice = new Dice(1)
  const collected = await collect(node, 8, dice)
  const now = new Map<string, string>()
  for (const question of QUESTIONS) {
    const truth = (await truthAbout(node, question)).replace(/^absent.*/, 'absent')
    now.set(nameOf(question, 0), truth)
  }
  const accepted = new Set<string>()
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
        const { status, text } = await node.send('GET', path)
        return { status, text }
      },
    })
    // The client has seen the newest checkpoint or the newest state, so older states are refused.
    if (dice.below(2) === 0) await reader.refresh()
    else await reader.readItem('a', 'none')
    isAttacked = true
    const { db, id } = question
    const read = async () => {
      if (id !== null) return JSON.stringify((await reader.readItem(db, id))?.item ?? 'absent')
      return JSON.stringify((await reader.readIds(db))?.toSorted() ?? 'absent')
    }
    const result = await read().catch((error: unknown) => {
      requireOneLine(error)
      return null
    })
    if (result === null) continue
    const truth = now.get(nameOf(question, 0))
    expect([question.file, result.replace('"absent"', 'absent')]).toEqual([question.file, truth])
    accepted.add(result)
  }
  expect(accepted.size).toBeGreaterThan(1)
})

it(`\`daicho verify\`, TypeScript and Python accept the same files, and only those that are true for their state${pythonNote}`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-state-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const node = await startLedgerNode()
  onTestFinished(() => node.close())
  const dice = new Dice(2)
  const collected = await collect(node, 6, dice)
  const files = collected.kept.map(({ file }) => file)
  for (let n = 0; n < ATTEMPTS; n += 1) files.push(attempt(collected, dice).file)
  const answers: (readonly [string, string] | 'refused')[] = []
  for (const [at, file] of files.entries()) {
    const answer = await provenBy(collected.key, file)
    answers.push(answer)
    if (answer === 'refused') expect(at).toBeGreaterThanOrEqual(collected.kept.length)
    else {
      // A changed file may ask about another name, which never existed.
      const truth = collected.truths.get(answer[0]) ?? expect.stringMatching(/^absent/)
      expect([file, answer[1]]).toEqual([file, truth])
    }
  }
  const path = join(folder, 'file')
  for (const at of files.keys()) {
    if (at % 20 > 0) continue
    writeFileSync(path, files[at] ?? '')
    const run = await runHere(verifyCommand(), [path, '--key', collected.vkey])
    // A file with another first line is not taken for a proof.
    const isProof = /^daicho\/state-(proof|list)/.test(files[at] ?? '')
    const code = answers[at] !== 'refused' ? 0 : isProof ? 1 : expect.any(Number)
    expect([files[at], run.code]).toEqual([files[at], code])
    if (run.code === 1) expect(run.stdout).toMatch(/^DIFFERENCE [^\n]+\n$/)
  }
  if (!hasPython) return
  const program = `
import sys, json
from pathlib import Path
from daicho.verify_state import ProofError, verify_list, verify_state
for line in Path(sys.argv[1]).read_text().split("\\n"):
    file = json.loads(line).encode()
    try:
        if file.startswith(b"daicho/state-list"):
            listed = verify_list(file, sys.argv[2])
            print(json.dumps("absent-database" if listed.items is None else sorted(listed.items)))
        else:
            proven = verify_state(file, sys.argv[2])
            print(json.dumps(proven.entry["item"] if proven.entry else "absent" if proven.has_database else "absent-database"))
    except ProofError as error:
        assert "\\n" not in str(error)
        print(json.dumps("refused"))
`
  const list = join(folder, 'files')
  writeFileSync(list, files.map((file) => JSON.stringify(file)).join('\n'))
  writeFileSync(join(folder, 'program.py'), program)
  const { stdout } = await runPython([join(folder, 'program.py'), list, collected.vkey], {})
  const python = stdout.trim().split('\n')
  for (const [at, answer] of answers.entries()) {
    const value: unknown = JSON.parse(python[at] ?? '')
    const shown = typeof value === 'string' ? value : JSON.stringify(value)
    expect([files[at], shown]).toEqual([files[at], answer === 'refused' ? answer : answer[1]])
  }
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
