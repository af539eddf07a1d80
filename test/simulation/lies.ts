import { canonicalJson } from '../../src/base/canonical-json.ts'
import { isJsonObject, type Json } from '../../src/base/json.ts'
import {
  type Block,
  type Head,
  parseBlockParts,
  provenBlockJson,
  sealBlock,
  toHead,
} from '../../src/chain/index.ts'
import type { Answer, Sent } from './network.ts'
import type { SignedHistory } from './simulated-node.ts'
import type { World } from './world.ts'

/** Probability that a successful reply to the victim is changed. */
const SHARE = 0.5

type Blocks = Json[]

/** Changes the replies that one node receives. */
export class Lies {
  readonly #world: World
  readonly #victim: string
  /** Signed heads of all chains so far, with the ids of their blocks. */
  readonly #signed: readonly SignedHistory[]

  constructor(world: World, victim: string, signed: readonly SignedHistory[]) {
    this.#world = world
    this.#victim = victim
    this.#signed = signed
  }

  tell(caller: string, { method, url }: Sent, answer: Answer): Answer {
    const world = this.#world
    const isSpoiled = caller === this.#victim && method === 'GET' && answer.status === 200
    if (!isSpoiled || !world.happens(SHARE)) return answer
    const { pathname } = url
    if (pathname === '/api/ledgers') return this.#blocks(answer)
    if (pathname.endsWith('/checkpoint')) return this.#note(answer)
    world.note(`lie: ${pathname.split('/').pop()}`)
    if (pathname.endsWith('/consistency')) {
      const hash = world.bytes(32).toString('base64')
      return { ...answer, body: Buffer.from(`{"status":true,"proof":["${hash}"]}`) }
    }
    return { ...answer, body: world.bytes(answer.body.length) }
  }

  #note(answer: Answer): Answer {
    const world = this.#world
    const kind = world.one(['older', 'foreign root'] as const)
    world.note(`lie: note, ${kind}`)
    if (kind === 'older' && this.#signed.length > 0) {
      return { ...answer, body: Buffer.from(world.one(this.#signed).note) }
    }
    const lines = answer.body.toString().split('\n')
    lines[2] = world.bytes(32).toString('base64')
    return { ...answer, body: Buffer.from(lines.join('\n')) }
  }

  #blocks(answer: Answer): Answer {
    const world = this.#world
    const reply = JSON.parse(answer.body.toString())
    const blocks: Blocks = reply.ledgers
    const at = world.between(0, blocks.length)
    const kind = world.one([
      'entry',
      'link',
      'sealed anew',
      'left out',
      'swapped',
      'short',
    ] as const)
    world.note(`lie: blocks, ${kind}`)
    if (kind === 'short') return { ...answer, body: answer.body.subarray(0, -7) }
    if (kind === 'entry') changed(blocks[at])
    else if (kind === 'link') Object.assign(blocks[at] ?? {}, { prev_id: 'ab'.repeat(64) })
    else if (kind === 'sealed anew') return { ...answer, body: sealedAnew(blocks, at) }
    else if (kind === 'left out') blocks.splice(at, 1)
    else blocks.reverse()
    return { ...answer, body: Buffer.from(JSON.stringify(reply)) }
  }
}

/** Changes an item in a block, so that the hashes of the block no longer match. */
function changed(value: Json | undefined): void {
  const body = isJsonObject(value ?? null) ? (value as { body: Json[] }).body : []
  const entry = body.find((one) => isJsonObject(one) && isJsonObject(one.item ?? null))
  Object.assign((entry as { item?: object } | undefined)?.item ?? {}, { forged: true })
}

/**
 * Returns a page of blocks with a changed item. All blocks from `at` on are sealed again, so the page is
 * consistent, but no signed head covers it.
 */
function sealedAnew(values: Blocks, at: number): Buffer {
  changed(values[at])
  let head: Head | null = null
  const texts = values.map((value, index) => {
    const parts = parseBlockParts(value)
    if (typeof parts === 'string') throw new Error(parts)
    const first = parts.body[0]
    const serverId = isJsonObject(first ?? null)
      ? Number((first as { serverid: Json }).serverid)
      : 0
    const entries = parts.body.map(canonicalJson)
    let block: Block = { ...parts, serverId, entries }
    const before: Head | null =
      head ??
      (parts.prevId === null ? null : { height: parts.height - 1, id: parts.prevId, timestamp: 0 })
    if (index >= at) block = sealBlock(before, block)
    head = toHead(block)
    return provenBlockJson(block)
  })
  return Buffer.from(`{"status":true,"ledgers":[${texts.join(',')}],"limit":1,"offset":0}`)
}
