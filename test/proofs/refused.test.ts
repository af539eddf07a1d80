// One corpus of proofs and blocks that all verifiers of the project must refuse, and none may crash on.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { parseJson } from '../../src/base/json.ts'
import {
  type ChainState,
  ChainVerifier,
  nodeVerifySignature,
  ProofError,
  type RawBlock,
  rawBlocks,
  verifyProofFile,
} from '../../src/chain/index.ts'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { verifySignature } from '../../src/dashboard/browser/verification/signature.ts'
import { verifyListedBlock } from '../../src/dashboard/browser/verification/verify-chain.ts'
import { decodeNextBlock } from '../../src/ledger/write/decoded-block.ts'
import { runHere } from '../support/command.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { hasPython, pythonNote } from '../support/python.ts'
import {
  blockReply,
  ENTRY,
  KEY,
  MISSPELT_ENTRIES,
  proofFile,
  REFUSED_ENTRIES,
  REFUSED_PROOFS,
  REFUSED_TIMES,
  SERVER_ID,
  VKEY,
} from './refused.ts'

const PAGE = fileURLToPath(new URL('../../docs/reference/ledger/chain-format.md', import.meta.url))
const [, PAGE_PROGRAM = ''] = /^```python\n([\s\S]*?)^```$/m.exec(readFileSync(PAGE, 'utf8')) ?? []
const CLIENT = fileURLToPath(new URL('../../clients/python/src', import.meta.url))

const times = REFUSED_TIMES.map((time) => [`the time ${time}`, time] as const)
const proofs = new Map<string, Buffer>([
  ...[...REFUSED_ENTRIES, ...MISSPELT_ENTRIES].map(
    ([name, entry]) => [name, proofFile({ entry })] as const,
  ),
  ...times.map(([name, timestamp]) => [name, proofFile({ timestamp })] as const),
  ...REFUSED_PROOFS.map(([name, change]) => [`proof with ${name}`, proofFile(change)] as const),
])
const replies = new Map<string, string>([
  ...REFUSED_ENTRIES.map(([name, entry]) => [name, blockReply(entry)] as const),
  ...times.map(([name, time]) => [name, blockReply(ENTRY, time)] as const),
])

/** Runs `program`, which returns a list of names, on a file with all `documents` by name. */
function namesAcceptedBy(program: string, documents: ReadonlyMap<string, string>): string[] {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'documents.json'), JSON.stringify([...documents]))
  writeFileSync(join(folder, 'verify_chain.py'), PAGE_PROGRAM)
  const env = { ...process.env, PYTHONPATH: `${CLIENT}:${folder}`, PYTHONDONTWRITEBYTECODE: '1' }
  const args = ['-c', program, VKEY, `${SERVER_ID}`]
  return JSON.parse(execFileSync('python3', args, { cwd: folder, env, encoding: 'utf8' }))
}

const PROOF_PROGRAM = `
import base64, json, sys
from daicho.verify_proof import ProofError, verify_proof
accepted = []
for name, file in json.load(open('documents.json')):
    try: verify_proof(base64.b64decode(file), sys.argv[1])
    except ProofError: continue
    accepted.append(name)
print(json.dumps(accepted))
`
const BLOCK_PROGRAM = `
import io, json, sys
import verify_chain as page
accepted = []
for name, reply in json.load(open('documents.json')):
    before, sys.stdout = sys.stdout, io.StringIO()
    try: page.check(json.loads(reply, parse_int=page.Number, parse_float=page.Number), page.Number(sys.argv[2]))
    except Exception: continue
    finally: sys.stdout = before
    accepted.append(name)
print(json.dumps(accepted))
`

it.each([
  ['node', nodeVerifySignature],
  ['browser', verifySignature],
] as const)('refuses every proof of the corpus in a %s', async (_, verify) => {
  const read = (file: Buffer) => verifyProofFile(verify, KEY.verifier, file.toString())
  expect(await read(proofFile())).toMatchObject({ height: 0, entry: { method: 'create_item' } })
  const accepted: string[] = []
  for (const [name, file] of proofs) {
    await read(file).then(
      () => accepted.push(name),
      (error) => expect([name, error]).toEqual([name, expect.any(ProofError)]),
    )
  }
  expect(accepted).toEqual([])
  expect(proofs.size).toBeGreaterThan(120)
})

it('refuses every proof of the corpus with `daicho verify`', async () => {
  const path = join(temporaryFolder(), 'entry.tlog-proof')
  for (const [name, file] of [['the right one', proofFile()] as const, ...proofs]) {
    writeFileSync(path, file)
    const { code, stderr } = await runHere(verifyCommand(), [path, '--key', VKEY])
    expect([name, code, stderr]).toEqual([name, name === 'the right one' ? 0 : 1, ''])
  }
})

it('shows the time of a proof that is beyond the last date', async () => {
  const path = join(temporaryFolder(), 'entry.tlog-proof')
  writeFileSync(path, proofFile({ timestamp: '9007199254740991' }))
  const { code, stdout } = await runHere(verifyCommand(), [path, '--key', VKEY])
  const shown = expect.stringContaining('\ntime       9007199254740991 ms after 1970\n')
  expect([code, stdout]).toEqual([0, shown])
})

it.skipIf(!hasPython)(`refuses every proof of the corpus with verify_proof.py${pythonNote}`, () => {
  const documents = new Map([['the right one', proofFile()], ...proofs])
  const files = new Map([...documents].map(([name, file]) => [name, file.toString('base64')]))
  expect(namesAcceptedBy(PROOF_PROGRAM, files)).toEqual(['the right one'])
})

it.skipIf(!hasPython)(
  `refuses every block of the corpus with the program on the page about the chain format${pythonNote}`,
  () => {
    const documents = new Map([['the right one', blockReply(ENTRY)], ...replies])
    expect(namesAcceptedBy(BLOCK_PROGRAM, documents)).toEqual(['the right one'])
  },
)

/** Returns the blocks of a reply as peers and imports read them, or null. */
function readRawBlocks(reply: string): readonly RawBlock[] | null {
  const start = '{"status":true,"ledgers":'.length
  return rawBlocks(reply, start, { serverId: SERVER_ID, blocksMax: 2 })?.blocks ?? null
}

function isDecoded(reply: string, state: ChainState): boolean {
  const last = readRawBlocks(reply)?.[1]
  return last !== undefined && 'block' in decodeNextBlock(last, SERVER_ID, new ChainVerifier(state))
}

function isVerifiedInBrowser(reply: string, state: ChainState): boolean {
  try {
    const chain = new ChainVerifier(state)
    return 'erased' in verifyListedBlock(parseJson(reply).ledgers[1], SERVER_ID, chain)
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

it.each([
  ['peers and imports', isDecoded],
  ['browsers', isVerifiedInBrowser],
] as const)('refuses every block of the corpus in %s', (_, isAccepted) => {
  const [first] = readRawBlocks(blockReply(ENTRY)) ?? []
  assert(first !== undefined)
  const chain = new ChainVerifier()
  assert('block' in decodeNextBlock(first, SERVER_ID, chain))
  expect(isAccepted(blockReply(ENTRY), chain.state)).toBe(true)
  const accepted = [...replies].filter(([, reply]) => isAccepted(reply, chain.state))
  expect(accepted.map(([name]) => name)).toEqual([])
})
