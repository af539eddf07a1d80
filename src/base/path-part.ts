/** Forbidden characters: control characters could harm a terminal, and a path segment cannot contain `/`. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f/]/
const UTF8 = new TextEncoder()

/** Whether `text` can be the name of a database, an id or another part of a path: 1 to `bytesMax` bytes of UTF-8. */
export function isPathPart(text: string, bytesMax: number): boolean {
  if (text === '' || text === '.' || text === '..' || text.length > bytesMax) return false
  // A unit of UTF-16 has at most 3 bytes of UTF-8.
  const isShort = text.length * 3 <= bytesMax || UTF8.encode(text).length <= bytesMax
  return isShort && !UNSAFE.test(text) && text.isWellFormed()
}
