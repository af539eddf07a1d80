// Faults that `daicho verify <folder>`, `backup` and `export` find with the last signed head of the node.
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runDaicho } from '../support/daicho.ts'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'

/** Starts a node in `folder`, creates `items` one by one in the database `fruit`, and closes the node. */
async function recorded(folder: string, items: readonly string[]): Promise<void> {
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  for (const id of items) await node.send('POST', '/api/fruit', { id })
  await node.close()
}

async function found(folder: string) {
  const { code, stdout } = await runDaicho(['verify', folder, '--json'])
  return [code, JSON.parse(stdout).finding]
}
const nowhere = (what: string) => ({ height: null, index: null, what })

it('reports that an older state of the store contradicts the last signed head', async () => {
  const folder = temporaryFolder()
  await recorded(folder, ['fig'])
  copyFileSync(join(folder, 'ledger.db'), join(folder, 'kept.db'))
  await recorded(folder, ['pear'])
  expect(await found(folder)).toEqual([0, null])
  copyFileSync(join(folder, 'kept.db'), join(folder, 'ledger.db'))
  const older =
    'the store has 2 blocks, but this node has signed 3: an older copy was restored, or the ' +
    'store was moved: check STORE; restore a copy with all signed blocks, because continuing would fork the chain'
  expect(await found(folder)).toEqual([1, nowhere(older)])
  const { stdout } = await runDaicho(['verify', folder])
  expect(stdout).toBe(
    `DIFFERENCE ${older}\n(2 blocks, 2 entries before the difference are valid)\n`,
  )
})

/** Replaces the store of a new node with a copy that lacks the last block. Returns the folder and the finding. */
async function rolledBack() {
  const folder = temporaryFolder()
  await recorded(folder, ['fig'])
  copyFileSync(join(folder, 'ledger.db'), join(folder, 'kept.db'))
  await recorded(folder, ['pear'])
  copyFileSync(join(folder, 'kept.db'), join(folder, 'ledger.db'))
  const [, finding] = await found(folder)
  expect(finding.what).toMatch(/^the store has 2 blocks, but this node has signed 3: /)
  return { folder, finding }
}

it('`backup` of a store that is older than the signed head makes no backup and keeps the older backups', async () => {
  const { folder, finding } = await rolledBack()
  const to = join(temporaryFolder(), 'backups')
  const text = await runDaicho(['backup', folder, to, '--no-verify'])
  expect([text.code, text.stdout]).toEqual([1, `NO BACKUP: ${finding.what}\n`])
  expect(existsSync(to)).toBe(false)
  const other = temporaryFolder()
  await recorded(other, ['fig'])
  expect((await runDaicho(['backup', other, to])).code).toBe(0)
  const kept = readdirSync(to)
  const json = await runDaicho(['backup', folder, to, '--keep', '1', '--json'])
  expect([json.code, JSON.parse(json.stdout)]).toEqual([
    1,
    {
      ...{ status: false, path: null, serverId: expect.any(Number), blocks: 2 },
      ...{ headId: expect.any(String), attachments: 0, keys: true, verified: false },
      ...{ removed: [], finding },
    },
  ])
  expect(readdirSync(to)).toEqual(kept)
  // Without a signed head, nothing shows that the store is older.
  rmSync(join(folder, 'signed-head'))
  expect((await runDaicho(['backup', folder, to])).code).toBe(0)
})

it('`export` of a store that is older than the signed head writes nothing', async () => {
  const { folder, finding } = await rolledBack()
  const to = temporaryFolder()
  for (const out of [join(to, 'chain.ndjson'), '-']) {
    const { code, stdout, stderr } = await runDaicho(['export', folder, '--out', out])
    expect([code, stdout, stderr]).toEqual([1, '', `daicho: ${finding.what}\n`])
  }
  expect(readdirSync(to)).toEqual([])
  // The data can be exported without the key, for an import under a new key.
  const other = temporaryFolder()
  await recorded(other, ['fig'])
  rmSync(join(other, 'node.key'))
  expect((await runDaicho(['export', other, '--out', join(to, 'chain.ndjson')])).code).toBe(0)
  rmSync(join(folder, 'signed-head'))
  expect((await runDaicho(['export', folder, '--out', '-'])).code).toBe(0)
})

it('`dump` and `log` of a store that is older than the signed head print its content, and warn', async () => {
  const { folder, finding } = await rolledBack()
  for (const args of [['dump', 'fruit'], ['log']]) {
    const { code, stdout, stderr } = await runDaicho(args, { SYSTEM_FOLDER: folder })
    expect([code, stdout]).toEqual([0, expect.stringContaining('fig')])
    expect(stderr).toContain(`daicho: ${finding.what}\n`)
  }
})

it('refuses a typed folder with a store while STORE names a database', async () => {
  const folder = temporaryFolder()
  await recorded(folder, ['fig'])
  for (const args of [['dump', 'fruit'], ['log'], ['index', 'list'], ['network', 'list']]) {
    const STORE = 'postgres://127.0.0.1:1/none'
    const { code, stdout, stderr } = await runDaicho([...args, '--folder', folder], { STORE })
    expect([code, stdout]).toEqual([78, ''])
    expect(stderr).toContain(`${folder} has a store, but STORE is set`)
  }
})

it('reports that a different chain contradicts the last signed head, even if the chain is consistent in itself', async () => {
  const [folder, other] = [temporaryFolder(), temporaryFolder()]
  await recorded(folder, ['fig'])
  copyFileSync(join(folder, 'node.key'), join(other, 'node.key'))
  await recorded(other, ['pear', 'plum'])
  copyFileSync(join(other, 'ledger.db'), join(folder, 'ledger.db'))
  const another = 'the first 2 blocks of the store are not those that this node has signed'
  expect(await found(folder)).toEqual([1, nowhere(another)])
  // Like a backup, the copy lacks the files that only a node writes.
  for (const name of ['signed-head', 'ledger.lock']) rmSync(join(folder, name))
  expect(await found(folder)).toEqual([0, null])
})

it('reports each change of node.key or signed-head, and how to repair it', async () => {
  const [folder, other] = [temporaryFolder(), temporaryFolder()]
  await recorded(folder, ['fig'])
  await recorded(other, ['fig'])
  const [key, head] = [join(folder, 'node.key'), join(folder, 'signed-head')]
  const [ownKey, note] = [readFileSync(key), readFileSync(head, 'utf8')]
  const [text = '', signature = ''] = note.split('\n\n')
  const [origin = '', size] = text.split('\n')
  const otherKey = readFileSync(join(other, 'node.key'))
  const otherNote = readFileSync(join(other, 'signed-head'), 'utf8')
  const otherOrigin = otherNote.slice(0, otherNote.indexOf('\n'))
  const [serverId, otherId] = [origin, otherOrigin].map((name) => name.slice('daicho/'.length))
  const otherSignature = otherNote.split('\n\n')[1]
  const signatureBytes = Buffer.from(signature.split(' ')[2] ?? '', 'base64')
  signatureBytes[40] = (signatureBytes[40] ?? 0) ^ 1
  const compare =
    'compare the chain with a peer or an auditor, then move the file away and start the node'
  const put = 'so no node can continue this chain: put the key back'
  const wrongSignature =
    'the signature in signed-head is wrong: the file was changed after it was signed; '
  const damaged = 'signed-head is not the signed head of a log: the file was changed; '

  expect(await found(folder)).toEqual([0, null])
  const changes: readonly [path: string, content: string | Buffer | null, what: string][] = [
    [
      key,
      null,
      `node.key is missing, ${put}; if it is lost, restore the data under a new key with ` +
        'daicho restore --key or daicho import --key',
    ],
    [key, 'no key', `node.key is not an Ed25519 key, ${put}`],
    [
      key,
      otherKey,
      `node.key is the key of server id ${otherId}, and the store has the chain of ${serverId}: ` +
        'put back the key of this chain',
    ],
    [
      head,
      null,
      'signed-head is missing, so verify cannot tell whether the chain in this folder was rolled back or ' +
        'replaced: compare the head of the chain with the head that a peer, an auditor or a saved ' +
        'checkpoint shows; then start the node, which writes the file',
    ],
    [head, 'no head', `${damaged}${compare}`],
    [head, `${note}— x`, `${damaged}${compare}`],
    [
      head,
      otherNote,
      `signed-head belongs to the log ${otherOrigin}, but the store contains the log ${origin}: put back the signed-head of this node`,
    ],
    [
      head,
      `${text}\n\n${otherSignature}`,
      `signed-head is not signed by node.key: another node has written the file; ${compare}`,
    ],
    [
      head,
      `${text}\n\n— ${origin} ${signatureBytes.toString('base64')}\n`,
      `${wrongSignature}${compare}`,
    ],
    [head, note.replace(`\n${size}\n`, '\n1\n'), `${wrongSignature}${compare}`],
    [
      head,
      `${text}\n`,
      `signed-head is not the signed head of a log: the file was changed; ${compare}`,
    ],
  ]
  for (const [path, content, what] of changes) {
    if (content === null) rmSync(path)
    else writeFileSync(path, content)
    expect(await found(folder)).toEqual([1, nowhere(what)])
    writeFileSync(path, path === key ? ownKey : note)
  }
})
