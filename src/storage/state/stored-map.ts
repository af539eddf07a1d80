import {
  bitAt,
  EMPTY_SUBTREE,
  equalBytes,
  fromHex,
  type MapProof,
  mapKey,
  provenValue,
  type Subtree,
  subtreeOfLeaves,
} from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'
import {
  CHILDREN,
  type ChildPage,
  decodePage,
  encodePage,
  keyDigit,
  leafValue,
  type MapPage,
  NO_PAGE,
  type PageLeaf,
  pageDepth,
  pageLeaf,
  pageSum,
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

export interface ValueChange {
  /** Returns the new value of a key from its old value. Null stands for none. */
  apply(value: string | null): string | null
}

/** Changes by the key in hexadecimal digits. */
export type MapChanges = ReadonlyMap<string, ValueChange>

/** Applies `changes` to the map of `root`, and returns the new root. Errors: STORE_DAMAGED. */
export function changeMap(pages: PageStore, root: Uint8Array, changes: MapChanges): Uint8Array {
  requireRoot(pages, root)
  const keys = [...changes.keys()].sort()
  return changePage(pages, { prefix: '', sum: null }, { changes, keys }).hash
}

/** Returns the root of the stored map. Errors: STORE_DAMAGED. */
export function storedRoot(pages: Pick<PageStore, 'read'>): Uint8Array {
  const page = readPage(pages, { prefix: '', sum: null })
  return (
    page.kind === 'leaves' ? subtreeOfLeaves(page.leaves, 0) : subtreeOfChildren(page.children)
  ).hash
}

/** Errors: STORE_DAMAGED unless the stored map has `root`. */
export function requireRoot(pages: Pick<PageStore, 'read'>, root: Uint8Array): void {
  if (!equalBytes(storedRoot(pages), root)) throw damaged('', 'another root')
}

/** The changes of `keys`, which are sorted. */
interface KeyChanges {
  readonly changes: MapChanges
  readonly keys: readonly string[]
}

/** Applies the changes of keys that begin with `prefix`. */
function changePage(pages: PageStore, place: PagePlace, { changes, keys }: KeyChanges): ChildPage {
  const { prefix } = place
  const page = readPage(pages, place)
  if (page.kind === 'leaves') {
    return writeLeaves(pages, prefix, {
      before: page.leaves,
      leaves: changedLeaves(page.leaves, { changes, keys }),
    })
  }
  const children = [...page.children]
  const digitAt = (key: string) => hexDigit(key.charCodeAt(prefix.length))
  for (const [digit, changed] of groupsByDigit(keys, digitAt)) {
    const child = childPlace(children, prefix, digit)
    children[digit] = changePage(pages, child, { changes, keys: changed })
  }
  if (children.every(({ leaves }) => leaves === 0)) {
    pages.remove(prefix)
    return EMPTY_PAGE
  }
  return writePage(pages, prefix, { kind: 'inner', children }, subtreeOfChildren(children))
}

const EMPTY_PAGE: ChildPage = { ...EMPTY_SUBTREE, sum: NO_PAGE }

function writePage(pages: PageStore, prefix: string, page: MapPage, subtree: Subtree): ChildPage {
  const encoded = encodePage(page)
  pages.write(prefix, encoded)
  return { ...subtree, sum: pageSum(encoded) }
}

/** Writes the page of `prefix` with `leaves`, split if they are too many. */
function writeLeaves(
  pages: PageStore,
  prefix: string,
  {
    before,
    leaves,
  }: { readonly before: readonly PageLeaf[]; readonly leaves: readonly PageLeaf[] },
): ChildPage {
  if (leaves.length === 0) {
    if (before.length > 0) pages.remove(prefix)
    return EMPTY_PAGE
  }
  if (leaves.length <= PAGE_LEAVES_MAX) {
    const subtree = subtreeOfLeaves(leaves, pageDepth(prefix))
    return writePage(pages, prefix, { kind: 'leaves', leaves }, subtree)
  }
  const children = Array.from({ length: CHILDREN }, () => EMPTY_PAGE)
  const digitAt = ({ key }: PageLeaf) => keyDigit(key, prefix.length)
  for (const [digit, some] of groupsByDigit(leaves, digitAt)) {
    children[digit] = writeLeaves(pages, childPrefix(prefix, digit), { before: [], leaves: some })
  }
  return writePage(pages, prefix, { kind: 'inner', children }, subtreeOfChildren(children))
}

/** Merges two lists that are sorted by key. */
function changedLeaves(
  leaves: readonly PageLeaf[],
  { changes, keys }: KeyChanges,
): readonly PageLeaf[] {
  const result: PageLeaf[] = []
  let at = 0
  for (const hex of keys) {
    const key = fromHex(hex)
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
    const value = changes.get(hex)?.apply(before) ?? null
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

/** Groups elements that are sorted by key by a digit of it. */
function groupsByDigit<Element>(
  elements: readonly Element[],
  digitAt: (element: Element) => number,
): [digit: number, group: readonly Element[]][] {
  const groups: [number, readonly Element[]][] = []
  for (let from = 0; from < elements.length; ) {
    const digit = digitAt(elements[from] as Element)
    let to = from + 1
    while (to < elements.length && digitAt(elements[to] as Element) === digit) to += 1
    groups.push([digit, elements.slice(from, to)])
    from = to
  }
  return groups
}

/** Returns the value of a lowercase hexadecimal digit by its character code. */
function hexDigit(code: number): number {
  return code < LETTER_A ? code - DIGIT_0 : code - LETTER_A + 10
}

const DIGIT_0 = 48
const LETTER_A = 97

function childPrefix(prefix: string, digit: number): string {
  return prefix + digit.toString(CHILDREN)
}

/** A page, with the check sum that its parent has; null for the root. */
interface PagePlace {
  readonly prefix: string
  readonly sum: number | null
}

function childPlace(children: readonly ChildPage[], prefix: string, digit: number): PagePlace {
  return { prefix: childPrefix(prefix, digit), sum: children[digit]?.sum ?? NO_PAGE }
}

function damaged(prefix: string, what: string): StoreError {
  return new StoreError('STORE_DAMAGED', `the state map has ${what} at prefix '${prefix}'`)
}

/** Reads a page; the page of an empty subtree is missing. Errors: STORE_DAMAGED. */
function readPage(pages: Pick<PageStore, 'read'>, { prefix, sum }: PagePlace): MapPage {
  const encoded = pages.read(prefix)
  if (sum !== null && sum !== (encoded === null ? NO_PAGE : pageSum(encoded))) {
    throw damaged(prefix, 'another page')
  }
  return encoded === null ? { kind: 'leaves', leaves: [] } : decodePage(encoded)
}

/** Returns the value of `name`, or null. Does not compute the root, see `requireRoot`. Errors: STORE_DAMAGED. */
export function readValue(pages: Pick<PageStore, 'read'>, name: string): string | null {
  const key = mapKey(name)
  for (let place: PagePlace = { prefix: '', sum: null }; ; ) {
    const { prefix } = place
    const page = readPage(pages, place)
    if (page.kind === 'leaves') {
      const leaf = page.leaves.find((one) => equalBytes(one.key, key))
      return leaf === undefined ? null : leafValue(leaf)
    }
    place = childPlace(page.children, prefix, keyDigit(key, prefix.length))
  }
}

/** Proves the value that the map of `root` has at `name`, or that it has none. Errors: STORE_DAMAGED. */
export function proveValue(
  pages: Pick<PageStore, 'read'>,
  root: Uint8Array,
  name: string,
): MapProof {
  const proof = storedProof(pages, mapKey(name))
  if (provenValue(mapKey(name), root, proof) !== undefined) return proof
  throw damaged('', 'another root')
}

function storedProof(pages: Pick<PageStore, 'read'>, key: Uint8Array): MapProof {
  const path: Uint8Array[] = []
  for (let place: PagePlace = { prefix: '', sum: null }; ; ) {
    const { prefix } = place
    const page = readPage(pages, place)
    const depth = pageDepth(prefix)
    if (page.kind === 'leaves') return proveLeaf(page.leaves, key, depth, path)
    const { children } = page
    const only = descend(children, { key, depth }, path)
    if (only === null) return { path, leaf: null }
    if (only !== 'many') return { path, leaf: onlyLeaf(pages, childPlace(children, prefix, only)) }
    place = childPlace(children, prefix, keyDigit(key, prefix.length))
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

/** Returns the only leaf below `place`. */
function onlyLeaf(pages: Pick<PageStore, 'read'>, place: PagePlace): NonNullable<MapProof['leaf']> {
  const page = readPage(pages, place)
  if (page.kind === 'inner') {
    const digit = page.children.findIndex(({ leaves }) => leaves === 1)
    if (digit >= 0) return onlyLeaf(pages, childPlace(page.children, place.prefix, digit))
  } else if (page.leaves[0] !== undefined) {
    return { key: page.leaves[0].key, value: leafValue(page.leaves[0]) }
  }
  throw damaged(place.prefix, 'no leaf')
}
