// Tests the Python program on the page about the chain format. The program is a second implementation of the format.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { recordEveryMethod } from '../support/every-method.ts'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'

const PAGE = fileURLToPath(new URL('../../docs/reference/ledger/chain-format.md', import.meta.url))
const [, PROGRAM = ''] = /^```python\n([\s\S]*?)^```$/m.exec(readFileSync(PAGE, 'utf8')) ?? []
const VECTORS = fileURLToPath(new URL('../vectors/replay-v1.json', import.meta.url))
/** Number of changed replies, and the seed. For a longer run: MUTATIONS=100000 SEED=2. */
const MUTATIONS = Number(process.env.MUTATIONS ?? 500)
const SEED = Number(process.env.SEED ?? 1)
const hasPython = spawnSync('python3', ['--version']).status === 0

/** Runs the program on `reply`, then on one copy of `reply` for each value, with this value changed. */
const CHANGED_VALUES = `
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
attachment = {'content_type': 'a/b', 'length': page.Number(1), 'name': 'x', 'sha256': '0' * 64}
shown = {'item': {'id': '', 'price': page.Number(1)}, 'attachment': attachment}
for block in reply['ledgers']:
    for entry, blind in zip(block['body'], block['proof']['blinds']):
        for name in shown if blind is None else []:
            if name not in entry: continue
            before = entry[name]
            entry[name] = {**shown[name], **before}
            count += 1
            try: page.check(copy.deepcopy(reply), serverid)
            except Exception: pass
            else: accepted += 1; print('erased', entry, file=sys.stderr)
            entry[name] = before
sys.stdout = sys.__stdout__
print(json.dumps([count, accepted]))
`

/** Runs the program on copies of `reply` with changed bytes, and prints how many copies it refused. */
const CHANGED_BYTES = `
import io, json, random, sys
import verify_chain as page
serverid, count, dice = page.Number(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
reply = open('reply.json', 'rb').read()
texts = [b'0', b'"', b',', b'null', b'1e3', b'{}', b'[[[[', b'\\0', b'\\xff', b'"a":1,"a":2,', b'9' * 40]
def parsed(data): return json.loads(data, parse_int=page.Number, parse_float=page.Number)
def covered(value):
    blocks = []
    for block in value['ledgers']:
        shown = [at for at, blind in enumerate(block['proof']['blinds']) if blind is not None]
        parts = [[block[name][at] for at in shown] for name in ('body', 'timestamps')]
        proof = [block['proof'][name] for name in ('height', 'root', 'blinds', 'commitments')]
        blocks.append([block['prev_id'], block['nonce'], block['id'], proof, parts])
    return blocks
def changed(data):
    at = dice.randrange(len(data))
    end = at + dice.randrange(1, 40)
    part, kind = data[at:end], dice.randrange(6)
    if kind == 0: return data[:at] + data[end:]
    if kind == 1: return data[:at] + part + part + data[end:]
    if kind == 2: return data[:at] + part[::-1] + data[end:]
    if kind == 3: return data[:at] + dice.choice(texts) + data[at:]
    if kind == 4: return data[:at] + dice.choice(texts) + data[end:]
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1:]
content, refused = covered(parsed(reply)), 0
for _ in range(count):
    data = changed(reply)
    if dice.randrange(2): data = changed(data)
    before, sys.stdout = sys.stdout, io.StringIO()
    try:
        value = parsed(data)
        page.check(value, serverid)
        wrong = [block for block in covered(value) if block not in content]
        if wrong or len(value['ledgers']) != len(content): sys.exit(f'accepted: {wrong}')
    except Exception as problem:
        refused += 1
        assert len(repr(problem).splitlines()) == 1
    finally: sys.stdout = before
print(refused)
`

function programFolder(): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'verify_chain.py'), PROGRAM)
  return folder
}

const pythonNote = hasPython ? '' : ' (skipped: no python3)'

it.skipIf(!hasPython)(
  `the program on the page about the chain format verifies a chain with every method and detects each changed value${pythonNote}`,
  { timeout: 60_000 + MUTATIONS * 20 },
  async () => {
    const node = await startLedgerNode()
    const text = await recordEveryMethod(node)
    const { serverId } = node.service
    await node.close()

    const folder = programFolder()
    writeFileSync(join(folder, 'reply.json'), text)
    writeFileSync(join(folder, 'mutations.py'), CHANGED_VALUES)
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

    writeFileSync(join(folder, 'bytes.py'), CHANGED_BYTES)
    const args = ['bytes.py', `${serverId}`, `${MUTATIONS}`, `${SEED}`]
    const refused = Number(execFileSync('python3', args, run))
    console.log(`${refused} of ${MUTATIONS} changed replies refused by the program on the page`)
    expect(refused).toBeGreaterThan(MUTATIONS * 0.9)
    const invalid = spawnSync('python3', ['verify_chain.py', `${serverId}`], {
      ...run,
      input: text.replace('"nonce":0', '"nonce":1'),
    })
    expect([invalid.status, invalid.stdout]).toEqual([1, ''])
    expect(invalid.stderr).toBe("invalid: AssertionError('id')\n")
  },
)

it.skipIf(!hasPython)(
  `the program on the page about the chain format computes the databases of the replay examples${pythonNote}`,
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
