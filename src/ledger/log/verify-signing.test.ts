import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { positions } from '../../../test/support/rounds.ts'
import { openStoreReader } from '../../storage/index.ts'
import { readSigningFiles, signingFinding } from './verify-signing.ts'

/** A file without content, which cannot be damaged, and one whose pages have check sums and are made again from the chain. */
const UNCHECKED = ['ledger.lock', 'state.db']

it('reports any flipped bit in the key or the signed head with the name of the file', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit')
  await node.close()
  // Fails if a data folder has a new file: either `verify` must check the file, or this test must say why not.
  const files = readdirSync(folder).filter((name) => !UNCHECKED.includes(name))
  expect(files.toSorted()).toEqual(['ledger.db', 'node.key', 'signed-head'])

  const store = await openStoreReader(folder, { frozen: true })
  onTestFinished(() => store.close())
  const found = () => signingFinding(store, readSigningFiles(folder))
  expect(await found()).toBeNull()
  const { serverId } = store
  for (const name of ['node.key', 'signed-head']) {
    const path = join(folder, name)
    const content = readFileSync(path)
    for (const at of positions(content)) {
      for (let bit = 0; bit < 8; bit += 1) {
        const changed = Buffer.from(content)
        changed[at] = (content[at] ?? 0) ^ (1 << bit)
        writeFileSync(path, changed)
        const finding = await found()
        if (finding !== null) expect(finding).toContain(name)
        // The bit is in a part of the PEM text, such as a line end, that does not change the key.
        else expect([name, readSigningFiles(folder).key]).toMatchObject(['node.key', { serverId }])
      }
    }
    writeFileSync(path, content)
  }
})
