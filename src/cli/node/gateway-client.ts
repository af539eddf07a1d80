import { pino } from 'pino'
import { systemClock } from '../../base/clock.ts'
import { isJsonObject, type Json } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { joinUrl } from '../../base/url.ts'
import { buildApp, type HttpApp } from '../../http/index.ts'
import type { LedgerService } from '../../ledger/index.ts'
import {
  type IdentityRequest,
  type NetworkDefinition,
  type NetworkSummary,
  Networks,
} from '../../network/index.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import { warn } from '../output/output.ts'
import { VERSION } from '../version.ts'
import { findCommandAuthor, refuseAuthor } from './author.ts'
import { fetchFromNode } from './node-client.ts'
import { type FolderFlags, nodeFolder } from './node-folder.ts'
import type { AuthorFlags } from './node-options.ts'
import { openStoppedNode } from './stopped-node.ts'

/** Timeout for a reply of a gateway. It is long, because an upgrade checks all stored data of a network. */
const REPLY_MS = 600_000

export interface NetworkFlags extends AuthorFlags, FolderFlags {
  readonly url?: string
  readonly json?: boolean
}

export interface IdentitySummary {
  readonly identityId: string
  readonly name: string
  /** `ISSUED`, `BOUND` or `REVOKED`. */
  readonly state: string
  readonly participant: string
  /** Whether the identity may issue, bind and revoke identities. */
  readonly canIssue: boolean
}

/** Runs `work` on the gateway of the running node at `url`, or of the stopped node in SYSTEM_FOLDER. Errors: Exit. */
export async function withNode<Result>(
  flags: NetworkFlags,
  work: (gateway: Gateway) => Promise<Result>,
): Promise<Result> {
  const { url } = flags
  const settings = readSettings(process.env)
  if (url !== undefined) {
    refuseAuthor(flags, 'the running node records the administrator of the network')
    return work(new Gateway(url, settings.GATEWAY_API_KEY, fetch))
  }
  const by = findCommandAuthor(settings, flags)
  return withNetworks(settings, flags, async (networks, { serverId }) => {
    const { localGateway } = await import('../composition/gateway.ts')
    const app = await buildApp(localGateway(networks, { serverId, version: VERSION, by }), {
      logger: pino({ level: 'silent' }),
      publicHosts: new Set(),
    })
    try {
      return await work(new Gateway(IN_PROCESS, null, fetchFromApp(app)))
    } finally {
      await app.close()
    }
  })
}

const IN_PROCESS = 'http://localhost'

/** Returns a function like `fetch` that calls `app` without a socket. */
function fetchFromApp(app: HttpApp): typeof fetch {
  return async (address, { method, headers, body } = {}) => {
    const reply = await app.inject({
      method: method === 'POST' || method === 'PUT' ? method : 'GET',
      url: String(address).slice(IN_PROCESS.length),
      headers: Object.fromEntries(new Headers(headers)),
      ...(body instanceof Uint8Array || typeof body === 'string'
        ? { payload: Buffer.from(body) }
        : {}),
    })
    // A reply with status 204 must not have a body.
    const { rawPayload, statusCode: status } = reply
    return new Response(rawPayload.length === 0 ? null : rawPayload, { status })
  }
}

/** Runs `work` on the networks of the stopped node in SYSTEM_FOLDER. Errors: NetworkError, Exit. */
export async function withNetworks<Result>(
  settings: Settings,
  flags: FolderFlags,
  work: (networks: Networks, ledger: LedgerService) => Promise<Result>,
): Promise<Result> {
  const folder = nodeFolder(settings, { mayBeNew: false })
  const ledger = await openStoppedNode(settings, folder, flags)
  try {
    const networks = await Networks.open({
      ledger: ledger.service,
      clock: systemClock,
      version: VERSION,
      warn,
      deadlineMs: settings.PROCESSOR_DEADLINE_MS,
      log: () => {},
    })
    try {
      return await work(networks, ledger.service)
    } finally {
      await networks.close()
    }
  } finally {
    await ledger.close()
  }
}

/** The business networks of a node, through its gateway. Errors of all methods: UrlError; Exit (finding). */
export class Gateway {
  readonly #base: string
  readonly #apiKey: string | null
  readonly #fetch: typeof fetch

  constructor(base: string, apiKey: string | null, sender: typeof fetch) {
    this.#base = base
    this.#apiKey = apiKey
    this.#fetch = sender
  }

  async list(): Promise<NetworkSummary[]> {
    return requireList(await this.#request('GET', '/networks')).map(parseSummary)
  }

  async deploy({ archive }: NetworkDefinition): Promise<NetworkSummary> {
    return parseSummary(await this.#request('POST', '/networks', archive))
  }

  async upgrade(
    { name, archive }: NetworkDefinition,
    defaults: readonly string[],
  ): Promise<NetworkSummary> {
    const query = new URLSearchParams(defaults.map((text): [string, string] => ['default', text]))
    return parseSummary(await this.#request('PUT', `/networks/${name}?${query}`, archive))
  }

  /** Issues an identity and returns its secret, which is not stored. */
  async issue(network: string, identity: IdentityRequest): Promise<string> {
    const { participant, name: userID, canIssue: issuer } = identity
    const body = { participant, userID, issuer }
    const reply = await this.#request('POST', `${identitiesPath(network)}/issue`, body)
    return requireTexts(reply, ['userSecret']).userSecret
  }

  async bind(network: string, participant: string, certificate: string): Promise<void> {
    const body = { participant, certificate }
    await this.#request('POST', `${identitiesPath(network)}/bind`, body)
  }

  async revoke(network: string, identityId: string): Promise<void> {
    const id = encodeURIComponent(identityId)
    await this.#request('POST', `${identitiesPath(network)}/${id}/revoke`)
  }

  async identities(network: string): Promise<IdentitySummary[]> {
    const query = new URLSearchParams({ filter: IDENTITY_FILTER })
    const reply = await this.#request('GET', `${identitiesPath(network)}?${query}`)
    return requireList(reply).map(parseIdentity)
  }

  async #request(method: string, path: string, sent?: Buffer | object): Promise<Json> {
    const url = joinUrl(this.#base, path)
    const headers: Record<string, string> =
      this.#apiKey === null ? {} : { 'x-api-key': this.#apiKey }
    let body: Uint8Array<ArrayBuffer> | string | null = null
    if (Buffer.isBuffer(sent)) {
      headers['content-type'] = 'application/octet-stream'
      body = new Uint8Array(sent)
    } else if (sent !== undefined) {
      headers['content-type'] = 'application/json'
      body = JSON.stringify(sent)
    }
    const bounds = { timeoutMs: REPLY_MS, fetch: this.#fetch }
    const reply = await fetchFromNode(url, { method, headers, body }, bounds).catch(
      (error: Error) => {
        if (error instanceof Exit) throw error
        const message = `${this.#base} does not answer: ${error.message}`
        throw new Exit(EXIT.finding, message, { cause: error })
      },
    )
    const text = reply.bytes.toString()
    const json = parseForeignJsonOrNull(text)
    if (reply.status >= 300) {
      const message = formatRefusal(json) ?? `${this.#base} answered with ${reply.status}`
      throw new Exit(EXIT.finding, message)
    }
    if (json === null && text !== '') throw notAGateway()
    return json
  }
}

function identitiesPath(network: string): string {
  return `/${encodeURIComponent(network)}/api/system/identities`
}

/** Names the members to read, because `canIssue` is only sent to those who ask for it. */
const IDENTITY_FILTER = JSON.stringify({
  fields: { identityId: true, name: true, state: true, participant: true, canIssue: true },
})

function parseIdentity(json: Json): IdentitySummary {
  const texts = requireTexts(json, ['identityId', 'name', 'state', 'participant'])
  return { ...texts, canIssue: isJsonObject(json) && json.canIssue === true }
}

const parseSummary = (json: Json): NetworkSummary =>
  requireTexts(json, ['name', 'version', 'description', 'sha256'])

function requireList(json: Json): Json[] {
  if (Array.isArray(json)) return json
  throw notAGateway()
}

/** Returns the members `names` of an object, which must be texts. Errors: Exit (finding). */
function requireTexts<Name extends string>(
  json: Json,
  names: readonly Name[],
): Record<Name, string> {
  const members = names.map((name) => [name, isJsonObject(json) ? json[name] : null] as const)
  if (members.some(([, value]) => typeof value !== 'string')) throw notAGateway()
  return Object.fromEntries(members) as Record<Name, string>
}

function notAGateway(): Exit {
  return new Exit(EXIT.finding, '--url: the server at this address is not a gateway of daicho')
}

/** Returns the error message of a reply, followed by one line per detail; null if the reply has no error message. */
function formatRefusal(json: Json): string | null {
  const error = isJsonObject(json) && isJsonObject(json.error) ? json.error : {}
  if (typeof error.message !== 'string') return null
  const details = Array.isArray(error.details) ? error.details.filter(isJsonObject) : []
  return error.message + details.map(({ path, message }) => `\n  ${path}: ${message}`).join('')
}
