// The Python program on the page about the chain's format: a second implementation, written from that page.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'

const PAGE = fileURLToPath(new URL('../../docs/reference/ledger/chain-format.md', import.meta.url))
const [, PROGRAM = ''] = /^```python\n([\s\S]*?)^```$/m.exec(readFileSync(PAGE, 'utf8')) ?? []
const VECTORS = fileURLToPath(new URL('../vectors/replay-v1.json', import.meta.url))
const hasPython = spawnSync('python3', ['--version']).status === 0

/** Runs the program on `reply`, then on a copy for each value in it, with that value changed. */
const MUTATIONS = `
import copy, io, json, sys
import verify_chain as page
sys.stdout = io.StringIO()
reply = json.load(open('reply.json'), parse_int=page.Number, parse_float=page.Number)
serverid = page.Number(sys.argv[1])
def places(value):
    for key in value if isinstance(value, dict) else range(len(value)):
        if isinstance(value[key], (dict, list)): yield from places(value[key])
        else: yield value, key
page.check(copy.deepcopy(reply), serverid)
count = accepted = 0
for holder, key in places(reply['ledgers']):
    before = holder[key]
    if holder is reply['ledgers'][0] and key == 'prev_id': continue
    if isinstance(before, page.Number): holder[key] = page.Number(f'{float(before) * 2 + 1:.0f}')
    else: holder[key] = 'x' if before is None else before[:-1] + chr(ord(before[-1]) ^ 1)
    count += 1
    try: page.check(copy.deepcopy(reply), serverid)
    except Exception: pass
    else: accepted += 1; print(key, before, file=sys.stderr)
    holder[key] = before
sys.stdout = sys.__stdout__
print(json.dumps([count, accepted]))
`

function programFolder(): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'verify_chain.py'), PROGRAM)
  return folder
}

if (!hasPython) console.warn('SKIPPED: no python3')
it.skipIf(!hasPython)(
  'the program on the page verifies a chain with every method and detects each changed value',
  { timeout: 60_000 },
  async () => {
    const node = await startLedgerNode()
    const attach = (method: string, name: string, body: string | null) =>
      fetch(`${node.url}/api/fruit/plum/attachments/${name}`, {
        method,
        headers: body === null ? {} : { 'content-type': 'text/plain' },
        body,
      })
    const steps: (() => Promise<{ status: number }>)[] = [
      () => node.send('POST', '/api/fruit'),
      () => node.send('POST', '/api/veg'),
      () =>
        node.send('POST', '/api/fruit', [
          { id: 'plum', price: 1e21 },
          { id: '無花果', n: -0.5 },
        ]),
      () => attach('PUT', 'a.txt', 'one'),
      () => attach('PUT', 'a.txt', 'two'),
      () => attach('PUT', 'b.txt', 'three'),
      () => attach('DELETE', 'b.txt', null),
      () => node.send('PATCH', '/api/fruit/plum', { price: 85 }),
      () => node.send('DELETE', `/api/fruit/${encodeURIComponent('無花果')}`),
      () => node.send('POST', '/api/fruit/plum/erase'),
      () => node.send('POST', '/api/fruit', { id: '無花果' }),
      () => node.send('DELETE', '/api/veg'),
    ]
    for (const step of steps) expect((await step()).status).toBeLessThan(300)
    const { serverId } = node.service
    const { text } = await node.send('GET', `/api/ledgers?serverid=${serverId}&proof=1`)
    await node.close()

    const folder = programFolder()
    writeFileSync(join(folder, 'reply.json'), text)
    writeFileSync(join(folder, 'mutations.py'), MUTATIONS)
    const run = { cwd: folder, encoding: 'utf8' as const }
    const [head, counts] = execFileSync('python3', ['verify_chain.py', `${serverId}`], {
      ...run,
      input: text,
    }).split('\n')
    const { ledgers } = JSON.parse(text)
    expect(head).toBe(`12 blocks hold; the head is ${ledgers[11].id.slice(0, 16)}`)
    expect(counts).toBe('1 databases, 2 items, 4 erased entries')
    const changed = execFileSync('python3', ['mutations.py', `${serverId}`], run)
    const [count, accepted] = JSON.parse(changed)
    expect(count).toBeGreaterThan(150)
    expect(accepted).toBe(0)
  },
)

it.skipIf(!hasPython)(
  'the program on the page computes the databases of the replay vectors',
  () => {
    const replay = `
import json, sys
import verify_chain as page
vectors = json.load(open(sys.argv[1]))
databases, entries = {}, {}
for height, block in enumerate(vectors['blocks']):
    for index, entry in enumerate(block):
        at = f'{height}.{index}'
        entries[at] = vectors['erased'].get(at, entry) if sys.argv[2] == 'erased' else entry
        page.apply(entries[at], at, databases, entries)
print(json.dumps([{'db': db, 'items': [
    {'item': one['item'], 'attachments': one['attachments']} for one in items.values()
]} for db, items in databases.items()]))
`
    const { databases } = JSON.parse(readFileSync(VECTORS, 'utf8'))
    for (const state of ['complete', 'erased']) {
      const args = ['-c', replay, VECTORS, state]
      const found = execFileSync('python3', args, { cwd: programFolder(), encoding: 'utf8' })
      expect(JSON.parse(found)).toEqual(databases)
    }
  },
)
