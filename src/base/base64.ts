/** Node's buffers, which are used if available, because they convert ten times as fast as `btoa` and `atob`. */
interface Node {
  getBuiltinModule(name: 'node:buffer'): {
    Buffer: {
      from(text: string, as: 'base64'): Uint8Array
      from(bytes: ArrayBufferLike, at: number, length: number): { toString(as: 'base64'): string }
    }
  }
}

const node: Partial<Node> | undefined = Reflect.get(globalThis, 'process')
const NodeBuffer = node?.getBuiltinModule?.('node:buffer').Buffer

/** Maximum bytes per call of `String.fromCharCode`. A longer argument list would overflow the stack. */
const BYTES_PER_CALL = 8_192

/** Encodes `bytes` with the standard alphabet and padding (RFC 4648 section 4). Runs in browsers too. */
export const toBase64: (bytes: Uint8Array) => string =
  NodeBuffer === undefined
    ? encodePortably
    : ({ buffer, byteOffset, length }) =>
        NodeBuffer.from(buffer, byteOffset, length).toString('base64')

/** `toBase64` for browsers. */
export function encodePortably(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.length; at += BYTES_PER_CALL) {
    // `Reflect.apply` passes the bytes without a copy. A spread copies them to an array first and takes ten times as
    // long.
    const part = bytes.subarray(at, at + BYTES_PER_CALL)
    binary += Reflect.apply(String.fromCharCode, String, part)
  }
  return btoa(binary)
}

/** Decodes `text`, or returns null unless it is exactly the output of `toBase64`. */
export function fromBase64(text: string): Uint8Array | null {
  // A wrong length is a frequent error, and decoding would need much longer to reject it.
  if (text.length % 4 !== 0) return null
  const bytes = NodeBuffer === undefined ? decodePortably(text) : NodeBuffer.from(text, 'base64')
  // Decoders also accept spaces, missing padding and other alphabets, so the result must be encoded again and compared.
  // Not validated with a regular expression, because that overflows the stack on texts of megabytes.
  return bytes === null || toBase64(bytes) !== text ? null : new Uint8Array(bytes)
}

/** Decodes `text` in browsers; null if it contains other characters. */
export function decodePortably(text: string): Uint8Array | null {
  let binary: string
  try {
    binary = atob(text)
  } catch {
    return null
  }
  // This loop takes a tenth of the time of `Uint8Array.from`.
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = binary.charCodeAt(at)
  return bytes
}
