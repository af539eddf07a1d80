import { hash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import {
  type LedgerNode,
  type LedgerNodeOptions,
  type Reply,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from './ledger-node.ts'

/** Path of the item to which the attachments belong. */
export const ITEM = '/api/fruit/a'
/** Headers of an upload without a specific type. */
export const BYTES = { 'content-type': 'application/octet-stream' }

export const shaOf = (bytes: string | Uint8Array): string => hash('sha256', bytes, 'hex')
/** Returns the path of a blob below the folder `attachments`. */
export const fileOf = (text: string): string => `${shaOf(text).slice(0, 2)}/${shaOf(text).slice(2)}`

/** A node with the item ITEM. Its methods send requests for attachments of the item. */
export class AttachedNode {
  readonly folder: string
  readonly node: LedgerNode

  private constructor(folder: string, node: LedgerNode) {
    this.folder = folder
    this.node = node
  }

  /** Starts a node. After the test, closes the node and verifies its store. */
  static async start(options: LedgerNodeOptions = {}): Promise<AttachedNode> {
    const folder = temporaryFolder()
    const node = await startLedgerNode({ folder, ...options })
    onTestFinished(async () => {
      await node.close()
      expect((await verifyFolder(folder)).finding).toBeNull()
    })
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'a' })
    return new AttachedNode(folder, node)
  }

  put(
    name: string,
    body: string | Uint8Array,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const path = `${ITEM}/attachments/${encodeURIComponent(name)}`
    return this.node.send('PUT', path, body, { ...BYTES, ...headers })
  }

  get(name: string, headers: Record<string, string> = {}): Promise<Reply> {
    const path = `${ITEM}/attachments/${encodeURIComponent(name)}`
    return this.node.send('GET', path, undefined, headers)
  }

  async names(): Promise<string[]> {
    const { attachments } = (await this.node.send('GET', `${ITEM}/attachments`)).json
    return attachments.map(({ name }: { name: string }) => name)
  }

  /** Returns the files of blobs and of incomplete uploads, relative to the folder `attachments`. */
  files(): string[] {
    const path = join(this.folder, 'attachments')
    if (!existsSync(path)) return []
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
      .toSorted()
  }

  /** Returns the entries after the creation of the item. */
  // biome-ignore lint/suspicious/noExplicitAny: entries as received
  async entries(): Promise<any[]> {
    const path = `/api/ledgers?serverid=${this.node.service.serverId}&offset=2`
    const { ledgers } = (await this.node.send('GET', path)).json
    return ledgers.flatMap(({ body }: { body: unknown[] }) => body)
  }
}
