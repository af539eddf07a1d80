import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { provenBlockJson, sealBlock } from '../../src/chain/index.ts'
import { type HostileNode, hugeLists } from '../support/hostile-node.ts'
import type { Dice } from '../support/ledger-load.ts'
import { mutated } from '../support/mutations.ts'

/** Default bytes of the longest texts. */
const HUGE_BYTES = 60_000_000
/** One of this many replies is huge. */
const HUGE_EVERY = 200
const VALUES = ['null', '[]', '{}', '-1', '1e99', '9007199254740993', '"x"', '[[[]]]', '[null]']

/** Makes the messages of hostile nodes, relays, witnesses and sources of rates. */
export class HostileMessages {
  readonly #dice: Dice
  readonly #huge: readonly { page: Buffer; push: Buffer }[]
  readonly #bomb = gzipSync(Buffer.alloc(150_000_000))

  constructor(dice: Dice, hugeBytes: number = HUGE_BYTES) {
    this.#dice = dice
    this.#huge = Object.values(hugeLists(hugeBytes)).map(({ page, push }) => ({
      page: gzipSync(page, { level: 1 }),
      push: Buffer.from(push),
    }))
  }

  /** Sends a generated reply that resembles the reply to `path`. */
  reply(path: string, node: HostileNode, reply: ServerResponse): void {
    const dice = this.#dice
    const gzip = { 'content-encoding': 'gzip' }
    if (dice.below(HUGE_EVERY) === 0) {
      const huge = this.#one(this.#huge)
      return void reply.writeHead(200, gzip).end(dice.below(4) === 0 ? this.#bomb : huge.page)
    }
    const body = this.#resembling(path, node)
    switch (dice.below(12)) {
      case 0:
        return void reply.writeHead(200).end(randomBytes(dice.below(70_000)))
      case 1:
        return void reply.writeHead(200, gzip).end(body)
      case 2:
        return void reply
          .writeHead(200 + dice.below(400), { location: 'http://10.0.0.1/' })
          .end(body)
      case 3:
        reply.writeHead(200, { 'content-length': `${body.length + 1}` }).write(body)
        return void setTimeout(() => reply.destroy(), dice.below(300))
      case 4:
        return void reply.writeHead(200, { x: 'y'.repeat(dice.below(20_000)) }).end(body)
      case 5:
        return void reply.writeHead(200).end('['.repeat(dice.below(60_000)))
      default:
        return void reply.writeHead(200).end(dice.below(3) === 0 ? body : mutated(body, dice))
    }
  }

  /** Returns a body that resembles a push of `node`. */
  push(node: HostileNode): Buffer {
    const dice = this.#dice
    if (dice.below(HUGE_EVERY) === 0) return this.#one(this.#huge).push
    const { blocks, note } = this.#chain(node)
    const proof = randomBytes(32).toString('base64')
    const body = Buffer.from(
      `{"from":${dice.below(3)},"blocks":[${blocks}],"checkpoint":${JSON.stringify(note)},` +
        `"proofs":{"${dice.below(3)}":["${proof}"]},"roots":{"0":"${proof}"}}`,
    )
    return dice.below(3) === 0 ? body : mutated(body, dice)
  }

  #resembling(path: string, node: HostileNode): Buffer {
    const dice = this.#dice
    const { blocks, note, size } = this.#chain(node)
    if (path.endsWith('/checkpoint')) return Buffer.from(note)
    if (path === '/api/ledgers') {
      return Buffer.from(`{"status":true,"ledgers":[${blocks}],"limit":${size},"offset":0}`)
    }
    const hash = randomBytes(32)
    if (path.endsWith('/consistency')) {
      return Buffer.from(`{"status":true,"proof":["${hash.toString('base64')}"]}`)
    }
    if (path.endsWith('/attachments')) {
      const blob = `{"sha256":"${hash.toString('hex')}","length":${this.#value()},"size":${this.#value()}}`
      return Buffer.from(
        `{"status":true,"absent":[${blob}],"after":"0.${dice.below(9)}","more":true}`,
      )
    }
    if (path.includes('/tile/')) return randomBytes(32 * (1 + dice.below(256)))
    if (path.endsWith('/add-checkpoint')) {
      return Buffer.from(
        dice.below(2) === 0 ? `${dice.below(1e9)}\n` : `— w ${hash.toString('base64')}\n`,
      )
    }
    return Buffer.from(
      `{"status":${this.#value()},"size":${this.#value()},"seen":${this.#value()},"base":"EUR",` +
        `"date":"2026-11-${10 + dice.below(20)}","rates":{"USD":${this.#value()},"JPY":${this.#value()}},"eur":${this.#value()}}`,
    )
  }

  /** Returns valid first blocks of a chain of `node`, and a head that does not always cover them. */
  #chain(node: HostileNode): { blocks: string; note: string; size: number } {
    const dice = this.#dice
    const text = `{"db":"d","item":{"a":${this.#value()},"id":"i"},"method":"create_item","serverid":${node.serverId}}`
    const entries = new Array(1 + dice.below(3)).fill(text)
    const block = sealBlock(null, {
      ...{ serverId: node.serverId, entries, timestamps: entries.map(() => 1) },
      blinds: randomBytes(32 * entries.length),
    })
    const size = 1 + dice.below(3)
    return { blocks: provenBlockJson(block), note: node.note(size), size }
  }

  #value(): string {
    return this.#one(VALUES)
  }

  #one<Value>(list: readonly Value[]): Value {
    return list[this.#dice.below(list.length)] as Value
  }
}
