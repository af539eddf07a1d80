import { createHash } from 'node:crypto'

export function sha256(...parts: readonly (string | Uint8Array)[]): Buffer {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** The root of a Merkle map, computed from its definition alone (docs/reference/ledger/state.md). */
export function mapRoot(
  leaves: readonly (readonly [key: Buffer, value: string])[],
  depth = 0,
): Buffer {
  const [first] = leaves
  if (first === undefined) return Buffer.alloc(32)
  if (leaves.length === 1) return sha256(Buffer.of(0), first[0], first[1])
  const having = (bit: number) =>
    leaves.filter(([key]) => (((key[depth >> 3] ?? 0) >> (7 - (depth % 8))) & 1) === bit)
  return sha256(Buffer.of(1), mapRoot(having(0), depth + 1), mapRoot(having(1), depth + 1))
}
