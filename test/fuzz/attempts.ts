// The bytes of a malicious client's requests: valid requests for an OpenAPI document, and variants with invalid
// targets, headers, lengths, chunks or connections.
import fc from 'fast-check'
import { bytesOf, type FuzzRequest, mutation, requestsOf } from '../support/fuzz.ts'
import {
  chunks,
  encodings,
  headers,
  lengths,
  longTargets,
  methods,
  targetMethods,
  targets,
} from './attempt-parts.ts'

/** The data that a client sends on one connection. */
export interface Attempt {
  /** Kind of fault that the data contains. */
  readonly kind: string
  /** Data of the successive writes. */
  readonly pieces: readonly Buffer[]
  /** Method of each request in `pieces`. */
  readonly methods: readonly string[]
  /** Whether each request in `methods` must get a reply. */
  readonly sound: boolean
  /**
   * How the connection ends. `asked`: the last request has `Connection: close`. `fin`: the client sends FIN.
   * `reset`: the client resets the connection before the replies. `open`: the server must close the
   * connection.
   */
  readonly end: 'asked' | 'fin' | 'reset' | 'open'
}

/** One in this many connections stays open with an incomplete request. They are rare because each takes seconds. */
const OPEN_ONE_IN = 200

/** Attempts on a listener whose `Host` is `host`, based on the requests that `document` describes. */
export function attemptsOf(
  document: unknown,
  known: Record<string, fc.Arbitrary<string>>,
  host: string,
): fc.Arbitrary<Attempt> {
  const requests = fc.oneof(requestsOf(document, known), requestsOf(document, known, true))
  const otherwise = fc
    .tuple(
      requests,
      methods.filter((method) => method !== 'CONNECT'),
    )
    .map(([request, method]) => ({ ...request, method }))
  const shapes: [number, string, fc.Arbitrary<Pick<Attempt, 'pieces' | 'methods' | 'sound'>>][] = [
    [
      10,
      'sound',
      fc.oneof({ weight: 5, arbitrary: requests }, otherwise).map((one) => whole([one], host)),
    ],
    [
      3,
      'pipelined',
      fc.array(requests, { minLength: 2, maxLength: 6 }).map((list) => whole(list, host)),
    ],
    [
      3,
      'target',
      fc
        .tuple(targetMethods, fc.oneof(targets, longTargets))
        .map(([method, target]) =>
          bytes(`${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`, [method]),
        ),
    ],
    [
      3,
      'header',
      fc
        .tuple(requests, fc.array(headers, { minLength: 1, maxLength: 4 }))
        .map(([one, lines]) => withHead(one, host, lines.join('\r\n'))),
    ],
    [
      1,
      'headers',
      fc
        .tuple(headers, fc.nat(1_500))
        .map(([line, times]) =>
          bytes(`GET / HTTP/1.1\r\nHost: ${host}\r\n${`${line}\r\n`.repeat(times)}\r\n`, ['GET']),
        ),
    ],
    [
      2,
      'length',
      fc
        .tuple(requests, lengths)
        .map(([one, length]) =>
          bytes(
            `${one.method} ${one.path} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{"n":`,
            [],
          ),
        ),
    ],
    [
      3,
      'chunks',
      fc
        .tuple(requests, encodings, chunks)
        .map(([one, encoding, body]) =>
          bytes(
            `${one.method} ${one.path} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nTransfer-Encoding: ${encoding}\r\n\r\n${body}`,
            [],
          ),
        ),
    ],
    [
      3,
      'damaged',
      fc.tuple(requests, fc.array(mutation, { minLength: 1, maxLength: 4 })).map(([one, all]) =>
        bytes(
          all.reduce((before, mutate) => mutate(before), bytesOf(one, host)),
          [],
        ),
      ),
    ],
    [
      2,
      'half',
      fc.tuple(requests, fc.nat()).map(([one, length]) => {
        const all = bytesOf(one, host)
        return bytes(all.subarray(0, length % all.length), [])
      }),
    ],
    [
      1,
      'version',
      fc
        .tuple(requests, fc.constantFrom('1.0', '0.9', '2.0', '1.2', '1', 'x'))
        .map(([one, version]) => bytes(`${one.method} ${one.path} HTTP/${version}\r\n\r\n`, [])),
    ],
    [
      1,
      'garbage',
      fc.uint8Array({ maxLength: 200 }).map((garbage) => bytes(Buffer.from(garbage), [])),
    ],
  ]
  const shaped = fc.oneof(
    ...shapes.map(([weight, kind, arbitrary]) => ({
      weight,
      arbitrary: arbitrary.map((attempt) => ({ kind, ...attempt })),
    })),
  )
  return fc
    .tuple(
      shaped,
      fc.array(fc.nat(), { maxLength: 4 }),
      fc.noBias(fc.nat(OPEN_ONE_IN)),
      fc.noBias(fc.nat(20)),
    )
    .map(([attempt, cuts, open, reset]) => ({
      ...attempt,
      pieces: attempt.pieces.flatMap((piece) => cutAt(piece, cuts)),
      end: endOf(attempt, open, reset),
    }))
}

function endOf(
  { kind, sound }: Pick<Attempt, 'kind' | 'sound'>,
  open: number,
  reset: number,
): Attempt['end'] {
  if (open === 0 && kind === 'half') return 'open'
  if (reset === 0) return 'reset'
  return sound ? 'asked' : 'fin'
}

function whole(list: readonly FuzzRequest[], host: string) {
  return {
    pieces: list.map((one, at) => bytesOf(at === list.length - 1 ? withClose(one) : one, host)),
    methods: list.map(({ method }) => method),
    sound: true,
  }
}

function withClose(request: FuzzRequest): FuzzRequest {
  return { ...request, headers: { ...request.headers, connection: 'close' } }
}

function bytes(content: string | Buffer, methods: readonly string[]) {
  const piece = typeof content === 'string' ? Buffer.from(content, 'latin1') : content
  return { pieces: [piece], methods, sound: false }
}

/** Adds header lines to a request. */
function withHead(one: FuzzRequest, host: string, lines: string) {
  const sent = bytesOf(one, host)
  const at = sent.indexOf('\r\n') + 2
  const head = Buffer.from(`${lines}\r\n`, 'latin1')
  return {
    pieces: [Buffer.concat([sent.subarray(0, at), head, sent.subarray(at)])],
    methods: [one.method],
    sound: false,
  }
}

/** Splits `piece` at random positions. */
function cutAt(piece: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (piece.length + 1)), piece.length]
  const sorted = places.toSorted((a, b) => a - b)
  return sorted
    .slice(1)
    .map((end, at) => piece.subarray(sorted[at] ?? 0, end))
    .filter((part) => part.length > 0)
}
