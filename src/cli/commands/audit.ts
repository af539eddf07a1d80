import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import {
  type Audited,
  auditedJson,
  auditedOf,
  auditLog,
  NOTHING_AUDITED,
  nodeVerifySignature,
  ProofError,
  type VerifierKey,
  verifierKeyOf,
  verifierKeyText,
} from '../../chain/index.ts'
import { fileExists, makeFolder } from '../../storage/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { nodeReply } from '../node-reply.ts'
import { ProgressLine } from '../progress.ts'
import { givenKey, type VerifyFlags } from './verify-flags.ts'

/** Longest reply: a bundle of entries, with room. */
const REPLY_BYTES_MAX = 1_048_576

/** What an audit says. */
interface AuditResult {
  readonly status: boolean
  readonly serverId: number
  /** How many blocks hold, and how many of them are new since the last audit. */
  readonly blocks: number
  readonly added: number
  readonly headId: string | null
  readonly code: string | null
  readonly what: string | null
}

/** What is remembered of a log: the key it is known by, and how far it was audited. */
interface Remembered {
  readonly key: VerifierKey
  readonly audited: Audited
}

/** The bytes at a URL of the node. Errors: Exit (usage). */
type Read = (url: string) => Promise<Uint8Array>

/** Audits the log of the node at `url` and prints what was found. Errors: Exit. */
export async function auditUrl(url: string, flags: VerifyFlags): Promise<void> {
  if (!URL.canParse(url)) throw new Exit(EXIT.usage, `${url} is not the address of a ledger`)
  const base = url.replace(/\/+$/, '')
  const read: Read = (at) => bytesAt(at, flags.token)
  const serverId = await serverIdAt(base, read)
  const prefix = `${base}/api/ledgers/${serverId}`
  const path = flags.state ?? join(homedir(), '.daicho', `audit-${serverId}.json`)
  const remembered = rememberedIn(path)
  const key = await keyFor(() => read(`${prefix}/vkey`), flags, remembered)
  const line = new ProgressLine('auditing', process.stderr)
  const before = remembered?.audited ?? NOTHING_AUDITED
  const fetch = (part: string) => read(`${prefix}/${part}`)
  const result = await audited({ fetch, serverId, key, before, path, line })
  line.end()
  const firstSight = remembered === null && flags.key === undefined
  process.stdout.write(
    flags.json === true ? `${JSON.stringify(result)}\n` : inWords(result, key, firstSight),
  )
  process.exitCode = result.status ? EXIT.right : EXIT.finding
}

async function audited(of: {
  readonly fetch: Read
  readonly serverId: number
  readonly key: VerifierKey
  readonly before: Audited
  readonly path: string
  readonly line: ProgressLine
}): Promise<AuditResult> {
  const { fetch, serverId, key, before, path, line } = of
  const known = before.frontier.size
  try {
    const { audited: now } = await auditLog({
      verifySignature: nodeVerifySignature,
      key,
      serverId,
      before,
      fetch,
      progress: (blocks, ofBlocks) =>
        line.update(blocks / ofBlocks, `${blocks} blocks`, systemClock.now()),
    })
    remember(path, { key, audited: now })
    const { size } = now.frontier
    const { headId } = now
    return {
      status: true,
      serverId,
      blocks: size,
      added: size - known,
      headId,
      code: null,
      what: null,
    }
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    const { code, message: what } = error
    return { status: false, serverId, blocks: known, added: 0, headId: before.headId, code, what }
  }
}

/** The key that was given, else the one remembered, else, on first sight, the node's own word. */
async function keyFor(
  vkey: () => Promise<Uint8Array>,
  flags: VerifyFlags,
  remembered: Remembered | null,
): Promise<VerifierKey> {
  if (flags.key !== undefined) return givenKey(flags.key)
  if (remembered !== null) return remembered.key
  const text = new TextDecoder().decode(await vkey())
  return verifierKeyOf(text.trim())
}

async function serverIdAt(base: string, read: Read): Promise<number> {
  const text = new TextDecoder().decode(await read(`${base}/api/serverid`))
  const reply = parsed(text)
  const serverId = isJsonObject(reply) ? reply.serverid : null
  if (typeof serverId === 'number' && Number.isSafeInteger(serverId)) return serverId
  throw new Exit(EXIT.usage, `${base} is not the address of a ledger`)
}

/** Errors: Exit (usage) when there is no such reply. */
async function bytesAt(url: string, token: string | undefined): Promise<Uint8Array> {
  try {
    const headers: Record<string, string> = token === undefined ? {} : { 'x-access-token': token }
    const { status, bytes } = await nodeReply(url, { headers }, { bytesMax: REPLY_BYTES_MAX })
    if (status === 200) return bytes
    if (status === 401) throw new Error('the node asks for a valid token (--token)')
    throw new Error(`it answered ${status}`)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Exit(EXIT.usage, `${url} cannot be read: ${reason}`, { cause: error })
  }
}

/** Errors: Exit (configuration) when the file is not ours: starting anew would forget what was seen. */
function rememberedIn(path: string): Remembered | null {
  if (!fileExists(path)) return null
  const value = parsed(readFileSync(path, 'utf8'))
  const audited = isJsonObject(value) ? auditedOf(value.audited) : null
  if (isJsonObject(value) && typeof value.key === 'string' && audited !== null) {
    return { key: verifierKeyOf(value.key), audited }
  }
  throw new Exit(EXIT.configuration, `${path} does not hold what an audit has remembered`)
}

function remember(path: string, { key, audited }: Remembered): void {
  const state = { key: verifierKeyText(key), audited: auditedJson(audited) }
  makeFolder(dirname(path))
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`, { flush: true })
  renameSync(`${path}.new`, path)
}

function parsed(text: string): Json {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}

function inWords(result: AuditResult, key: VerifierKey, firstSight: boolean): string {
  const { status, serverId, blocks, added, headId, what } = result
  const lines = status
    ? [
        `The log holds: ${blocks} blocks, ${added} of them new.`,
        `server id  ${serverId}`,
        `head       ${headId ?? '(none)'}`,
        `key        ${verifierKeyText(key)}`,
        ...(firstSight
          ? ['The key was taken from the node itself; compare it with another source.']
          : []),
      ]
    : [`DIFFERENCE ${what}`, `(${blocks} blocks were audited before)`]
  return `${lines.join('\n')}\n`
}
