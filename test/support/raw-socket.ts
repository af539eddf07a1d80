import { connect, type Socket } from 'node:net'

export interface RawReply {
  readonly status: number
  /** Values by lower-case name. Of a repeated header, this is the last value. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** Data that a client received on one connection. */
export interface RawExchange {
  readonly replies: readonly RawReply[]
  /** Bytes after the last complete reply. Empty unless the server closed the connection within a reply. */
  readonly rest: string
  readonly closed: boolean
}

export interface RawOptions {
  /** Number of replies after which to stop. Default: when the server closes the connection. */
  readonly replies?: number
  /** Whether to send FIN after the last piece. */
  readonly halfClose?: boolean
  /** Methods of the requests. Needed because replies to HEAD have no body. */
  readonly methods?: readonly string[]
  /** Maximum time in which the server must answer or close the connection, milliseconds. */
  readonly hangMs?: number
}

/** Default for `hangMs`. */
const HANG_MS = 100_000

/**
 * Sends `pieces` on a new connection, each in a separate write, and returns the received data. Rejects if the
 * server neither answers nor closes the connection in time.
 */
export function exchange(
  url: string,
  pieces: readonly (string | Uint8Array)[],
  options: RawOptions = {},
): Promise<RawExchange> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    socket.setNoDelay(true)
    const replies: RawReply[] = []
    /** The bytes after the last complete reply. */
    let left = Buffer.alloc(0)
    const finish = (closed: boolean) => {
      clearTimeout(hang)
      socket.destroy()
      resolve({ replies, rest: left.toString('latin1'), closed })
    }
    const hang = setTimeout(() => {
      socket.destroy()
      reject(new Error(`no answer to ${JSON.stringify(pieces).slice(0, 500)}`))
    }, options.hangMs ?? HANG_MS)
    socket.on('data', (bytes) => {
      left = Buffer.concat([left, bytes])
      left = left.subarray(parseReplies(left, options.methods ?? [], replies))
      if (replies.length >= (options.replies ?? Number.POSITIVE_INFINITY)) finish(false)
    })
    // Ignored, because a server that refuses a body may close the connection while the client still sends.
    socket.on('error', () => {})
    socket.on('close', () => finish(true))
    void sendPieces(socket, pieces, options.halfClose === true)
  })
}

async function sendPieces(
  socket: Socket,
  pieces: readonly (string | Uint8Array)[],
  halfClose: boolean,
): Promise<void> {
  for (const piece of pieces) {
    if (!socket.writable) return
    // Waits until the kernel has accepted the previous piece, so that the server reads the pieces separately.
    await new Promise<void>((taken) => socket.write(piece, () => setImmediate(taken)))
  }
  if (halfClose) socket.end()
}

/**
 * Parses the complete replies at the start of `bytes` and adds them to `replies`. Returns the offset of their end.
 * Replies to HEAD have no body.
 */
function parseReplies(bytes: Buffer, methods: readonly string[], replies: RawReply[]): number {
  let at = 0
  for (;;) {
    const headEnd = bytes.indexOf('\r\n\r\n', at)
    if (headEnd === -1) break
    const [first = '', ...lines] = bytes.toString('latin1', at, headEnd).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
    if (Number.isNaN(status)) break
    const headers = new Map(
      lines.map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
      }),
    )
    const isHead = methods[replies.length] === 'HEAD'
    const body = isHead ? { text: '', end: headEnd + 4 } : bodyAt(bytes, headEnd + 4, headers)
    if (body === null) break
    at = body.end
    if (status >= 200) replies.push({ status, headers, body: body.text })
  }
  return at
}

function bodyAt(
  bytes: Buffer,
  start: number,
  headers: ReadonlyMap<string, string>,
): { text: string; end: number } | null {
  if (headers.get('transfer-encoding') === 'chunked') return chunkedBodyAt(bytes, start)
  const end = start + Number(headers.get('content-length') ?? 0)
  return end > bytes.length ? null : { text: bytes.toString('utf8', start, end), end }
}

function chunkedBodyAt(bytes: Buffer, start: number): { text: string; end: number } | null {
  const chunks: Buffer[] = []
  let at = start
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd === -1) return null
    const length = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    const end = lineEnd + 2 + length
    if (end + 2 > bytes.length) return null
    if (length === 0) return { text: Buffer.concat(chunks).toString('utf8'), end: end + 2 }
    chunks.push(bytes.subarray(lineEnd + 2, end))
    at = end + 2
  }
}
