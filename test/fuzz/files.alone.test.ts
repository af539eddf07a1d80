// Input files with thousands of kinds of damage. Each reader accepts the file, or rejects it with a code and a
// message. A reader throws no other error and does not hang.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, deflateRawSync, gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CodedError } from '../../src/base/coded-error.ts'
import {
  nodeVerifySignature,
  openCheckpoint,
  parseVerifierKey,
  verifyProofFile,
} from '../../src/chain/index.ts'
import { readSettings } from '../../src/cli/composition/settings.ts'
import { Exit } from '../../src/cli/exit.ts'
import { openPairs } from '../../src/guarded-path/index.ts'
import { exportLines, readExport } from '../../src/ledger/core.ts'
import { findNodeKey } from '../../src/ledger/log/node-key.ts'
import {
  readDefinition,
  readNetwork,
  requireDefinition,
  writeArchive,
} from '../../src/network/index.ts'
import { readVectorFile } from '../../src/rate-feed/sources.ts'
import { openUserDirectory } from '../../src/sample-api/index.ts'
import { openStoreReader } from '../../src/storage/index.ts'
import { mutation } from '../support/fuzz.ts'
import { startLedgerNode } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const RUNS = roundsOf(900)

/** Overwrites 1, 2 or 4 bytes with an extreme number, because binary formats have number fields. */
const edge = fc
  .tuple(
    fc.nat(),
    fc.constantFrom(0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff),
    fc.constantFrom(1, 2, 4),
    fc.boolean(),
  )
  .map(([place, value, width, isLittle]) => (bytes: Buffer) => {
    if (bytes.length < width) return bytes
    const changed = Buffer.from(bytes)
    const at = place % (bytes.length - width + 1)
    const fitting = value % 256 ** width
    if (isLittle) changed.writeUIntLE(fitting, at, width)
    else changed.writeUIntBE(fitting, at, width)
    return changed
  })
/** Moves a part of the file, or repeats it up to 50 times. */
const chunk = fc
  .tuple(fc.nat(), fc.nat(400), fc.nat(), fc.constantFrom(1, 1, 2, 50))
  .map(([from, length, to, times]) => (bytes: Buffer) => {
    const start = from % (bytes.length + 1)
    const piece = bytes.subarray(start, start + length)
    const at = to % (bytes.length + 1)
    const pieces = Array.from({ length: times }, () => piece)
    return Buffer.concat([bytes.subarray(0, at), ...pieces, bytes.subarray(at)])
  })
const cut = fc
  .nat()
  .map((length) => (bytes: Buffer) => bytes.subarray(0, length % (bytes.length + 1)))
/** Inserts a text that often breaks text parsers. */
const word = fc
  .tuple(
    fc.nat(),
    fc.constantFrom(
      ...[
        '"',
        "'",
        '\\',
        '\\u',
        '/*',
        '//',
        '{',
        '}',
        '[',
        '(',
        ')',
        '\u0000',
        '\ufeff',
        '\r',
        '\n',
        '\n\n',
        ' ',
      ],
      ...[
        '1e999',
        '-0',
        '9007199254740993',
        '__proto__',
        'constructor',
        'null',
        '../',
        '—',
        '\ud83d',
        '%',
        '$&',
      ],
      ...[
        '['.repeat(20_000),
        '('.repeat(20_000),
        '{"a":'.repeat(20_000),
        'a'.repeat(70_000),
        'NOT '.repeat(20_000),
      ],
    ),
  )
  .map(([place, text]) => (bytes: Buffer) => {
    const at = place % (bytes.length + 1)
    return Buffer.concat([bytes.subarray(0, at), Buffer.from(text), bytes.subarray(at)])
  })
const damage = fc.oneof({ weight: 3, arbitrary: mutation }, edge, chunk, cut, word)
const damages = fc.array(damage, { minLength: 1, maxLength: 4 })

interface Format {
  readonly good: () => Buffer
  /** Reads a file with these bytes. May throw the documented errors. */
  readonly read: (bytes: Buffer) => unknown
}

let folder: string
let vkey: string
const samples = new Map<string, Buffer>()
const sample = (name: string) => () => samples.get(name) ?? Buffer.alloc(0)
const NETWORK = 'test/networks/trade'
const MODELS = 'models/trading.cto'
const SCRIPT = `/** Trades.
 * @param {org.example.trading.Trade} trade the trade
 * @transaction */
async function trade(trade) { emit(\`\${trade}\`.replace(/[/]{2}/g, '')) }`

async function lines(of: string): Promise<Buffer> {
  const store = await openStoreReader(of, { frozen: true })
  const parts: Buffer[] = []
  for await (const text of exportLines(store, of, () => {})) parts.push(Buffer.from(text))
  await store.close()
  return Buffer.concat(parts)
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  const data = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  const node = await startLedgerNode({ folder: data })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', [{ id: 'fig', n: [1.5, { a: null }] }, { id: '🍎' }])
  await node.send('POST', '/api/fruit/fig', { n: 2 })
  await node.send('DELETE', '/api/fruit/fig')
  const own = `/api/ledgers/${node.service.serverId}`
  vkey = (await node.send('GET', `${own}/vkey`)).text.trim()
  samples.set('vkey', Buffer.from(vkey))
  samples.set('proof', Buffer.from((await node.send('GET', '/api/fruit/🍎/proof')).text))
  samples.set('checkpoint', Buffer.from((await node.send('GET', `${own}/checkpoint`)).text))
  await node.close()
  samples.set('export', await lines(data))
  samples.set('node.key', readFileSync(join(data, 'node.key')))
  rmSync(data, { recursive: true })
  const { files } = await readNetwork(NETWORK)
  for (const [path, content] of files) samples.set(path, content)
  samples.set('lib/trade.js', Buffer.from(SCRIPT))
  samples.set('bna', writeArchive(new Map([...files, ['lib/trade.js', Buffer.from(SCRIPT)]])))
  samples.set('packed', gzipSync(samples.get('export') ?? ''))
})
afterAll(() => rmSync(folder, { recursive: true }))

/** The file `name` of a network, with valid other files. */
function inNetwork(name: string): Format {
  return {
    good: sample(name),
    read: (bytes) => {
      const paths = ['package.json', MODELS, 'permissions.acl', 'queries.qry', 'lib/trade.js']
      const files = new Map(paths.map((path) => [path, samples.get(path) ?? Buffer.alloc(0)]))
      return requireDefinition({ packed: null, files: files.set(name, bytes) })
    },
  }
}

/** Writes `bytes` to a file, calls `read` with its path, and deletes the file. */
async function asFile<Result>(bytes: Buffer, read: (path: string) => Promise<Result>) {
  const path = join(folder, 'file')
  writeFileSync(path, bytes)
  const result = await read(path)
  return result
}

async function readChain(bytes: Buffer): Promise<void> {
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += 700) yield bytes.subarray(at, at + 700)
  }
  await readExport(chunks(), { header: async () => {}, blocks: async () => {} })
}

const json = (value: unknown) => () => Buffer.from(JSON.stringify(value))
const PER_EUR = {
  ...{ USD: 1.1, JPY: 160, AUD: 1.6, GBP: 0.9, NZD: 1.8, CAD: 1.5, CHF: 0.9, HKD: 8.6, ZAR: 20 },
  ...{ TRY: 40, CNH: 8, NOK: 11, SEK: 11, MXN: 20 },
}
const SETTINGS = Object.keys(readSettings({})).filter((name) => name !== 'BASIC_PASSWORD')

const FORMATS: Readonly<Record<string, Format>> = {
  'a packed network': { good: sample('bna'), read: readDefinition },
  'a package.json': inNetwork('package.json'),
  'a model': inNetwork(MODELS),
  'access rules': inNetwork('permissions.acl'),
  queries: inNetwork('queries.qry'),
  scripts: inNetwork('lib/trade.js'),
  'an export': { good: sample('export'), read: readChain },
  'a compressed export': { good: sample('packed'), read: readChain },
  'a proof file': {
    good: sample('proof'),
    read: (bytes) => verifyProofFile(nodeVerifySignature, keyOf(vkey), bytes.toString('utf8')),
  },
  'a checkpoint': {
    good: sample('checkpoint'),
    read: (bytes) => openCheckpoint(nodeVerifySignature, keyOf(vkey), bytes.toString('utf8')),
  },
  'a verifier key': { good: sample('vkey'), read: (bytes) => keyOf(bytes.toString('utf8')) },
  'the key of a node': {
    good: sample('node.key'),
    read: (bytes) => {
      writeFileSync(join(folder, 'node.key'), bytes)
      return findNodeKey(folder)
    },
  },
  'a vector of rates': {
    good: json({ source: 'me', asOf: '2026-11-20', perEur: PER_EUR }),
    read: (bytes) => asFile(bytes, readVectorFile),
  },
  'credentials of the guarded path': {
    good: json({ a: { name: 'a', password: 'b' }, b: { name: 'c', password: 'd' } }),
    read: (bytes) => asFile(bytes, (file) => openPairs({ file, isLoopback: true })),
  },
  'users of the sample': {
    good: json([
      {
        name: 'a',
        admin: true,
        passwordHash: `$argon2id$v=19$m=19456,t=2,p=1$${'A'.repeat(22)}$${'A'.repeat(43)}`,
      },
    ]),
    read: (bytes) =>
      asFile(bytes, (file) => openUserDirectory({ file, folder: null, isLoopback: true })),
  },
  'a setting': {
    good: () => Buffer.from('1,ledger:127.0.0.1'),
    read: (bytes) => {
      // An environment variable cannot contain NUL.
      const text = bytes.toString('utf8').replaceAll('\u0000', '')
      for (const name of SETTINGS) refusing(() => readSettings({ [name]: text }))
    },
  },
}

function keyOf(text: string) {
  return parseVerifierKey(text)
}

function refusing(read: () => unknown): void {
  try {
    read()
  } catch (error) {
    expectRefusal(error)
  }
}

function expectRefusal(error: unknown): void {
  if (!(error instanceof CodedError || error instanceof Exit)) throw error
  expect(error.message).not.toBe('')
  expect(error.message.length).toBeLessThan(5_000)
}

describe.each(Object.entries(FORMATS))('%s', (_name, { good, read }) => {
  it('reads a valid file', async () => {
    await read(good()) // throws if the file is rejected
  })

  it('reads a damaged file, or rejects it with a code and a message', async () => {
    let refused = 0
    await fc.assert(
      fc.asyncProperty(damages, async (list) => {
        const bytes = list.reduce((before, change) => change(before), good())
        try {
          await read(bytes)
        } catch (error) {
          refused += 1
          expectRefusal(error)
        }
        expect(
          readdirSync(folder).filter((name) => name !== 'file' && name !== 'node.key'),
        ).toEqual([])
      }),
      { numRuns: RUNS, endOnFailure: true },
    )
    // Formats with a short valid file, such as a setting, accept most texts.
    if (good().length > 30) expect(refused).toBeGreaterThan(RUNS / 20)
  })
})

it('readers reject decompression bombs, or stop at a limit', async () => {
  const zeros = Buffer.alloc(300 * 1024 * 1024)
  const before = process.memoryUsage().rss
  for (const bomb of [
    gzipSync(zeros),
    zstdCompressSync(zeros),
    brotliCompressSync(zeros.subarray(0, 1e6)),
  ]) {
    await expect(readChain(bomb)).rejects.toBeInstanceOf(CodedError)
  }
  const archive = Buffer.from(sample('bna')())
  const packed = deflateRawSync(zeros)
  for (const announced of [1, 1000, 0xffffffff, zeros.length]) {
    expect(() => readDefinition(bombed(archive, packed, announced))).toThrow(CodedError)
  }
  expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024)
})

/**
 * Returns an archive with one file, whose compressed bytes are `packed` and whose declared size is
 * `announced` bytes.
 */
function bombed(archive: Buffer, packed: Buffer, announced: number): Buffer {
  const name = Buffer.from('package.json')
  const local = Buffer.alloc(30)
  local.writeUInt32LE(0x04034b50, 0)
  local.writeUInt16LE(8, 8)
  local.writeUInt32LE(packed.length, 18)
  local.writeUInt32LE(announced, 22)
  local.writeUInt16LE(name.length, 26)
  const central = Buffer.alloc(46)
  central.writeUInt32LE(0x02014b50, 0)
  central.writeUInt16LE(8, 10)
  central.writeUInt32LE(packed.length, 20)
  central.writeUInt32LE(announced, 24)
  central.writeUInt16LE(name.length, 28)
  const end = Buffer.from(archive.subarray(-22))
  end.writeUInt16LE(1, 8)
  end.writeUInt16LE(1, 10)
  end.writeUInt32LE(46 + name.length, 12)
  end.writeUInt32LE(30 + name.length + packed.length, 16)
  return Buffer.concat([local, name, packed, central, name, end])
}
