import { hashAt, joined } from '../hashes.ts'
import {
  EMPTY_FRONTIER,
  type Frontier,
  frontierRoot,
  grown,
  type ReadNodes,
  type TreeNode,
} from '../merkle-tree.ts'

/** Number of hashes in a full tile, and of entries in a full bundle. */
export const TILE_WIDTH = 256
/** Levels of nodes between a tile and the tile above it. */
const LEVELS_PER_TILE = 8
const TILE_LEVEL_MAX = 63
const LENGTH_BYTES = 2

/** A tile of hashes, or a bundle of entries. The `width` of a full tile or bundle is TILE_WIDTH. */
export interface Tile {
  readonly level: number | 'entries'
  readonly index: number
  readonly width: number
}

/** Returns the path of `tile` below `<prefix>/tile/`. Source: c2sp.org/tlog-tiles. */
export function tilePath({ level, index, width }: Tile): string {
  const digits = `${index}`
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/\d{3}/g) ?? []
  const marked = groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group)).join('/')
  return `${level}/${marked}${width === TILE_WIDTH ? '' : `.p/${width}`}`
}

/** Returns the tile at `path`, or null. Every tile has exactly one path. */
export function parseTile(path: string): Tile | null {
  const [, level = '', groups = '', width = `${TILE_WIDTH}`] =
    /^(\d{1,2}|entries)\/((?:x\d{3}\/){0,4}\d{3})(?:\.p\/(\d{1,3}))?$/.exec(path) ?? []
  const tile: Tile = {
    level: level === 'entries' ? level : Number(level),
    index: Number(groups.replaceAll(/[x/]/g, '')),
    width: Number(width),
  }
  if (tile.level !== 'entries' && tile.level > TILE_LEVEL_MAX) return null
  if (!(tile.width >= 1 && tile.width <= TILE_WIDTH)) return null
  return tilePath(tile) === path ? tile : null
}

export function hasTile({ level, index, width }: Tile, size: number): boolean {
  const below = level === 'entries' ? 1 : TILE_WIDTH ** level
  return index * TILE_WIDTH + width <= Math.floor(size / below)
}

/** The nodes whose hashes a tile contains, in order. */
export function nodesOfTile(level: number, { index, width }: Tile): TreeNode[] {
  return Array.from({ length: width }, (_, at) => ({
    level: level * LEVELS_PER_TILE,
    index: index * TILE_WIDTH + at,
  }))
}

/** Reads nodes of a log of `size` leaves from its tiles. Fetches each tile once, and does not verify the tiles. */
export function nodesFromTiles(
  size: number,
  fetch: (tile: Tile) => Promise<Uint8Array>,
): ReadNodes {
  const tiles = new Map<string, Promise<Uint8Array>>()
  const readHash = async ({ level, index }: TreeNode) => {
    const tileLevel = Math.floor(level / LEVELS_PER_TILE)
    const count = 2 ** (level % LEVELS_PER_TILE)
    const tileIndex = Math.floor((index * count) / TILE_WIDTH)
    const stored = Math.floor(size / TILE_WIDTH ** tileLevel) - tileIndex * TILE_WIDTH
    const tile = { level: tileLevel, index: tileIndex, width: Math.min(TILE_WIDTH, stored) }
    const path = tilePath(tile)
    const fetched = tiles.get(path) ?? fetch(tile)
    tiles.set(path, fetched)
    const hashes = await fetched
    let subtree: Frontier = EMPTY_FRONTIER
    for (let at = 0; at < count; at += 1) {
      const hash = Uint8Array.from(hashAt(hashes, ((index * count) % TILE_WIDTH) + at))
      subtree = grown(subtree, hash).frontier
    }
    return frontierRoot(subtree)
  }
  return async (nodes) => {
    const hashes: Uint8Array[] = []
    for (const node of nodes) hashes.push(await readHash(node))
    return hashes
  }
}

/** Encodes a bundle. Before each entry is its length as a 16-bit big-endian integer. */
export function entryBundle(entries: readonly Uint8Array[]): Uint8Array {
  return joined(
    ...entries.flatMap((entry) => [Uint8Array.of(entry.length >> 8, entry.length & 0xff), entry]),
  )
}

/** Decodes a bundle; returns null if it is malformed. */
export function entriesOfBundle(bundle: Uint8Array): Uint8Array[] | null {
  const entries: Uint8Array[] = []
  let at = 0
  while (at < bundle.length) {
    const length = (bundle[at] ?? 0) * 256 + (bundle[at + 1] ?? 0)
    const from = at + LENGTH_BYTES
    at = from + length
    if (at > bundle.length) return null
    entries.push(bundle.subarray(from, at))
  }
  return entries
}
