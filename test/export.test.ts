// A random history of a node survives an export and an import. The new node returns the same bytes as the old node
// and continues the chain.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { exportLines, importExport } from '../src/ledger/core.ts'
import { openStoreReader } from '../src/storage/index.ts'
import { runDaicho } from './support/daicho.ts'
import {
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from './support/ledger-node.ts'
import { roundsOf } from './support/rounds.ts'

const dbName = fc.constantFrom('fruit', 'tools', '台帳', 'constructor')
const itemId = fc.constantFrom('fig', '🍎', '__proto__x', 'toString', '10')
const content = fc.dictionary(
  fc.constantFrom('a', 'b', 'valueOf', '', 'é'),
  fc.oneof(
    fc.integer(),
    fc.double({ noDefaultInfinity: true, noNaN: true, max: 1e15, min: -1e15 }),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
    fc.constant(null),
    fc.array(fc.record({ deep: fc.boolean() }), { maxLength: 2 }),
  ),
  { maxKeys: 4, noNullPrototype: true },
)
/** A request that changes data, or that the node refuses. */
const request: fc.Arbitrary<[method: string, path: string, body?: unknown]> = fc.oneof(
  fc.tuple(fc.constant('POST'), dbName.map(pathOf)),
  fc.tuple(fc.constant('DELETE'), dbName.map(pathOf)),
  fc.tuple(fc.constant('POST'), dbName.map(pathOf), content),
  fc.tuple(fc.constant('POST'), dbName.map(pathOf), fc.array(content, { maxLength: 5 })),
  fc
    .tuple(dbName, itemId, content)
    .map(([db, id, item]): [string, string, unknown] => ['POST', pathOf(db), { ...item, id }]),
  fc.tuple(
    fc.constantFrom('POST', 'PATCH', 'DELETE'),
    fc.tuple(dbName, itemId).map(([db, id]) => `${pathOf(db)}/${encodeURIComponent(id)}`),
    content,
  ),
)

function pathOf(db: string): string {
  return `/api/${encodeURIComponent(db)}`
}

/** Sends every documented read request. Returns the replies as text, with the headers of items. */
async function replies(node: LedgerNode): Promise<string[]> {
  const texts: string[] = []
  const read = async (path: string) => {
    const { status, text, headers, json } = await node.send('GET', path)
    texts.push([path, status, text, headers.get('etag'), headers.get('ledger-position')].join(' '))
    return json
  }
  const { serverid } = await read('/api/serverid')
  const { dbs } = await read('/api/dbs')
  for (const db of dbs) {
    await read(`${pathOf(db)}?docs=true`)
    await read(`${pathOf(db)}?limit=2&offset=1`)
    const { items } = await read(pathOf(db))
    for (const id of items) await read(`${pathOf(db)}/${encodeURIComponent(id)}`)
  }
  await read(`/api/ledgers?serverid=${serverid}`)
  await read(`/api/ledgers?serverid=${serverid}&proof=1`)
  return texts
}

/** Exports `folder`, imports the export into a new folder with the same key, and returns the new folder. */
async function moved(folder: string, finished: (remove: () => void) => void): Promise<string> {
  const target = temporaryFolder(finished)
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const store = await openStoreReader(folder, { frozen: false })
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const text of exportLines(store, folder, () => {})) yield Buffer.from(text)
  }
  await importExport({ folder: target, chunks: chunks(), progress: () => {} })
  await store.close()
  return target
}

it('any history is unchanged after export and import, and the new node accepts the same later changes', async () => {
  const cleanUps: (() => void)[] = []
  const finished = (remove: () => void) => cleanUps.push(remove)
  await fc.assert(
    fc.asyncProperty(fc.array(request, { maxLength: 25 }), async (history) => {
      const folder = temporaryFolder(finished)
      const clock = new HandClock()
      const node = await startLedgerNode({ folder, clock })
      for (const [method, path, body] of [['POST', '/api/fruit'] as const, ...history]) {
        clock.time += 1
        await node.send(method, path, method === 'DELETE' ? undefined : body)
      }
      // Exports while the source node runs.
      const target = await moved(folder, finished)
      const copy = await startLedgerNode({ folder: target, clock })
      expect(await replies(copy)).toEqual(await replies(node))
      for (const one of [node, copy]) {
        expect((await one.send('POST', '/api/after')).status).toBe(200)
        expect((await one.send('POST', '/api/after', { id: 'x' })).status).toBe(200)
        await one.close()
      }
      const [was, is] = [await verifyFolder(folder), await verifyFolder(target)]
      expect(is.finding).toBeNull()
      expect({ ...is, headId: '' }).toEqual({ ...was, headId: '' })
    }),
    { numRuns: roundsOf(12) },
  )
  for (const cleanUp of cleanUps) cleanUp()
})

it('`import` counts the blobs that the export does not contain', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/d')
  await node.send('POST', '/api/d', { id: 'a' })
  const body = new Uint8Array([1])
  const headers = { 'content-type': 'text/plain' }
  await fetch(`${node.url}/api/d/a/attachments/x`, { method: 'PUT', body, headers })
  await node.close()
  const restored = temporaryFolder()
  const file = join(restored, 'chain.ndjson')
  expect((await runDaicho(['export', folder, '--out', file])).code).toBe(0)
  copyFileSync(join(folder, 'node.key'), join(restored, 'node.key'))
  const { code, stdout } = await runDaicho(['import', file, '--folder', restored])
  expect(code).toBe(0)
  expect(stdout).toContain('attached   1 blob, not in the export: copy the folder attachments')
})
