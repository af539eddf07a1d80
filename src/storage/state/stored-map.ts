import {
  bitAt,
  EMPTY_SUBTREE,
  equalBytes,
  fromHex,
  type MapProof,
  mapKey,
  type Subtree,
  subtreeOfLeaves,
  toHex,
} from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'
import {
  CHILDREN,
  decodePage,
  encodePage,
  keyDigit,
  leafValue,
  type MapPage,
  type PageLeaf,
  pageDepth,
  pageLeaf,
  subtreeOfChildren,
} from './map-page.ts'

/** Leaves of a page before it is split. With fewer, more pages are written; with more, more hashes are computed. */
const PAGE_LEAVES_MAX = 24

/** Storage of the pages of one map, by prefix. */
export interface PageStore {
  read(prefix: string): Uint8Array | null
  write(prefix: string, page: Uint8Array): void
  remove(prefix: string): void
}

/** Returns the new value of a key, null for none, from its old value. */
export type ValueChange = (value: string | null) => string | null

interface KeyChange {
  readonly key: Uint8Array
  readonly change: ValueChange
}

/** Applies `changes`, by the key in hexadecimal digits, and returns the root. Errors: STORE_DAMAGED. */
export function changeMap(pages: PageStore, changes: ReadonlyMap<string, ValueChange>): Uint8Array {
  const sorted = [...changes.keys()].sort()
  const keyed = sorted.map((hex) => ({ key: fromHex(hex), change: changes.get(hex) ?? unchanged }))
  return changePage(pages, '', keyed).hash
}

const unchanged: ValueChange = (value) => value

/** Applies `changes` to the keys that begin with `prefix`. They are sorted by key. */
function changePage(pages: PageStore, prefix: string, changes: readonly KeyChange[]): Subtree {
  const page = readPage(pages, prefix)
  if (page.kind === 'leaves') {
    return writeLeaves(pages, prefix, {
      before: page.leaves,
      leaves: changedLeaves(page.leaves, changes),
    })
  }
  const children = [...page.children]
  for (const [digit, changed] of groupsByDigit(changes, prefix.length)) {
    children[digit] = changePage(pages, childPrefix(prefix, digit), changed)
  }
  if (children.every(({ leaves }) => leaves === 0)) pages.remove(prefix)
  else pages.write(prefix, encodePage({ kind: 'inner', children }))
  return subtreeOfChildren(children)
}

/** Writes the page of `prefix` with `leaves`, split if they are too many. */
function writeLeaves(
  pages: PageStore,
  prefix: string,
  {
    before,
    leaves,
  }: { readonly before: readonly PageLeaf[]; readonly leaves: readonly PageLeaf[] },
): Subtree {
  if (leaves.length <= PAGE_LEAVES_MAX) {
    if (leaves.length > 0) pages.write(prefix, encodePage({ kind: 'leaves', leaves }))
    else if (before.length > 0) pages.remove(prefix)
    return subtreeOfLeaves(leaves, pageDepth(prefix))
  }
  const children: Subtree[] = Array.from({ length: CHILDREN }, () => EMPTY_SUBTREE)
  for (const [digit, some] of groupsByDigit(leaves, prefix.length)) {
    children[digit] = writeLeaves(pages, childPrefix(prefix, digit), { before: [], leaves: some })
  }
  pages.write(prefix, encodePage({ kind: 'inner', children }))
  return subtreeOfChildren(children)
}

/** Merges two lists that are sorted by key. */
function changedLeaves(
  leaves: readonly PageLeaf[],
  changes: readonly KeyChange[],
): readonly PageLeaf[] {
  const result: PageLeaf[] = []
  let at = 0
  for (const { key, change } of changes) {
    let order = -1
    let old: PageLeaf | undefined
    for (; at < leaves.length && order < 0; at += 1) {
      old = leaves[at] as PageLeaf
      order = compareKeys(old.key, key)
      if (order < 0) result.push(old)
    }
    // The next leaf is the one of the key, or one after it.
    if (order > 0) at -= 1
    if (order !== 0) old = undefined
    const before = old === undefined ? null : leafValue(old)
    const value = change(before)
    if (value === null) continue
    result.push(old !== undefined && value === before ? old : pageLeaf(key, value))
  }
  for (; at < leaves.length; at += 1) result.push(leaves[at] as PageLeaf)
  return result
}

function compareKeys(one: Uint8Array, other: Uint8Array): number {
  for (let at = 0; at < one.length; at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** Groups sorted elements by digit `at` of their key. */
function groupsByDigit<Keyed extends { readonly key: Uint8Array }>(
  elements: readonly Keyed[],
  at: number,
): [digit: number, group: readonly Keyed[]][] {
  const groups: [number, readonly Keyed[]][] = []
  for (let from = 0; from < elements.length; ) {
    const digit = keyDigit((elements[from] as Keyed).key, at)
    let to = from + 1
    while (to < elements.length && keyDigit((elements[to] as Keyed).key, at) === digit) to += 1
    groups.push([digit, elements.slice(from, to)])
    from = to
  }
  return groups
}

function childPrefix(prefix: string, digit: number): string {
  return prefix + digit.toString(CHILDREN)
}

/** Reads a page; a missing page has no leaves. */
function readPage(pages: Pick<PageStore, 'read'>, prefix: string): MapPage {
  const encoded = pages.read(prefix)
  return encoded === null ? { kind: 'leaves', leaves: [] } : decodePage(encoded)
}

/** Returns the value of `name`, or null. Errors: STORE_DAMAGED. */
export function readValue(pages: Pick<PageStore, 'read'>, name: string): string | null {
  const key = mapKey(name)
  const hex = toHex(key)
  for (let length = 0; ; length += 1) {
    const page = readPage(pages, hex.slice(0, length))
    if (page.kind === 'leaves') {
      const leaf = page.leaves.find((one) => equalBytes(one.key, key))
      return leaf === undefined ? null : leafValue(leaf)
    }
  }
}

/** Proves the value of the map at `name`, or that there is none. Errors: STORE_DAMAGED. */
export function proveValue(pages: Pick<PageStore, 'read'>, name: string): MapProof {
  const key = mapKey(name)
  const hex = toHex(key)
  const path: Uint8Array[] = []
  for (let length = 0; ; length += 1) {
    const prefix = hex.slice(0, length)
    const page = readPage(pages, prefix)
    const depth = pageDepth(prefix)
    if (page.kind === 'leaves') return proveLeaf(page.leaves, key, depth, path)
    const only = descend(page.children, { key, depth }, path)
    if (only === 'many') continue
    return { path, leaf: only === null ? null : onlyLeaf(pages, childPrefix(prefix, only)) }
  }
}

/** Continues `path` through the leaves of a page, down to a subtree of at most one leaf. */
function proveLeaf(
  leaves: readonly PageLeaf[],
  key: Uint8Array,
  from: number,
  path: Uint8Array[],
): MapProof {
  let rest = leaves
  for (let depth = from; rest.length > 1; depth += 1) {
    const bit = bitAt(key, depth)
    const other = rest.filter((leaf) => bitAt(leaf.key, depth) !== bit)
    rest = rest.filter((leaf) => bitAt(leaf.key, depth) === bit)
    path.push(subtreeOfLeaves(other, depth + 1).hash)
  }
  const [leaf] = rest
  return { path, leaf: leaf === undefined ? null : { key: leaf.key, value: leafValue(leaf) } }
}

/**
 * Continues `path` through the children of a page. Returns the digit of the child with the only leaf of the subtree that
 * is reached, null if the subtree is empty, or `many` if the path leads to a child with several leaves.
 */
function descend(
  children: readonly Subtree[],
  { key, depth }: { readonly key: Uint8Array; readonly depth: number },
  path: Uint8Array[],
): number | null | 'many' {
  let [from, to] = [0, CHILDREN]
  for (let bit = depth; ; bit += 1) {
    const { leaves } = subtreeOfChildren(children, from, to)
    if (leaves === 0) return null
    if (leaves === 1) return children.findIndex((child, at) => at >= from && child.leaves === 1)
    if (to - from === 1) return 'many'
    const split = (from + to) / 2
    const [own, other] = bitAt(key, bit) === 0 ? [from, split] : [split, from]
    path.push(subtreeOfChildren(children, other, other + split - from).hash)
    ;[from, to] = [own, own + split - from]
  }
}

/** Returns the only leaf below `prefix`. */
function onlyLeaf(pages: Pick<PageStore, 'read'>, prefix: string): NonNullable<MapProof['leaf']> {
  const page = readPage(pages, prefix)
  if (page.kind === 'inner') {
    const digit = page.children.findIndex(({ leaves }) => leaves === 1)
    if (digit >= 0) return onlyLeaf(pages, childPrefix(prefix, digit))
  } else if (page.leaves[0] !== undefined) {
    return { key: page.leaves[0].key, value: leafValue(page.leaves[0]) }
  }
  throw new StoreError('STORE_DAMAGED', `the state map has no leaf below ${prefix}`)
}
