/** Arguments of one call; a longer list would not fit the stack. */
const BYTES_PER_CALL = 8_192

/** `bytes` in the standard alphabet with padding (RFC 4648 section 4); also where there is no Buffer. */
export function toBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.length; at += BYTES_PER_CALL) {
    // Spread, the bytes would become an array first, which takes ten times as long.
    const part = bytes.subarray(at, at + BYTES_PER_CALL)
    binary += Reflect.apply(String.fromCharCode, String, part)
  }
  return btoa(binary)
}

/**
 * The bytes that `text` stands for, or null when it is not exactly what `toBase64` makes of them: one
 * spelling for one value, so that a changed character never passes unseen.
 */
export function fromBase64(text: string): Uint8Array | null {
  const binary = decoded(text)
  // Also for text with spaces or without its padding, which `atob` takes.
  if (binary === null || btoa(binary) !== text) return null
  // `Uint8Array.from` goes through a text by its characters, which takes ten times as long.
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = binary.charCodeAt(at)
  return bytes
}

/** A regular expression would tell before, but on a text of megabytes it runs out of stack. */
function decoded(text: string): string | null {
  try {
    return atob(text)
  } catch {
    return null
  }
}
