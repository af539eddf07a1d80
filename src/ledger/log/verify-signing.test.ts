import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { openStoreReader } from '../../storage/index.ts'
import { readSigningFiles, signingFinding } from './verify-signing.ts'

/** Files without content. */
const LOCKS = ['ledger.lock', 'ledger.lock-journal']

it('finds one flipped bit in the key and in the signed head, and names the file', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  await node.close()
  // `verify` compares each new file with the chain, or this test states why it does not.
  const files = readdirSync(folder).filter((name) => !LOCKS.includes(name))
  expect(files.toSorted()).toEqual(['ledger.db', 'node.key', 'signed-head'])

  const store = await openStoreReader(folder, { frozen: true })
  onTestFinished(() => store.close())
  const found = () => signingFinding(store, readSigningFiles(folder))
  expect(await found()).toBeNull()
  const { serverId } = store
  for (const name of ['node.key', 'signed-head']) {
    const path = join(folder, name)
    const content = readFileSync(path)
    for (const [at, byte] of content.entries()) {
      for (let bit = 0; bit < 8; bit += 1) {
        const changed = Buffer.from(content)
        changed[at] = byte ^ (1 << bit)
        writeFileSync(path, changed)
        const finding = await found()
        if (finding !== null) expect(finding).toContain(name)
        // A changed line end or version of the PEM form, but the same key.
        else expect([name, readSigningFiles(folder).key]).toMatchObject(['node.key', { serverId }])
      }
    }
    writeFileSync(path, content)
  }
})
