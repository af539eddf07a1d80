/** One place in which two values differ. */
export interface Difference {
  /** As a person would write it: `grower.town`, `tags[0]`; empty for the value as a whole. */
  readonly path: string
  readonly kind: 'added' | 'removed' | 'changed'
  /** Absent where it was added. */
  readonly before?: unknown
  /** Absent where it was removed. */
  readonly after?: unknown
}

/** Differences that are looked for; a longer list helps nobody. */
const DIFFERENCES_MAX = 200

/** Where `after` differs from `before`, member by member, in the order of the members. */
export function differences(before: unknown, after: unknown): readonly Difference[] {
  const found: Difference[] = []
  collect('', before, after, found)
  return found.slice(0, DIFFERENCES_MAX)
}

function collect(path: string, before: unknown, after: unknown, found: Difference[]): void {
  if (found.length >= DIFFERENCES_MAX || before === after) return
  if (Array.isArray(before) && Array.isArray(after)) {
    for (let at = 0; at < Math.max(before.length, after.length); at += 1) {
      member(`${path}[${at}]`, { before, after }, at, found)
    }
  } else if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)])
    for (const name of [...names].sort()) {
      member(pathTo(path, name), { before, after }, name, found)
    }
  } else {
    found.push({ path, kind: 'changed', before, after })
  }
}

function member(
  path: string,
  { before, after }: { readonly before: object; readonly after: object },
  key: string | number,
  found: Difference[],
): void {
  const [had, has] = [Object.hasOwn(before, key), Object.hasOwn(after, key)]
  const [old, now]: [unknown, unknown] = [Reflect.get(before, key), Reflect.get(after, key)]
  if (had && has) collect(path, old, now, found)
  else if (has) found.push({ path, kind: 'added', after: now })
  else found.push({ path, kind: 'removed', before: old })
}

function pathTo(path: string, name: string): string {
  if (!/^[\p{L}_][\p{L}\p{N}_-]*$/u.test(name)) return `${path}[${JSON.stringify(name)}]`
  return path === '' ? name : `${path}.${name}`
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
