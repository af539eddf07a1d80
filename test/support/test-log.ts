import { toBase64 } from '../../src/base/base64.ts'
import {
  EMPTY_FRONTIER,
  type Frontier,
  grown,
  leafHash,
  nodePlace,
  parseCheckpoint,
  proveConsistency,
  type ReadNodes,
  readableLog,
  type SignedLog,
  unverifiedText,
  verifierKeyText,
} from '../../src/chain/index.ts'
import { temporaryNodeKey } from '../../src/ledger/log/node-key.ts'
import { type LogKey, signHead, toLogKey } from '../../src/ledger/log/signed-head.ts'

/** A signed log whose leaves are texts. Two logs with one key and different names contradict each other. */
export class TestLog {
  readonly key: LogKey
  readonly vkey: string
  readonly #name: string
  readonly #nodes: (readonly Uint8Array[])[] = []
  readonly #frontiers: Frontier[] = [EMPTY_FRONTIER]

  constructor(leaves: number, name: string, key: LogKey = toLogKey(temporaryNodeKey())) {
    this.key = key
    this.#name = name
    this.vkey = verifierKeyText(key.verifier)
    for (let n = 0; n < leaves; n += 1) {
      const leaf = leafHash(Buffer.from(`${name} ${n}`))
      const { frontier, nodes } = grown(this.at(n), leaf)
      this.#frontiers.push(frontier)
      this.#nodes.push(nodes)
    }
  }

  /** Returns the log of the first `size` leaves. */
  at(size: number): Frontier {
    return this.#frontiers[size] ?? EMPTY_FRONTIER
  }

  /** Returns the checkpoint of the first `size` leaves. */
  note(size: number): string {
    return signHead(this.key, this.at(size))
  }

  /** Returns the log of the first `size` leaves, in the form that the search for contradictions needs. */
  signed(size: number): SignedLog {
    const checkpoint = parseCheckpoint(unverifiedText(this.note(size)))
    const header = async (height: number) => `${this.#name} ${height}`
    return readableLog(checkpoint, { nodes: this.#read, header })
  }

  /** Returns a request to a witness that has already cosigned `old` leaves. */
  async request(old: number, size: number, note: string = this.note(size)): Promise<string> {
    const proof = await proveConsistency(old, size, this.#read)
    return `old ${old}\n${proof.map((hash) => `${toBase64(hash)}\n`).join('')}\n${note}`
  }

  readonly #read: ReadNodes = async (nodes) =>
    nodes.map((node) => {
      const { leaf, at } = nodePlace(node)
      return this.#nodes[leaf]?.[at / 32] ?? new Uint8Array(32)
    })
}
