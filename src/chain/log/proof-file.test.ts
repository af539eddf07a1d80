import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import { type Block, headerText, sealBlock, toHead, toHeader } from '../block.ts'
import { entryText } from '../entry.ts'
import {
  commitmentPath,
  EMPTY_FRONTIER,
  frontierRoot,
  grown,
  leafHash,
  nodePlace,
  type ReadNodes,
} from '../merkle-tree.ts'
import { nodeVerifySignature, rawPublicKey } from '../node-keys.ts'
import { checkpointText, logOrigin, signedNote } from './checkpoint.ts'
import { proofFileText, verifyProofFile } from './proof-file.ts'
import { proveInclusion } from './proofs.ts'

const SERVER = 4_126
const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const key = { name: logOrigin(SERVER), publicKey: rawPublicKey(publicKey) }

/** A chain of blocks of 1 to 7 entries, and its log. */
function chainOf(size: number) {
  const blocks: Block[] = []
  const rows: Buffer[] = []
  let frontier = EMPTY_FRONTIER
  for (let height = 0; height < size; height += 1) {
    const before = blocks.at(-1)
    const entries = Array.from({ length: 1 + (height % 7) }, (_, at) =>
      entryText.item('create_item', SERVER, 'fruit', `{"id":"${height}-${at}","name":"台帳 \\n"}`),
    )
    const block = sealBlock(before === undefined ? null : toHead(before), {
      serverId: SERVER,
      entries,
      timestamps: entries.map(() => 1_700_000_000_000 + height),
      blinds: randomBytes(32 * entries.length),
    })
    blocks.push(block)
    const leaf = leafHash(Buffer.from(headerText(toHeader(block))))
    const step = grown(frontier, leaf)
    frontier = step.frontier
    rows.push(Buffer.concat(step.nodes))
  }
  const read: ReadNodes = async (nodes) =>
    nodes.map((node) => {
      const { leaf, at } = nodePlace(node)
      return rows[leaf]?.subarray(at, at + 32) ?? Buffer.alloc(0)
    })
  const text = checkpointText({ origin: key.name, size, root: frontierRoot(frontier) })
  const checkpoint = signedNote(key, text, (bytes) => sign(null, bytes, privateKey))
  return { blocks, read, checkpoint }
}

async function proofOf(chain: ReturnType<typeof chainOf>, height: number, position: number) {
  const block = chain.blocks[height]
  if (block === undefined) throw new Error('no such block')
  const opening = {
    header: headerText(toHeader(block)),
    count: block.entries.length,
    position,
    path: commitmentPath(block.commitments, position),
    entry: block.entries[position] ?? '',
    timestamp: block.timestamps[position] ?? 0,
    blind: block.blinds.subarray(position * 32, position * 32 + 32),
  }
  const path = await proveInclusion(height, chain.blocks.length, chain.read)
  return { opening, height, path, checkpoint: chain.checkpoint }
}

it('proves an entry, its position and its time to a verifier that has only the key', async () => {
  const chain = chainOf(45)
  for (const [height, block] of chain.blocks.entries()) {
    for (const [position, entry] of block.entries.entries()) {
      const file = proofFileText(await proofOf(chain, height, position))
      expect(await verifyProofFile(nodeVerifySignature, key, file)).toMatchObject({
        serverId: SERVER,
        height,
        index: position,
        entry: JSON.parse(entry),
        timestamp: 1_700_000_000_000 + height,
        checkpoint: { size: 45, origin: 'daicho/4126' },
      })
    }
  }
})

it('proves only the position and the commitment of an erased entry', async () => {
  const chain = chainOf(10)
  const proof = await proofOf(chain, 5, 3)
  const { header, count, position, path } = proof.opening
  const commitment = chain.blocks[5]?.commitments.subarray(96, 128) ?? Buffer.alloc(0)
  const erased = { ...proof, opening: { header, count, position, path, commitment } }
  expect(await verifyProofFile(nodeVerifySignature, key, proofFileText(erased))).toMatchObject({
    height: 5,
    index: 3,
    entry: null,
    timestamp: null,
  })
  const other = { ...erased, opening: { ...erased.opening, commitment: Buffer.alloc(32) } }
  await expect(
    verifyProofFile(nodeVerifySignature, key, proofFileText(other)),
  ).rejects.toMatchObject({
    code: 'PROOF_WRONG',
  })
})

it('rejects an entry of another node in a block of this chain', async () => {
  const entry = entryText.item('create_item', SERVER + 1, 'fruit', '{"id":"a"}')
  const block = sealBlock(null, {
    ...{ serverId: SERVER, entries: [entry], timestamps: [5] },
    blinds: Buffer.alloc(32, 1),
  })
  const leaf = leafHash(Buffer.from(headerText(toHeader(block))))
  const { frontier } = grown(EMPTY_FRONTIER, leaf)
  const head = checkpointText({ origin: key.name, size: 1, root: frontierRoot(frontier) })
  const checkpoint = signedNote(key, head, (message) => sign(null, message, privateKey))
  const file = proofFileText(
    await proofOf({ blocks: [block], read: async () => [], checkpoint }, 0, 0),
  )
  await expect(verifyProofFile(nodeVerifySignature, key, file)).rejects.toMatchObject({
    code: 'PROOF_MALFORMED',
  })
})

it('writes the format tlog-proof: version, extra, index, hashes, an empty line, the checkpoint', async () => {
  const chain = chainOf(6)
  const file = proofFileText(await proofOf(chain, 4, 2))
  const [head = '', text = '', signatures = ''] = file.split('\n\n')
  const [version, extra = '', index, ...hashes] = head.split('\n')
  expect([version, index, hashes.length]).toEqual(['c2sp.org/tlog-proof@v1', 'index 4', 2])
  expect(`${text}\n\n${signatures}`).toBe(chain.checkpoint)
  const opened = JSON.parse(Buffer.from(extra.slice('extra '.length), 'base64').toString())
  expect(Object.keys(opened)).toEqual([
    ...['blind', 'count', 'entry', 'header', 'path', 'position', 'timestamp'],
  ])
  expect(opened.header).toMatchObject({ height: 4, count: 5, serverid: SERVER, version: 1 })
})

it('rejects files in which a byte or line was changed, dropped, duplicated or swapped', async () => {
  const chain = chainOf(45)
  const file = proofFileText(await proofOf(chain, 37, 1))
  const bytes = Buffer.from(file)
  const accepted: string[] = []
  let tried = 0
  const attempt = async (label: string, changed: string) => {
    if (changed === file) return
    tried += 1
    try {
      await verifyProofFile(nodeVerifySignature, key, changed)
      accepted.push(label)
    } catch (error) {
      expect((error as { code?: string }).code).toMatch(/^(PROOF|NOTE|CHECKPOINT)_/)
    }
  }
  for (const [at, byte] of bytes.entries()) {
    const flipped = Buffer.from(bytes)
    flipped[at] = byte ^ (1 << (at % 7))
    await attempt(`flip ${at}`, flipped.toString())
    await attempt(`drop ${at}`, file.slice(0, at) + file.slice(at + 1))
    await attempt(`double ${at}`, file.slice(0, at) + file.charAt(at) + file.slice(at))
  }
  const lines = file.split('\n')
  for (const [at, line] of lines.entries()) {
    await attempt(`line ${at} dropped`, lines.toSpliced(at, 1).join('\n'))
    await attempt(`line ${at} doubled`, lines.toSpliced(at, 0, line).join('\n'))
    for (let other = 0; other < at; other += 1) {
      const swapped = lines.with(at, lines[other] ?? '').with(other, line)
      await attempt(`lines ${at} and ${other} swapped`, swapped.join('\n'))
    }
  }
  expect(accepted).toEqual([])
  expect(tried).toBeGreaterThan(4_000)
})

it('rejects a proof file in which any member of the opening was changed', async () => {
  const chain = chainOf(20)
  const proof = await proofOf(chain, 13, 2)
  const whole = proofFileText(proof)
  const changedExtra = (change: (extra: Record<string, unknown>) => unknown) => {
    const [, encoded = ''] = /extra (\S+)/.exec(whole) ?? []
    const extra = JSON.parse(Buffer.from(encoded, 'base64').toString())
    const text = JSON.stringify(change(extra))
    return whole.replace(encoded, Buffer.from(text).toString('base64'))
  }
  const changes: ((extra: Record<string, unknown>) => unknown)[] = [
    (extra) => ({ ...extra, timestamp: 5 }),
    (extra) => ({ ...extra, position: 1 }),
    (extra) => ({ ...extra, position: 7 }),
    (extra) => ({ ...extra, position: -1 }),
    (extra) => ({ ...extra, count: 8 }),
    (extra) => ({ ...extra, entry: {} }),
    (extra) => ({ ...extra, entry: null }),
    (extra) => ({ ...extra, header: { ...Object(extra.header), height: 12 } }),
    (extra) => ({ ...extra, header: { ...Object(extra.header), version: 2 } }),
    (extra) => ({ ...extra, header: { ...Object(extra.header), serverid: 7 } }),
    (extra) => ({ ...extra, header: { ...Object(extra.header), extra: 7 } }),
    (extra) => ({ ...extra, path: [] }),
    (extra) => ({ ...extra, path: [...Object(extra.path), '00'.repeat(32)] }),
    (extra) => ({ ...extra, path: 'x' }),
    (extra) => ({ ...extra, blind: '00'.repeat(32) }),
    (extra) => ({ ...extra, blind: String(extra.blind).toUpperCase() }),
    (extra) => ({ ...extra, more: 1 }),
    () => [],
    () => null,
    () => 1,
  ]
  for (const change of changes) {
    await expect(
      verifyProofFile(nodeVerifySignature, key, changedExtra(change)),
    ).rejects.toMatchObject({
      name: 'ProofError',
    })
  }
  expect(
    await verifyProofFile(
      nodeVerifySignature,
      key,
      changedExtra((extra) => extra),
    ),
  ).toBeTruthy()
  const other = { ...key, publicKey: rawPublicKey(generateKeyPairSync('ed25519').publicKey) }
  await expect(verifyProofFile(nodeVerifySignature, other, whole)).rejects.toMatchObject({
    code: 'NOTE_UNSIGNED',
  })
})

it('requires that the opening is UTF-8 and canonical JSON', async () => {
  const whole = proofFileText(await proofOf(chainOf(3), 2, 1))
  const [, encoded = ''] = /extra (\S+)/.exec(whole) ?? []
  const bytes = Buffer.from(encoded, 'base64')
  const messageFor = (changed: Buffer) =>
    verifyProofFile(
      nodeVerifySignature,
      key,
      whole.replace(encoded, changed.toString('base64')),
    ).then(
      () => 'verified',
      ({ code, message }) => `${code}: ${message}`,
    )
  const notUtf8 = Buffer.from(bytes)
  notUtf8[bytes.indexOf('台')] = 0xff
  expect(await messageFor(bytes)).toBe('verified')
  expect(await messageFor(notUtf8)).toBe(
    'PROOF_MALFORMED: the opening of the commitment is not UTF-8',
  )
  expect(await messageFor(bytes.subarray(1))).toBe(
    'PROOF_MALFORMED: the opening of the commitment is not JSON',
  )
  const spaced = Buffer.from(bytes.toString().replace('{', '{ '))
  expect(await messageFor(spaced)).toBe(
    'PROOF_MALFORMED: the opening of the commitment is malformed',
  )
  const marked = Buffer.concat([Buffer.from('\ufeff'), bytes])
  expect(await messageFor(marked)).toBe(
    'PROOF_MALFORMED: the opening of the commitment is not JSON',
  )
})

it('accepts a proof file of 32 MiB, and rejects a longer file', async () => {
  const lengths: number[] = []
  const outcomes: string[] = []
  // A file has four characters per three bytes of the entry, so three more bytes make the longest valid file too long.
  for (const bytes of [0, 3]) {
    const entry = (text: string) => entryText.item('create_item', SERVER, 'd', `{"id":"${text}"}`)
    const fileOf = async (text: string) => {
      const block = sealBlock(null, {
        ...{ serverId: SERVER, entries: [entry(text)], timestamps: [5] },
        blinds: Buffer.alloc(32, 1),
      })
      const leaf = leafHash(Buffer.from(headerText(toHeader(block))))
      const { frontier } = grown(EMPTY_FRONTIER, leaf)
      const root = frontierRoot(frontier)
      const head = checkpointText({ origin: key.name, size: 1, root })
      const checkpoint = signedNote(key, head, (message) => sign(null, message, privateKey))
      return proofFileText(
        await proofOf({ blocks: [block], read: async () => [], checkpoint }, 0, 0),
      )
    }
    const entryBytes = 32 * 1024 * 1024 - (await fileOf('')).length
    const file = await fileOf('x'.repeat(Math.floor(entryBytes / 4) * 3 + bytes))
    lengths.push(file.length - 32 * 1024 * 1024)
    outcomes.push(
      await verifyProofFile(nodeVerifySignature, key, file).then(
        () => 'verified',
        ({ message }) => message,
      ),
    )
  }
  expect(lengths[0]).toBeGreaterThan(-4)
  expect(lengths[0]).toBeLessThanOrEqual(0)
  expect(lengths[1]).toBeGreaterThan(0)
  expect(outcomes).toEqual(['verified', 'the proof file is too long'])
})
