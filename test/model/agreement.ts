// Checks over HTTP and on disk that a node matches the model.
import { expect } from 'vitest'
import { canonicalJson } from '../../src/base/canonical-json.ts'
import { isJsonObject, type JsonObject } from '../../src/base/json.ts'
import type { Position } from '../../src/chain/entry.ts'
import { storedBlobs } from '../support/engine.ts'
import type { LedgerNode } from '../support/ledger-node.ts'
import { type Asking, found } from './filters.ts'
import { DATABASES, pathOf } from './requests.ts'
import { attachmentIn, current, type Item, live, positionText, type State, shaOf } from './state.ts'

/** Checks databases, items, lists, histories, attachments, the ledger and the blobs. */
export async function expectAll(state: State, node: LedgerNode, folder: string): Promise<void> {
  const { dbs } = (await node.send('GET', '/api/dbs')).json
  expect(dbs).toEqual([...state.dbs.keys()])
  for (const db of DATABASES) await expectDatabase(state, node, db)
  await expectLedger(state, node)
  expect(await storedBlobs(folder)).toEqual([...state.contents].map(shaOf).toSorted())
}

/** Checks a database: its whole list, pages of the list, and each item. */
export async function expectDatabase(state: State, node: LedgerNode, db: string): Promise<void> {
  const list = `/api/${encodeURIComponent(db)}`
  const items = state.dbs.get(db)
  if (items === undefined) {
    for (const path of [list, pathOf(db, 'fig'), `${pathOf(db, 'fig')}/history`]) {
      const { status, json } = await node.send('GET', path)
      expect([path, status, json.code]).toEqual([path, 404, 'DATABASE_NOT_FOUND'])
    }
    return
  }
  const ids = live(items).map(([id]) => id)
  const docs = live(items).map(([, item]) => canonicalJson(item))
  const listText = async (query: string) => (await node.send('GET', list + query)).text
  const listed = (part: readonly string[], limit: number, offset: number) =>
    `"items":${JSON.stringify(part)},"limit":${limit},"offset":${offset}}`
  expect(await listText('')).toBe(`{"status":true,${listed(ids, 0, 0)}`)
  expect(await listText('?docs=1')).toBe(`{"status":true,"docs":[${docs}],${listed(ids, 0, 0)}`)
  expect(await listText('?limit=2&offset=1')).toBe(
    `{"status":true,${listed(ids.slice(1, 3), 2, 1)}`,
  )
  for (const [at, after] of ids.entries()) {
    const { json } = await node.send('GET', `${list}?limit=2&after=${encodeURIComponent(after)}`)
    expect(json.items).toEqual(ids.slice(at + 1, at + 3))
  }
  await Promise.all([...items].map(([id, item]) => expectItem(state, node, db, id, item)))
  const never = await node.send('GET', `${pathOf(db, 'never')}/history`)
  expect([never.status, never.json.code]).toEqual([404, 'ITEM_NOT_FOUND'])
}

async function expectItem(
  state: State,
  node: LedgerNode,
  db: string,
  id: string,
  item: Item,
): Promise<void> {
  const path = pathOf(db, id)
  const is = current(item)
  const { status, text, headers } = await node.send('GET', path)
  expect([path, status, text, headers.get('etag')]).toEqual(
    is === null
      ? [path, 404, '{"status":false}', null]
      : [path, 200, itemText(is.item), `"${positionText(is.at)}"`],
  )
  await expectHistory(state, node, path, item)
  if (is !== null) await expectAttachments(node, db, id, item)
  else {
    const reply = await node.send('GET', `${path}/attachments`)
    expect([path, reply.status, reply.json.code]).toEqual([path, 404, 'ITEM_NOT_FOUND'])
  }
}

const itemText = (item: JsonObject) => `{"status":true,"item":${canonicalJson(item)}}`

async function expectHistory(
  state: State,
  node: LedgerNode,
  path: string,
  { revisions }: Item,
): Promise<void> {
  const expected = revisions.map(({ at, timestamp, method, item }) => ({
    position: positionText(at),
    timestamp,
    method,
    ...(item === null ? {} : { item }),
  }))
  const read = async (query: string) => (await node.send('GET', `${path}/history${query}`)).json
  expect((await read('')).history).toEqual(expected)
  expect((await read('?order=newest')).history).toEqual(expected.toReversed())
  const paged: unknown[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await read(`?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
    paged.push(...page.history)
    cursor = page.cursor
  }
  expect(paged).toEqual(expected)
  // Checks the item at the heights that changed it, and at the heights before and after.
  const top = state.entries.at(-1)?.at.height ?? -1
  const near = revisions.flatMap(({ at: { height } }) => [height - 1, height, height + 1])
  for (const height of new Set([0, ...near, top])) {
    if (height < 0 || height > top) continue
    const then = itemThen(state, path, height)
    const { status, text, headers } = await node.send('GET', `${path}?at=${height}`)
    expect([path, height, status, text, headers.get('etag')]).toEqual(
      then === null
        ? [path, height, 404, '{"status":false}', null]
        : [path, height, 200, itemText(then.item), `"${positionText(then.at)}"`],
    )
  }
  const later = await node.send('GET', `${path}?at=${top + 1}`)
  expect([later.status, later.json.code]).toEqual([404, 'HEIGHT_UNKNOWN'])
}

/** Returns the item at `path` after the block of `height`, also one of a database that was deleted later. */
function itemThen(
  { entries }: State,
  path: string,
  height: number,
): { readonly item: JsonObject; readonly at: Position } | null {
  let then: { readonly item: JsonObject; readonly at: Position } | null = null
  for (const { at, entry } of entries) {
    if (at.height > height) break
    const { method, db, item } = entry
    const isOfDatabase = method === 'create_db' || method === 'delete_db'
    if (isOfDatabase && path.startsWith(pathOf(String(db), ''))) then = null
    if (method === 'delete_item' && path === pathOf(String(db), String(entry.id))) then = null
    if (isJsonObject(item) && path === pathOf(String(db), String(item.id))) then = { item, at }
  }
  return then
}

async function expectAttachments(
  node: LedgerNode,
  db: string,
  id: string,
  { attached }: Item,
): Promise<void> {
  const bytewise = [...attached.values()].toSorted((a, b) =>
    Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)),
  )
  const { json } = await node.send('GET', `${pathOf(db, id)}/attachments`)
  expect(json.attachments).toEqual(bytewise.map(attachmentIn))
  for (const { name, content_type, sha256, text, at } of bytewise) {
    const reply = await node.send('GET', pathOf(db, id, name))
    const { headers } = reply
    const position = `${node.service.serverId}/${positionText(at)}`
    expect([name, reply.status, headers.get('content-type'), headers.get('etag')]).toEqual([
      ...[name, 200, content_type, `"${sha256}"`],
    ])
    expect([headers.get('ledger-position'), reply.text === text]).toEqual([position, true])
  }
  const none = await node.send('GET', pathOf(db, id, 'none'))
  expect([none.status, none.json.code]).toEqual([404, 'ATTACHMENT_NOT_FOUND'])
}

/**
 * Checks the chain: the position and time of each entry, the links between blocks, and the ids that replies
 * contained.
 */
async function expectLedger(state: State, node: LedgerNode): Promise<void> {
  const { serverId } = node.service
  const { ledgers } = (await node.send('GET', `/api/ledgers?serverid=${serverId}`)).json
  const entries: unknown[] = []
  let previous: string | null = null
  for (const [height, { prev_id, id, body, timestamps }] of ledgers.entries()) {
    expect([height, prev_id]).toEqual([height, previous])
    previous = id
    for (const [index, { serverid, ...entry }] of body.entries()) {
      expect(serverid).toBe(serverId)
      entries.push({ at: { height, index }, timestamp: timestamps[index], entry })
    }
  }
  expect(entries).toEqual(state.entries)
  for (const { answer } of state.answers.values()) {
    const { block } = answer.json
    if (block !== undefined) expect(block.id).toBe(ledgers[block.height].id)
  }
}

/** Checks the results of a filter, which may use an index. */
export async function expectFound(
  state: State,
  node: LedgerNode,
  db: string,
  asking: Asking,
): Promise<void> {
  const filter = encodeURIComponent(JSON.stringify(asking))
  const list = `/api/${encodeURIComponent(db)}?docs=1&filter=${filter}`
  const { status, json } = await node.send('GET', list)
  const items = state.dbs.get(db)
  if (items === undefined) {
    expect([status, json.code]).toEqual([404, 'DATABASE_NOT_FOUND'])
    return
  }
  const ids = found(
    live(items).map(([, item]) => item),
    asking,
  )
  expect(json.items).toEqual(ids)
  expect(json.docs).toEqual(ids.map((id) => current(items.get(id))?.item))
}
