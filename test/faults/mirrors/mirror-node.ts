import { hash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { treeBytes } from '../../fuzz/watch.ts'
import type { Dice } from '../../support/ledger-load.ts'
import { type Daicho, type Ended, startProgram } from '../../support/program.ts'

const VARIABLES = { LOG_LEVEL: 'error', PEERS_ALLOW_PRIVATE: '1', PEERS_INTERVAL_MS: '500' }
const REQUEST_MS = 20_000
const ITEMS_MAX = 300
const PAGE = 100

/** The acknowledged state of an item: its text, or null if it was deleted; the SHA-256 of its attachments by name. */
interface Known {
  readonly text: string | null
  readonly attachments: ReadonlyMap<string, string>
}

/** A node in a process of its own, with a client that remembers what the node has acknowledged. */
export class MirrorNode {
  readonly name: string
  readonly folder: string
  /** The acknowledged items by `<db>/<id>`. An item whose last request has no reply is not in the map. */
  readonly acknowledged = new Map<string, Known>()
  url = ''
  vkey = ''
  serverId = 0
  writes = 0
  peakMiB = 0
  /** Number of times that the process ended without being killed. */
  crashes = 0
  readonly #dice: Dice
  #daicho: Daicho | null = null
  readonly #watch = setInterval(() => {
    const pid = this.#daicho?.child.pid
    if (pid !== undefined)
      this.peakMiB = Math.max(this.peakMiB, Math.round(treeBytes(pid) / 2 ** 20))
  }, 100).unref()

  constructor(name: string, folder: string, dice: Dice) {
    this.name = name
    this.folder = folder
    this.#dice = dice
    mkdirSync(folder, { recursive: true })
  }

  async start(): Promise<void> {
    const args = ['serve', '--only', 'ledger', '--port', '0', '--json']
    const daicho = startProgram(args, { ...VARIABLES, SYSTEM_FOLDER: this.folder })
    this.#daicho = daicho
    void daicho.ended.then(({ code, stderr }) => {
      if (this.#daicho !== daicho) return
      this.#daicho = null
      this.crashes += 1
      console.log(`${this.name} ended with ${code}: ${stderr}`)
    })
    this.url = JSON.parse(await daicho.firstLine).ledger
    const { serverid } = JSON.parse((await this.send('GET', '/api/serverid')).text)
    this.serverId = serverid
    this.vkey = (await this.send('GET', `/api/ledgers/${serverid}/vkey`)).text.trim()
  }

  async kill(): Promise<void> {
    const daicho = this.#daicho
    this.#daicho = null
    daicho?.child.kill('SIGKILL')
    await daicho?.ended
  }

  async send(method: string, path: string, body?: string, type = 'application/json') {
    const init = body === undefined ? {} : { body, headers: { 'content-type': type } }
    const signal = AbortSignal.timeout(REQUEST_MS)
    const reply = await fetch(this.url + path, { method, signal, ...init })
    return { status: reply.status, text: await reply.text() }
  }

  async addPeer(peer: object): Promise<void> {
    const { status, text } = await this.send('POST', '/api/config/peers', JSON.stringify(peer))
    if (status !== 200) throw new Error(text)
  }

  /** Changes items at random until `endMs`. */
  async writeUntil(endMs: number): Promise<void> {
    for (let n = 0; Date.now() < endMs; n += 1) {
      await this.#change(n)
      await sleep(this.#dice.below(40))
    }
  }

  async #change(n: number): Promise<void> {
    const dice = this.#dice
    const db = `d${dice.below(3)}`
    const id = `i${dice.below(ITEMS_MAX)}`
    const key = `${db}/${id}`
    const before = this.acknowledged.get(key)
    this.acknowledged.delete(key)
    const path = `/api/${db}/${id}`
    const kind = dice.below(20)
    const attachments = new Map(before?.attachments)
    try {
      if (kind === 0 && dice.below(20) === 0) return await this.#deleteDatabase(db)
      if (kind < 9 || before === undefined || before.text === null) {
        const item = { id, n, text: 'x'.repeat(dice.below(2_000)), '"\n': ['é', { deep: [n] }] }
        await this.send('POST', `/api/${db}`)
        const exists = (await this.send('GET', path)).status === 200
        const reply = await this.send('POST', exists ? path : `/api/${db}`, JSON.stringify(item))
        if (reply.status !== 200) return
        // Without knowledge of the item, its attachments are unknown, too.
        if (exists && before === undefined) return void (await this.#read(key))
        this.#acknowledge(key, JSON.stringify(item), exists ? attachments : new Map())
      } else if (kind < 12) {
        if ((await this.send('DELETE', path)).status === 200)
          this.#acknowledge(key, null, new Map())
      } else if (kind < 14) {
        const { status } = await this.send('POST', `${path}/erase`, '{}')
        if (status === 200 || status === 422) this.#acknowledge(key, before.text, attachments)
      } else {
        const name = `n${dice.below(3)}`
        const at = `${path}/attachments/${name}`
        const content = `${n} ${'y'.repeat(dice.below(30_000))}`
        const isRemoved = kind > 17 && attachments.has(name)
        const reply = await (isRemoved
          ? this.send('DELETE', at)
          : this.send('PUT', at, content, 'text/plain'))
        if (reply.status !== 200) return
        if (isRemoved) attachments.delete(name)
        else attachments.set(name, hash('sha256', content))
        this.#acknowledge(key, before.text, attachments)
      }
    } catch {
      // The node was killed, so the outcome is unknown.
      await sleep(200)
    }
  }

  #acknowledge(key: string, text: string | null, attachments: ReadonlyMap<string, string>): void {
    this.writes += 1
    this.acknowledged.set(key, { text, attachments })
  }

  async #deleteDatabase(db: string): Promise<void> {
    for (const key of this.acknowledged.keys()) {
      if (key.startsWith(`${db}/`)) this.acknowledged.delete(key)
    }
    await this.send('DELETE', `/api/${db}`)
  }

  /** Reads an item and its attachments, whose last acknowledged state is unknown. */
  async #read(key: string): Promise<void> {
    const { text } = await this.send('GET', `/api/${key}`)
    this.#acknowledge(key, JSON.stringify(JSON.parse(text).item), await this.#attachmentsOf(key))
  }

  async #attachmentsOf(key: string): Promise<Map<string, string>> {
    const { status, text } = await this.send('GET', `/api/${key}/attachments`)
    const list: { name: string; sha256: string }[] =
      status === 200 ? JSON.parse(text).attachments : []
    return new Map(list.map(({ name, sha256 }) => [name, sha256]))
  }

  /** Returns what differs from the acknowledged items. */
  async missing(acknowledged: ReadonlyMap<string, Known>): Promise<string[]> {
    const found: string[] = []
    for (const [key, { text, attachments }] of acknowledged) {
      const reply = await this.send('GET', `/api/${key}`)
      const current = reply.status === 200 ? sorted(JSON.parse(reply.text).item) : null
      if (current !== (text === null ? null : sorted(JSON.parse(text))))
        found.push(`${key} differs`)
      if (text === null) continue
      const stored = await this.#attachmentsOf(key)
      for (const [name, sha256] of attachments) {
        if (stored.get(name) !== sha256) found.push(`attachment ${name} of ${key} differs`)
        const content = await this.send('GET', `/api/${key}/attachments/${name}`)
        if (content.status !== 200 || hash('sha256', content.text) !== sha256) {
          found.push(`the content of ${name} of ${key} is wrong: ${content.status}`)
        }
      }
    }
    return found
  }

  /** Returns all items of all databases, with the SHA-256 of their attachments. */
  async state(): Promise<string> {
    const { dbs } = JSON.parse((await this.send('GET', '/api/dbs')).text)
    const lines: string[] = []
    for (const db of dbs.toSorted()) {
      for (let offset = 0; ; offset += PAGE) {
        const page = `/api/${db}?filter=${encodeURIComponent(JSON.stringify({ limit: PAGE, skip: offset }))}`
        const { items = [] } = JSON.parse((await this.send('GET', page)).text)
        for (const item of items) {
          const attachments = [...(await this.#attachmentsOf(`${db}/${item.id}`))].sort()
          lines.push(`${db} ${sorted(item)} ${JSON.stringify(attachments)}`)
        }
        if (items.length < PAGE) break
      }
    }
    return lines.join('\n')
  }

  async idAt(height: number): Promise<string> {
    const path = `/api/ledgers?serverid=${this.serverId}&offset=${height}&limit=1`
    return JSON.parse((await this.send('GET', path)).text).ledgers[0]?.id
  }

  /** Returns why this node does not have the whole chain of `of` with its blobs, or an empty text. */
  async lag(of: MirrorNode): Promise<string> {
    const chain = `/api/ledgers/${of.serverId}`
    const own = (await of.send('GET', `${chain}/checkpoint`)).text
    const mirrored = (await this.send('GET', `${chain}/checkpoint`)).text
    const [, size] = own.split('\n')
    const blocks = `/api/ledgers?serverid=${of.serverId}&offset=${Number(size) - 1}&limit=1&proof=1`
    const [there, here] = [await of.send('GET', blocks), await this.send('GET', blocks)]
    const { peers } = JSON.parse((await this.send('GET', '/api/config/peers')).text)
    const sources: { serverid: number; state: string }[] = peers.filter(
      (one: { serverid: number }) => one.serverid === of.serverId,
    )
    const shown = JSON.stringify(sources)
    if (there.text !== here.text) return `it lacks block ${Number(size) - 1}: ${shown}`
    if (own !== mirrored) return `its head is ${mirrored.split('\n')[1]} of ${size}: ${shown}`
    const { absent } = JSON.parse((await this.send('GET', `${chain}/attachments`)).text)
    if (absent.length > 0) return `${absent.length} blobs are missing: ${shown}`
    return sources.every(({ state }) => state === 'current') ? '' : `a peer fails: ${shown}`
  }

  restore(from: string, of: MirrorNode, withKey: boolean): Promise<Ended> {
    const key = withKey ? [] : ['--key', of.vkey]
    const args = ['restore', '--from', from, '--serverid', `${of.serverId}`, '--json', ...key]
    return startProgram(args, { ...VARIABLES, SYSTEM_FOLDER: this.folder }).ended
  }

  async verify(): Promise<number | string | null> {
    const { code, stdout } = await startProgram(['verify', this.folder], VARIABLES).ended
    clearInterval(this.#watch)
    return code === 0 ? 0 : stdout
  }
}

/** Returns the text of `value` with sorted members. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_, member) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  )
}
