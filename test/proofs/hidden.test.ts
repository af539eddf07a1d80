// A node, or a proxy before it, that hides changes from a client with `current`. Every reply is one that the node has
// signed at some time, or a changed one.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import {
  nodeVerifySignature,
  ProofError,
  parseVerifierKey,
  verifyStateProof,
} from '../../src/chain/index.ts'
import { VerifyingReader } from '../../src/chain/portable.ts'
import { Dice } from '../support/ledger-load.ts'
import { type LedgerNode, startLedgerNode } from '../support/ledger-node.ts'
import { hasPython, pythonNote, runPython } from '../support/python.ts'
import { roundsOf } from '../support/rounds.ts'

const NAMES = ['a', 'b'].flatMap((db) => ['x', 'y', 'z', 'none'].map((id) => [db, id] as const))

async function textOf(node: LedgerNode, path: string): Promise<string> {
  const { status, text } = await node.send('GET', path)
  expect([path, status]).toEqual([path, 200])
  return text
}

/** What is true about an item: its newest item as text, or that it or its database is missing. */
type Truth = string

async function truthOf(node: LedgerNode, db: string, id: string): Promise<Truth> {
  const { status, json } = await node.send('GET', `/api/${db}/${id}`)
  if (status === 200) return JSON.stringify(json.item)
  return json.code === 'DATABASE_NOT_FOUND' ? 'absent-database' : 'absent'
}

interface Kept {
  readonly db: string
  readonly id: string
  readonly file: string
  readonly truth: Truth
  /** Number of the round in which the node gave the file. */
  readonly round: number
}

/** Changes items and databases of `node` in rounds; keeps all proofs of each round. */
async function collect(node: LedgerNode, rounds: number, dice: Dice): Promise<Kept[]> {
  const kept: Kept[] = []
  for (let round = 0; round < rounds; round += 1) {
    for (let n = 0; n < 4; n += 1) {
      const [db, id] = NAMES[dice.below(NAMES.length)] ?? ['a', 'x']
      const path = `/api/${db}/${id}`
      const kind = dice.below(8)
      if (kind === 0) await node.send('DELETE', `/api/${db}`)
      await node.send('POST', `/api/${db}`)
      if (kind === 1) await node.send('DELETE', path)
      else if (id !== 'none') {
        await node.send('POST', `/api/${db}`, { id, round: -1 })
        await node.send('POST', path, { round, n })
      }
    }
    for (const [db, id] of NAMES) {
      const truth = await truthOf(node, db, id)
      const file = await textOf(node, `/api/${db}/${id}/proof?current=1`)
      kept.push({ db, id, file, truth, round })
    }
  }
  return kept
}

/** Changes one character, one line, one member or one hash of a file, or mixes it with another one. */
function changed(file: string, other: string, dice: Dice): string {
  const lines = file.split('\n')
  const others = other.split('\n')
  const at = dice.below(lines.length)
  switch (dice.below(6)) {
    case 0: {
      const place = dice.below(file.length)
      return file.slice(0, place) + String.fromCharCode(33 + dice.below(90)) + file.slice(place + 1)
    }
    case 1:
      return lines.with(at, others[at] ?? '').join('\n')
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
    default:
      return [...lines.slice(0, 2), ...others.slice(2)].join('\n')
  }
}

/** What the file proves, or the code of the refusal. */
async function proven(key: ReturnType<typeof parseVerifierKey>, file: string): Promise<Truth> {
  try {
    const { kind, revision } = await verifyStateProof(nodeVerifySignature, key, file)
    return revision === null ? kind : JSON.stringify(revision.item)
  } catch (error) {
    if (error instanceof ProofError) return `refused: ${error.code}`
    throw error
  }
}

it('a client with `current` refuses older states, other items and changed proofs, and accepts the newest state', async () => {
  const node = await startLedgerNode()
  const dice = new Dice(1)
  const kept = await collect(node, 6, dice)
  const { serverId } = node.service
  const key = parseVerifierKey((await textOf(node, `/api/ledgers/${serverId}/vkey`)).trim())
  let accepted = 0
  for (let attempt = 0; attempt < roundsOf(400); attempt += 1) {
    const [one, other] = [kept[dice.below(kept.length)], kept[dice.below(kept.length)]]
    if (one === undefined || other === undefined) continue
    const file = dice.below(3) === 0 ? other.file : changed(one.file, other.file, dice)
    let seen = false
    const reader = new VerifyingReader({
      ...{ verifySignature: nodeVerifySignature, key, checkpoint: null, current: true },
      fetch: async (path) => {
        if (!path.includes('/proof?current=1')) {
          const { status, text } = await node.send('GET', path)
          return { status, text }
        }
        return { status: 200, text: seen ? file : await textOf(node, path) }
      },
    })
    // The client knows the newest checkpoint, so older states are refused.
    await reader.refresh()
    seen = true
    const result = await reader.readItem(one.db, one.id).then(
      (item) => (item === null ? 'absent' : JSON.stringify(item.item)),
      (error: unknown) => {
        expect(error).toBeInstanceOf(ProofError)
        return 'refused'
      },
    )
    const truth = (await truthOf(node, one.db, one.id)).replace('absent-database', 'absent')
    expect([file, 'refused', truth].includes(result) ? truth : `${result} from ${file}`).toBe(truth)
    if (result !== 'refused') accepted += 1
  }
  expect(accepted).toBeGreaterThan(0)
  await node.close()
})

it(`Python and TypeScript accept the same state proofs, with the same content${pythonNote}`, async (context) => {
  if (!hasPython) return context.skip()
  const folder = mkdtempSync(join(tmpdir(), 'daicho-state-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const node = await startLedgerNode()
  const dice = new Dice(2)
  const kept = await collect(node, 3, dice)
  const vkey = (await textOf(node, `/api/ledgers/${node.service.serverId}/vkey`)).trim()
  const files = kept.map(({ file }) => file)
  for (let n = 0; n < roundsOf(300); n += 1) {
    const [one, other] = [files[dice.below(kept.length)], files[dice.below(kept.length)]]
    files.push(changed(one ?? '', other ?? '', dice))
  }
  for (const [at, file] of files.entries()) writeFileSync(join(folder, `${at}`), file)
  const program = `
import sys, json
from pathlib import Path
from daicho.verify_state import ProofError, verify_state
for at in range(int(sys.argv[2])):
    try:
        proven = verify_state(Path(sys.argv[1], str(at)).read_bytes(), sys.argv[3])
        print(json.dumps(proven.entry["item"] if proven.entry else "absent" if proven.has_database else "absent-database"))
    except ProofError: print(json.dumps("refused"))
`
  const { stdout } = await runPython(['-c', program, folder, `${files.length}`, vkey], {})
  const python = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const key = parseVerifierKey(vkey)
  for (const [at, file] of files.entries()) {
    const result = await proven(key, file)
    const shown = typeof python[at] === 'string' ? python[at] : JSON.stringify(python[at])
    expect([file, shown]).toEqual([file, result.startsWith('refused') ? 'refused' : result])
  }
  await node.close()
})
