import { generateKeyPairSync, hash, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import type { Json } from '../../base/json.ts'
import { headerText } from '../block.ts'
import { EMPTY_FRONTIER, type Frontier, frontierRoot, grown, leafHash } from '../merkle-tree.ts'
import { nodeVerifySignature, rawPublicKey } from '../node-keys.ts'
import { type Audited, auditedJson, auditLog, decodeAudited, NOTHING_AUDITED } from './audit.ts'
import { checkpointText, logOrigin, signedNote } from './checkpoint.ts'
import { entryBundle, parseTile } from './tiles.ts'

const SERVER = 4_126
const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const key = { name: logOrigin(SERVER), publicKey: rawPublicKey(publicKey) }
const ROOT = 'ab'.repeat(32)

/** Headers of a valid chain. From the height `fork` on, the headers differ from the headers of the default chain. */
function headersOf(size: number, fork = size): string[] {
  const texts: string[] = []
  let prevId: string | null = null
  for (let height = 0; height < size; height += 1) {
    const count = height < fork ? 1 : 2
    const text = headerText({ serverId: SERVER, height, prevId, nonce: 0, root: ROOT, count })
    texts.push(text)
    prevId = hash('sha512', text)
  }
  return texts
}

const bytesOf = (text: string) => new TextEncoder().encode(text)
const leafOf = (text: string) => leafHash(bytesOf(text))

function frontierOf(headers: readonly string[]): Frontier {
  return headers.reduce<Frontier>(
    (frontier, text) => grown(frontier, leafOf(text)).frontier,
    EMPTY_FRONTIER,
  )
}

/**
 * Returns a log with the tiles and the signed head of `headers`, which may be invalid. The log records the paths that
 * are requested from it.
 */
function logOf(headers: readonly string[], root = frontierRoot(frontierOf(headers))) {
  const requestedPaths: string[] = []
  const text = checkpointText({ origin: key.name, size: headers.length, root })
  const note = signedNote(key, text, (bytes) => sign(null, bytes, privateKey))
  const fetch = async (path: string): Promise<Uint8Array> => {
    requestedPaths.push(path)
    if (path === 'checkpoint') return bytesOf(note)
    const tile = parseTile(path.slice('tile/'.length))
    if (tile === null) throw new Error(`no tile: ${path}`)
    const part = headers.slice(tile.index * 256, tile.index * 256 + tile.width)
    return tile.level === 'entries'
      ? entryBundle(part.map(bytesOf))
      : Buffer.concat(part.map(leafOf))
  }
  return { requestedPaths, fetch }
}

interface Audit {
  readonly before?: Audited
  readonly serverId?: number
  readonly progressCalls?: (readonly [number, number])[]
}

const audit = (
  { fetch }: Pick<ReturnType<typeof logOf>, 'fetch'>,
  { before = NOTHING_AUDITED, serverId = SERVER, progressCalls }: Audit = {},
) =>
  auditLog({
    ...{ verifySignature: nodeVerifySignature, key, serverId, fetch, before },
    ...(progressCalls === undefined ? {} : { progress: (...now) => progressCalls.push(now) }),
  })

const findingOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'nothing',
    (error) => `${error.code}: ${error.message}`,
  )

const after = (headers: readonly string[]): Audited => ({
  frontier: frontierOf(headers),
  headId: headers.length === 0 ? null : hash('sha512', headers.at(-1) ?? ''),
})

const SIZES = [0, 1, 2, 255, 256, 257, 600]
const longest = headersOf(600)

it('verifies the log up to its head, from the first block or from the state of an earlier audit', async () => {
  for (const size of SIZES) {
    const headers = longest.slice(0, size)
    for (const known of SIZES.filter((one) => one <= size)) {
      const { audited, checkpoint } = await audit(logOf(headers), {
        before: after(headers.slice(0, known)),
      })
      expect(auditedJson(audited)).toEqual(auditedJson(after(headers)))
      expect([checkpoint.origin, checkpoint.size]).toEqual(['daicho/4126', size])
    }
  }
})

it('reads each tile that contains new hashes once, and reports progress', async () => {
  const log = logOf(longest)
  const progressCalls: (readonly [number, number])[] = []
  await audit(log, { before: after(longest.slice(0, 256)), progressCalls })
  expect(log.requestedPaths).toEqual([
    'checkpoint',
    ...['tile/entries/001', 'tile/0/001', 'tile/entries/002.p/88', 'tile/0/002.p/88'],
  ])
  expect(progressCalls).toEqual([
    [512, 600],
    [600, 600],
  ])
})

it('stores the state of an audit as JSON, and rejects an incomplete state', () => {
  for (const size of SIZES) {
    const storedState = JSON.stringify(auditedJson(after(longest.slice(0, size))))
    const again = decodeAudited(JSON.parse(storedState))
    expect(again === null ? null : JSON.stringify(auditedJson(again))).toBe(storedState)
  }
  const stored = JSON.parse(JSON.stringify(auditedJson(after(longest.slice(0, 3)))))
  const [peak] = stored.peaks
  const headId = 'ab'.repeat(64)
  expect(decodeAudited({ ...stored, headId })).not.toBeNull()
  const wrong: Json[] = [
    ...[null, [], 'text', {}, { ...stored, size: '3' }, { ...stored, size: 2.5 }],
    ...[
      { ...stored, size: -1, peaks: [] },
      { ...stored, size: 2 ** 53, peaks: [peak] },
    ],
    ...[
      { ...stored, size: 4 },
      { ...stored, size: 2 },
    ].map((one) => ({ ...one, peaks: stored.peaks })),
    ...[
      { ...stored, size: 7 },
      { ...stored, peaks: 'x' },
      { ...stored, peaks: [peak] },
    ],
    ...[5, 'not base64', 'AAAA'].map((other) => ({ ...stored, peaks: [peak, other] })),
    ...[5, 'not base64', 'AAAA'].map((more) => ({ ...stored, peaks: [...stored.peaks, more] })),
    ...[5, '', headId.toUpperCase(), `${headId}a`, headId.slice(1)].map((other) => ({
      ...stored,
      headId: other,
    })),
  ]
  for (const value of wrong) expect(decodeAudited(value), JSON.stringify(value)).toBeNull()
})

it('reports a roll-back if the log is shorter than before', async () => {
  const before = after(longest.slice(0, 300))
  expect(await findingOf(audit(logOf(longest.slice(0, 299)), { before }))).toBe(
    'LOG_ROLLED_BACK: the log has 299 blocks, but had 300 at the last audit',
  )
})

it('reports a fork if the log does not continue the last audit', async () => {
  const before = after(longest.slice(0, 300))
  // The first log has the size of the audited log. The other two logs are longer: block 300 of the second log has a
  // predecessor that was not audited; block 300 of the third log has the audited predecessor, but earlier blocks
  // differ.
  expect(await findingOf(audit(logOf(headersOf(300, 299)), { before }))).toBe(
    'LOG_FORKED: the log does not continue the 300 audited blocks',
  )
  expect(await findingOf(audit(logOf(headersOf(310, 299)), { before }))).toBe(
    'LOG_FORKED: block 300 does not follow the audited blocks',
  )
  const other = [...headersOf(300, 5).slice(0, 299), ...longest.slice(299, 310)]
  expect(await findingOf(audit(logOf(other), { before }))).toBe(
    'LOG_FORKED: the log does not continue the 300 audited blocks',
  )
})

it('detects, in the first audit, a signed head that does not match the headers', async () => {
  const forged = logOf(longest.slice(0, 5), Buffer.alloc(32, 7))
  expect(await findingOf(audit(forged))).toBe(
    'LOG_BROKEN: the signed root does not match the headers',
  )
})

const changed =
  (which: string, change: (bytes: Uint8Array) => Uint8Array) =>
  ({ fetch }: ReturnType<typeof logOf>) => ({
    fetch: async (path: string) => {
      const bytes = await fetch(path)
      return path.includes(which) ? change(bytes) : bytes
    },
  })

it.each([
  ['a missing header', changed('entries', (all) => all.subarray(0, -2 - (all.length >> 1)))],
  ['half a header', changed('entries', (all) => all.subarray(0, -1))],
  ['a missing hash', changed('tile/0/', (all) => all.subarray(32))],
  ['an extra hash', changed('tile/0/', (all) => Buffer.concat([all, all.subarray(0, 32)]))],
])('detects a tile with %s', async (_, tampered) => {
  expect(await findingOf(audit(tampered(logOf(longest.slice(0, 9)))))).toBe(
    'LOG_BROKEN: at height 0: the tile has the wrong size',
  )
})

it('detects a tile hash that does not match the header, and reports the position of the hash', async () => {
  const flipped = (at: number) =>
    changed('tile/0/001', (all) => all.map((byte, i) => (i === at ? byte ^ 1 : byte)))
  for (const [at, height] of [
    [0, 256],
    [31, 256],
    [32, 257],
    [43 * 32 + 31, 299],
  ] as const) {
    expect(await findingOf(audit(flipped(at)(logOf(longest.slice(0, 300)))))).toBe(
      `LOG_BROKEN: at height ${height}: the hash in the tile does not match the header`,
    )
  }
})

const [first = '', second = ''] = longest
it.each([
  ['of another node', second.replace('"serverid":4126', '"serverid":4127')],
  ['of another height', second.replace('"height":1', '"height":2')],
  ['without a previous block', second.replace(/"prev_id":"\w+"/, '"prev_id":null')],
  ['with another previous block', second.replace(/"prev_id":"../, '"prev_id":"zz')],
  ['whose previous block is a number', second.replace(/"prev_id":"\w+"/, '"prev_id":5')],
  ['in another version', second.replace('"version":1', '"version":2')],
  ['with a space in it', second.replace(',', ', ')],
  ['with an extra member', second.replace('{', '{"a":1,')],
  ['with an invalid root', second.replace(ROOT, ROOT.toUpperCase())],
  ['with a root that is a number', second.replace(`"${ROOT}"`, '5')],
  ['with a nonce that is a text', second.replace('"nonce":0', '"nonce":"0"')],
  ['with a count that is a text', second.replace('"count":1', '"count":"1"')],
  ['with a height that is a text', second.replace('"height":1', '"height":"1"')],
  ['with a server that is a text', second.replace('"serverid":4126', '"serverid":"4126"')],
  ['that is a list', '[]'],
  ['that is not JSON', 'header'],
])(
  'rejects a header %s even if the tiles and the signed head match the header',
  async (_, header) => {
    expect(header).not.toBe(second)
    expect(await findingOf(audit(logOf([first, header])))).toBe(
      'LOG_BROKEN: at height 1: the header does not continue the chain',
    )
  },
)

it('detects the log of another node', async () => {
  expect(await findingOf(audit(logOf(longest.slice(0, 3)), { serverId: 5 }))).toBe(
    'LOG_BROKEN: at height 0: the header does not continue the chain',
  )
})
