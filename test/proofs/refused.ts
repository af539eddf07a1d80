import { createHash, createHmac, sign } from 'node:crypto'
import { toBase64 } from '../../src/base/base64.ts'
import { checkpointText, leafHash, signedNote, verifierKeyText } from '../../src/chain/index.ts'
import { temporaryNodeKey } from '../../src/ledger/log/node-key.ts'
import { toLogKey } from '../../src/ledger/log/signed-head.ts'

// Proofs and blocks that every verifier must refuse. Each is wrong in one respect only, and correctly hashed and signed,
// because the holder of a key can sign anything.

export const KEY = toLogKey(temporaryNodeKey())
export const VKEY: string = verifierKeyText(KEY.verifier)
export const SERVER_ID: number = Number(KEY.verifier.name.slice('daicho/'.length))

/** The parts of a proof as texts. */
export interface ProofParts {
  readonly entry: string
  readonly timestamp: string
  readonly blind: string
  readonly count: string
  readonly position: string
  readonly path: string
  /** Members of the header, in order. */
  readonly header: Readonly<Record<string, string>>
  readonly index: string
  readonly hashes: readonly string[]
  readonly extra: (opening: string) => string
  readonly note: (text: string) => string
}

export const ENTRY = `{"db":"fruit","item":{"id":"plum","price":85},"method":"create_item","serverid":${SERVER_ID}}`
const BLIND = '0f'.repeat(32)

function signed(text: string): string {
  return signedNote(KEY.verifier, text, (bytes) => sign(null, bytes, KEY.privateKey))
}

function commitmentOf(entry: string, timestamp: string): Buffer {
  const message = `{"entry":${entry},"timestamp":${timestamp}}`
  return createHmac('sha256', Buffer.from(BLIND, 'hex')).update(message).digest()
}

function headerText(members: Readonly<Record<string, string>>): string {
  return `{${Object.entries(members)
    .map(([name, value]) => `"${name}":${value}`)
    .join(',')}}`
}

function headerOf(entry: string, timestamp: string): Record<string, string> {
  const root = Buffer.from(leafHash(commitmentOf(entry, timestamp))).toString('hex')
  return {
    ...{ count: '1', height: '0', nonce: '0', prev_id: 'null', root: `"${root}"` },
    ...{ serverid: `${SERVER_ID}`, version: '1' },
  }
}

/** Returns the file that proves the only entry of the only block of a log. */
export function proofFile(change: Partial<ProofParts> = {}): Buffer {
  const { entry = ENTRY, timestamp = '1800000000000', blind = BLIND } = change
  const { count = '1', position = '0', path = '[]', index = '0', hashes = [] } = change
  const header = headerText({ ...headerOf(entry, timestamp), ...change.header })
  const opening = `{"blind":"${blind}","count":${count},"entry":${entry},"header":${header},"path":${path},"position":${position},"timestamp":${timestamp}}`
  const extra = change.extra?.(opening) ?? toBase64(Buffer.from(opening))
  const root = leafHash(Buffer.from(header))
  const text = checkpointText({ origin: KEY.verifier.name, size: 1, root })
  const note = change.note?.(text) ?? signed(text)
  const lines = ['c2sp.org/tlog-proof@v1', `extra ${extra}`, `index ${index}`, ...hashes]
  return Buffer.from(`${lines.join('\n')}\n\n${note}`)
}

/** Returns the reply of `GET /api/ledgers?proof=1` for a chain whose last entry is `entry`. */
export function blockReply(entry: string, timestamp = '1800000000000'): string {
  let before = 'null'
  const blocks = [
    [`{"db":"fruit","method":"create_db","serverid":${SERVER_ID}}`, '0'],
    [entry, timestamp],
  ].map(([text = '', time = ''], height) => {
    const commitment = commitmentOf(text, time)
    const header: Record<string, string> = {
      ...headerOf(text, time),
      ...{ height: `${height}`, prev_id: before },
    }
    const id = createHash('sha512').update(headerText(header)).digest('hex')
    const block =
      `{"prev_id":${before},"body":[${text}],"timestamps":[${time}],"nonce":0,"id":"${id}","proof":{"height":${height},` +
      `"root":${header.root},"blinds":["${BLIND}"],"commitments":["${commitment.toString('hex')}"]}}`
    before = `"${id}"`
    return block
  })
  return `{"status":true,"ledgers":[${blocks.join(',')}],"limit":0,"offset":0}`
}

const withItem = (item: string) =>
  `{"db":"fruit","item":${item},"method":"create_item","serverid":${SERVER_ID}}`
const priced = (price: string) => withItem(`{"id":"plum","price":${price}}`)
const ending = `"serverid":${SERVER_ID}}`
const attached = (attachment: string, method = 'create_attachment') =>
  `{"attachment":${attachment},"db":"fruit","id":"plum","method":"${method}",${ending}`
const about = (change: Readonly<Record<string, string>>) => {
  const members = { content_type: '"a/b"', length: '1', name: '"n"', sha256: `"${'0'.repeat(64)}"` }
  return headerText({ ...members, ...change })
}
const erasing = (positions: string) =>
  `{"db":"fruit","id":"plum","method":"erase_item","positions":${positions},${ending}`

const byAuthor = (by: string) => `{"by":${by},${ENTRY.slice(1)}`
const because = (reason: string) => ENTRY.replace('"serverid"', `"reason":${reason},"serverid"`)

/** Entries that no chain contains. */
export const REFUSED_ENTRIES: readonly (readonly [name: string, entry: string])[] = [
  ...['"alice"', 'null', '{}', '[]', '{"iss":"a"}', '{"sub":""}', '{"sub":1}', '{"sub":null}'].map(
    (by) => [`the author ${by}`, byAuthor(by)] as const,
  ),
  ...['{"iss":"","sub":"a"}', '{"iss":1,"sub":"a"}', '{"name":"b","sub":"a"}'].map(
    (by) => [`the author ${by}`, byAuthor(by)] as const,
  ),
  ['a subject of 257 bytes', byAuthor(`{"sub":"${'x'.repeat(257)}"}`)],
  ['a subject of 86 characters of three bytes', byAuthor(`{"sub":"${'台'.repeat(86)}"}`)],
  ['an issuer of 513 bytes', byAuthor(`{"iss":"${'x'.repeat(513)}","sub":"a"}`)],
  ...['""', '1', 'null', '{}'].map((reason) => [`the reason ${reason}`, because(reason)] as const),
  ['a reason of 1,025 bytes', because(`"${'x'.repeat(1_025)}"`)],
  ...['NaN', 'Infinity', '-Infinity', '1e400', '-1e400'].map((n) => [n, priced(n)] as const),
  ...['01', '+1', '.5', '1.', '0x1', 'undefined'].map((n) => [`number ${n}`, priced(n)] as const),
  ['another server id', ENTRY.replace(`${SERVER_ID}}`, `${SERVER_ID + 1}}`)],
  ['a server id in quotes', ENTRY.replace(`${SERVER_ID}}`, `"${SERVER_ID}"}`)],
  ['no server id', ENTRY.replace(`,"serverid":${SERVER_ID}`, '')],
  ['an unknown method', ENTRY.replace('create_item', 'createItem')],
  ['a method that is a number', ENTRY.replace('"create_item"', '1')],
  ['a further member', ENTRY.replace(`${SERVER_ID}}`, `${SERVER_ID},"z":1}`)],
  ['no item', `{"db":"fruit","method":"create_item",${ending}`],
  ['no database', ENTRY.replace('"db":"fruit",', '')],
  ['a database that is a number', ENTRY.replace('"fruit"', '5')],
  ...['[]', 'null', '"plum"', '{}', '{"id":5}', '{"id":null}'].map(
    (item) => [`the item ${item}`, withItem(item)] as const,
  ),
  ...['[]', 'null', '"entry"', '5', '{}', '[1,2]', ''].map((e) => [`the entry ${e}`, e] as const),
  ['a line feed in a text', withItem('{"id":"plu\nm"}')],
  ['a NUL in a text', withItem('{"id":"plu\0m"}')],
  ['a control character in a text', withItem('{"id":"plum","\u001b[2J":1}')],
  ['a lone surrogate', withItem('{"id":"plum","s":"\\ud800"}')],
  ['an id that is missing', `{"db":"fruit","method":"delete_item",${ending}`],
  ['an id that is a number', `{"db":"fruit","id":5,"method":"delete_item",${ending}`],
  ['an attachment without content', attached('{}')],
  ['a deleted attachment without content', attached('{}', 'delete_attachment')],
  ['a negative length', attached(about({ length: '-1' }))],
  ['a fractional length', attached(about({ length: '1.5' }))],
  ['a length in quotes', attached(about({ length: '"1"' }))],
  ['a length beyond 2^53', attached(about({ length: '9007199254740992' }))],
  ['a short hash', attached(about({ sha256: '"00"' }))],
  ['a hash in capitals', attached(about({ sha256: `"${'A'.repeat(64)}"` }))],
  ['a further member of an attachment', attached(about({ z: '1' }))],
  ['an attachment that is a list', attached('[]')],
  ...['[]', '{}', '"1.0"', '["1"]', '["1.00"]', '["01.0"]', '[1.0]', '["0.0","0.0"]'].map(
    (list) => [`the positions ${list}`, erasing(list)] as const,
  ),
  ['positions out of order', erasing('["1.0","0.0"]')],
]

/** Entries whose value is right, but not its spelling. Only a proof file fixes the spelling. */
export const MISSPELT_ENTRIES: readonly (readonly [name: string, entry: string])[] = [
  ...['85.0', '8.5e1', '-0', '1E2', '1e2', '100000000000000000000000'].map(
    (n) => [`the number ${n}`, priced(n)] as const,
  ),
  ['members out of order', withItem('{"price":85,"id":"plum"}')],
  ['a member twice', withItem('{"id":"plum","id":"plum"}')],
  ['a space', withItem('{"id": "plum"}')],
  ['an escape without need', withItem('{"id":"\\u0070lum"}')],
  ['an escaped slash', withItem('{"id":"plum","s":"\\/"}')],
]

export const REFUSED_TIMES: readonly string[] = [
  ...['12345678901234567', '9007199254740992', '-1', '1.5', '"1"', 'null'],
  ...['NaN', '[1]', '{}', 'true'],
]

const HASH = toBase64(new Uint8Array(32))
const checkpoint = (change: (text: string) => string) => ({
  note: (text: string) => signed(change(text)),
})
const note = (change: (note: string) => string) => ({
  note: (text: string) => change(signed(text)),
})
const signatureLine = (name: string) => `— ${name} ${toBase64(new Uint8Array(68))}\n`

/** Proofs whose entry and time are right. */
export const REFUSED_PROOFS: readonly (readonly [name: string, change: Partial<ProofParts>])[] = [
  ['a blind in capitals', { blind: BLIND.toUpperCase() }],
  ['a short blind', { blind: BLIND.slice(2) }],
  ['another count', { count: '2' }],
  ['a position beyond the count', { position: '1' }],
  ['a position of 17 digits', { position: '10000000000000000' }],
  ['a superfluous hash in the block', { path: `["${'0'.repeat(64)}"]` }],
  ['a superfluous hash in the log', { hashes: [HASH] }],
  ['64 hashes', { hashes: Array(64).fill(HASH) }],
  ['a short hash', { hashes: ['AAAA'] }],
  ...['1', '00', '-0', '10000000000000000', '9007199254740993'].map(
    (index) => [`the index ${index}`, { index }] as const,
  ),
  ...(
    [
      ...[
        ['nonce', '-1'],
        ['nonce', '"0"'],
        ['nonce', '9007199254740994'],
        ['nonce', '1.5'],
      ],
      ...[
        ['prev_id', '5'],
        ['prev_id', '"00"'],
        ['prev_id', `"${'0'.repeat(128)}"`],
      ],
      ...[
        ['height', '1'],
        ['height', '-1'],
        ['version', '2'],
        ['serverid', `${SERVER_ID + 1}`],
      ],
      ...[
        ['count', '2'],
        ['count', '"1"'],
        ['zzz', '1'],
        ['root', `"${'0'.repeat(64)}"`],
      ],
    ] as const
  ).map(([name, value]) => [`the ${name} ${value}`, { header: { [name]: value } }] as const),
  ['white space in the opening', { extra: (text) => toBase64(Buffer.from(` ${text}`)) }],
  [
    'an opening that is not UTF-8',
    { extra: (text) => toBase64(Buffer.from([...Buffer.from(text), 0xff])) },
  ],
  ['a byte order mark', { extra: (text) => toBase64(Buffer.from(`\ufeff${text}`)) }],
  ['another opening', { extra: () => toBase64(Buffer.from('{}')) }],
  ['base64 with a line break', { extra: (text) => `${toBase64(Buffer.from(text)).slice(0, 8)}\n` }],
  ['another origin', checkpoint((text) => text.replace(/^.*\n/, 'daicho/5\n'))],
  ['another size', checkpoint((text) => text.replace('\n1\n', '\n2\n'))],
  ['a size of 17 digits', checkpoint((text) => text.replace('\n1\n', '\n10000000000000001\n'))],
  ['a size beyond 2^53', checkpoint((text) => text.replace('\n1\n', '\n9007199254740993\n'))],
  ['an empty extension line', checkpoint((text) => `${text}\n`)],
  ...['\t', '\0', '\u007f', '\r', '\u001b[2J', '\u000b'].map(
    (c) =>
      [
        `an extension line with ${JSON.stringify(c)}`,
        checkpoint((text) => `${text}x${c}x\n`),
      ] as const,
  ),
  ['a long note', checkpoint((text) => `${text}${'x'.repeat(65_536)}\n`)],
  ['no signature', note((all) => all.slice(0, all.indexOf('\n\n') + 2))],
  ['a signature twice', note((all) => all + all.slice(all.indexOf('—')))],
  ['a changed signature', note((all) => all.replace(/.{8}\n$/, 'AAAAAA==\n'))],
  ['a signature of another name only', note((all) => all.replace('— daicho', '— other'))],
  ['65 signatures', note((all) => all + signatureLine('w').repeat(64))],
  ['a signature without a name', note((all) => `${all}— ${HASH}\n`)],
  ['a signature that is too short', note((all) => `${all}— w AAAA\n`)],
  ['a name with a plus sign', note((all) => all + signatureLine('w+w'))],
  ['a name with a zero width space', note((all) => all + signatureLine('w\ufeffw'))],
  ['a name with a control character', note((all) => all + signatureLine('w\u001bw'))],
  ['no line break at the end', note((all) => all.slice(0, -1))],
  ['a text after the signatures', note((all) => `${all}x\n`)],
  ['two empty lines', note((all) => all.replace('\n\n', '\n\n\n'))],
]
