import { randomBytes } from 'node:crypto'
import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { openLedger } from '../../ledger/core.ts'
import {
  ADMIN,
  type BusinessNetwork,
  bindIdentity,
  type FieldDefault,
  type IdentityRequest,
  issueIdentity,
  type NetworkDefinition,
  NetworkError,
  type NetworkSummary,
  Networks,
  parseFieldDefault,
  revokeIdentity,
  systemType,
} from '../../network/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { nodeFolder } from '../node-folder.ts'
import { nodeReply } from '../node-reply.ts'
import { readSettings, type Settings } from '../settings.ts'
import { VERSION } from '../version.ts'

// The node that commands about networks act on: a running one, through its gateway, or a resting one.

/** What `--help` says of it. */
export const WHERE = `
The node is the one whose gateway runs at --url (with GATEWAY_API_KEY, where it has a key), or the one in
SYSTEM_FOLDER, which must not be running.`

/** How long a gateway may take: an upgrade goes through all that a network holds. */
const ANSWER_MS = 600_000
/** Bytes of the secret of a new identity. */
const SECRET_BYTES = 32

/** A text that nobody can guess, for a new identity. */
function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

/** Flags that such commands have in common. */
export interface HostFlags {
  readonly url?: string
  readonly json?: boolean
}

/** An identity as lists show it. */
export interface IdentitySummary {
  readonly identityId: string
  readonly name: string
  /** `ISSUED`, `BOUND` or `REVOKED`. */
  readonly state: string
  /** The relationship to whom it speaks for. */
  readonly participant: string
  /** Whether it may issue, bind and revoke identities. */
  readonly canIssue: boolean
}

/** A node with networks. */
export interface NetworkHost {
  list(): Promise<NetworkSummary[]>
  deploy(definition: NetworkDefinition): Promise<NetworkSummary>
  upgrade(definition: NetworkDefinition, defaults: readonly string[]): Promise<NetworkSummary>
  /** Issues an identity; returns its secret, which is kept nowhere else. */
  issue(network: string, identity: IdentityRequest): Promise<string>
  bind(network: string, participant: string, certificate: string): Promise<void>
  revoke(network: string, identityId: string): Promise<void>
  identities(network: string): Promise<IdentitySummary[]>
}

/** Has `work` done at the node that the flags name, or in `SYSTEM_FOLDER`. Errors: Exit. */
export async function withNode<Result>(
  { url }: HostFlags,
  work: (node: NetworkHost) => Promise<Result>,
): Promise<Result> {
  const settings = readSettings(process.env)
  if (url !== undefined) return work(nodeAt(url, settings.GATEWAY_API_KEY))
  return withNetworks(settings, (networks) => work(nodeIn(networks)))
}

/** Has `work` done with the networks of the node in `SYSTEM_FOLDER`, which is not running. Errors: Exit. */
export async function withNetworks<Result>(
  settings: Settings,
  work: (networks: Networks) => Promise<Result>,
): Promise<Result> {
  const folder = nodeFolder(settings, { mayBeNew: false })
  try {
    const difficulty = settings.LEDGER_DIFFICULTY
    const ledger = await openLedger({ folder, difficulty, clock: systemClock })
    try {
      const networks = await Networks.open({
        ledger: ledger.service,
        clock: systemClock,
        version: VERSION,
        warn: (message) => process.stderr.write(`daicho: ${message}\n`),
        deadlineMs: settings.PROCESSOR_DEADLINE_MS,
        log: () => {},
      })
      try {
        return await work(networks)
      } finally {
        await networks.close()
      }
    } finally {
      await ledger.close()
    }
  } catch (error) {
    if (error instanceof NetworkError) throw refused(error)
    if (!(error instanceof CodedError)) throw error
    const hint = error.code === 'FOLDER_IN_USE' ? ': name its gateway by --url' : ''
    throw new Exit(EXIT.configuration, `SYSTEM_FOLDER: ${error.message}${hint}`, { cause: error })
  }
}

function refused(error: NetworkError): Exit {
  for (const { path, message } of error.problems) process.stderr.write(`${path}: ${message}\n`)
  return new Exit(EXIT.finding, error.message, { cause: error })
}

function nodeIn(networks: Networks): NetworkHost {
  const summaryOf = ({ name, version, description, sha256 }: NetworkDefinition) => ({
    ...{ name, version, description, sha256 },
  })
  return {
    list: async () => networks.list(),
    deploy: async (definition) => summaryOf((await networks.deploy(definition)).definition),
    upgrade: async (definition, texts) => {
      const defaults = texts.flatMap((text): FieldDefault[] => {
        const parsed = parseFieldDefault(text)
        return parsed === null ? [] : [parsed]
      })
      return summaryOf((await networks.upgrade(definition, defaults)).definition)
    },
    issue: async (name, identity) => {
      const secret = newSecret()
      await issueIdentity(networkIn(networks, name), identity, secret, ADMIN)
      return secret
    },
    bind: (name, participant, certificate) =>
      bindIdentity(networkIn(networks, name), { participant, certificate }, ADMIN),
    revoke: (name, identityId) => revokeIdentity(networkIn(networks, name), identityId, ADMIN),
    identities: async (name) => {
      const network = networkIn(networks, name)
      const type = network.definition.model.type(systemType('Identity'))
      if (type === null) return []
      const found: IdentitySummary[] = []
      for await (const page of (await network.list(type, {}, ADMIN)).pages) {
        for (const text of page) found.push(identityIn(parseJson(text)))
      }
      return found
    },
  }
}

/** Errors: NETWORK_NOT_FOUND. */
function networkIn(networks: Networks, name: string): BusinessNetwork {
  const network = networks.get(name)
  if (network !== null) return network
  throw new NetworkError('NETWORK_NOT_FOUND', `there is no network ${name}`)
}

function nodeAt(base: string, apiKey: string | null): NetworkHost {
  const ask = async (method: string, path: string, sent?: Buffer | object): Promise<Json> => {
    const url = URL.parse(path, base)
    if (url === null) throw new Exit(EXIT.usage, '--url: this is no address')
    const headers: Record<string, string> = apiKey === null ? {} : { 'x-api-key': apiKey }
    const isArchive = Buffer.isBuffer(sent)
    if (isArchive) headers['content-type'] = 'application/octet-stream'
    else if (sent !== undefined) headers['content-type'] = 'application/json'
    const body =
      sent === undefined ? {} : { body: isArchive ? new Uint8Array(sent) : JSON.stringify(sent) }
    const request = { method, headers, ...body }
    const reply = await nodeReply(url, request, { withinMs: ANSWER_MS }).catch((error: Error) => {
      throw new Exit(EXIT.finding, `${url.origin} does not answer: ${error.message}`, {
        cause: error,
      })
    })
    const text = reply.bytes.toString()
    const json = jsonIn(text)
    if (reply.status >= 300) {
      throw new Exit(EXIT.finding, messageIn(json) ?? `${url.origin} answered with ${reply.status}`)
    }
    if (json === null && text !== '') throw NO_GATEWAY
    return json
  }
  return {
    list: async () => listIn(await ask('GET', '/networks')).map(summaryIn),
    deploy: async ({ archive }) => summaryIn(await ask('POST', '/networks', archive)),
    upgrade: async ({ name, archive }, defaults) => {
      const query = new URLSearchParams(defaults.map((text): [string, string] => ['default', text]))
      return summaryIn(await ask('PUT', `/networks/${name}?${query}`, archive))
    },
    issue: async (network, { participant, name: userID, canIssue: issuer }) => {
      const body = { participant, userID, issuer }
      const given = await ask('POST', `${identitiesOf(network)}/issue`, body)
      return requiredIn(given, 'userSecret')
    },
    bind: async (network, participant, certificate) => {
      await ask('POST', `${identitiesOf(network)}/bind`, { participant, certificate })
    },
    revoke: async (network, identityId) => {
      await ask('POST', `${identitiesOf(network)}/${encodeURIComponent(identityId)}/revoke`)
    },
    identities: async (network) => listIn(await ask('GET', identitiesOf(network))).map(identityIn),
  }
}

function identitiesOf(network: string): string {
  return `/${encodeURIComponent(network)}/api/system/identities`
}

function identityIn(json: Json): IdentitySummary {
  const { identityId, name, state, participant, canIssue } = isJsonObject(json) ? json : {}
  return {
    identityId: textOf(identityId),
    name: textOf(name),
    state: textOf(state),
    participant: textOf(participant),
    canIssue: canIssue === true,
  }
}

/** What answers is not what `--url` is about: a page of another server, say. */
const NO_GATEWAY = new Exit(EXIT.finding, '--url: what answers there is no gateway of daicho')

function listIn(json: Json): Json[] {
  if (Array.isArray(json)) return json
  throw NO_GATEWAY
}

/** The text that `json` must have under `name`. */
function requiredIn(json: Json, name: string): string {
  const value = isJsonObject(json) ? json[name] : undefined
  if (typeof value === 'string') return value
  throw NO_GATEWAY
}

function summaryIn(json: Json): NetworkSummary {
  const text = (name: string): string => requiredIn(json, name)
  return {
    name: text('name'),
    version: text('version'),
    description: text('description'),
    sha256: text('sha256'),
  }
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}

/** What `text` is as JSON; null also when it is none. */
function jsonIn(text: string): Json {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}

/** The message of a refusal, with its details, one a line. */
function messageIn(json: Json): string | null {
  const error = isJsonObject(json) && isJsonObject(json.error) ? json.error : {}
  const details = Array.isArray(error.details) ? error.details : []
  const lines = details.map((detail) =>
    isJsonObject(detail) ? `\n  ${detail.path}: ${detail.message}` : '',
  )
  return typeof error.message === 'string' ? error.message + lines.join('') : null
}
