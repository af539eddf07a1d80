import {
  type Block,
  commitmentPath,
  type EntryProof,
  findErased,
  hashAt,
  headerText,
  toHeader,
} from '../../chain/index.ts'

export function toOpening(block: Block, position: number): EntryProof['opening'] {
  const opening = {
    header: headerText(toHeader(block)),
    count: block.entries.length,
    position,
    path: commitmentPath(block.commitments, position),
  }
  if (findErased(block).has(position)) {
    return { ...opening, commitment: hashAt(block.commitments, position) }
  }
  return {
    ...opening,
    entry: block.entries[position] ?? '',
    timestamp: block.timestamps[position] ?? 0,
    blind: hashAt(block.blinds, position),
  }
}
