import { randomBytes } from 'node:crypto'
import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { joinUrl } from '../../base/url.ts'
import { openLedger } from '../../ledger/core.ts'
import {
  ADMIN,
  type BusinessNetwork,
  type IdentityRequest,
  issueIdentity,
  type NetworkDefinition,
  NetworkError,
  type NetworkSummary,
  Networks,
  parseFieldDefault,
  systemType,
} from '../../network/index.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import { fetchFromNode } from '../node/node-client.ts'
import { nodeFolder, settingOf } from '../node/node-folder.ts'
import { escapeControls } from '../output/output.ts'
import { VERSION } from '../version.ts'

/** Timeout for a reply of a gateway. It is long, because an upgrade checks all stored data of a network. */
const REPLY_MS = 600_000
const SECRET_BYTES = 32

export interface NodeFlags {
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

/** The networks of a node: of a running node through its gateway, or of a stopped node in its folder. */
export interface NetworkNode {
  list(): Promise<NetworkSummary[]>
  deploy(definition: NetworkDefinition): Promise<NetworkSummary>
  upgrade(definition: NetworkDefinition, defaults: readonly string[]): Promise<NetworkSummary>
  /** Issues an identity and returns its secret, which is not stored. */
  issue(network: string, identity: IdentityRequest): Promise<string>
  bind(network: string, participant: string, certificate: string): Promise<void>
  revoke(network: string, identityId: string): Promise<void>
  identities(network: string): Promise<IdentitySummary[]>
}

/** Runs `work` on the running node at `url`, or on the stopped node in SYSTEM_FOLDER. Errors: NetworkError, Exit. */
export async function withNode<Result>(
  { url }: NodeFlags,
  work: (node: NetworkNode) => Promise<Result>,
): Promise<Result> {
  const settings = readSettings(process.env)
  if (url !== undefined) return work(remoteNode(url, settings.GATEWAY_API_KEY))
  return withNetworks(settings, (networks) => work(stoppedNode(networks)))
}

/** Runs `work` on the networks of the stopped node in SYSTEM_FOLDER. Errors: NetworkError, Exit. */
export async function withNetworks<Result>(
  settings: Settings,
  work: (networks: Networks) => Promise<Result>,
): Promise<Result> {
  const folder = nodeFolder(settings, { mayBeNew: false })
  try {
    const ledger = await openLedger({ folder, store: settings.STORE, clock: systemClock })
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
    if (error instanceof NetworkError) {
      for (const { path, message } of error.problems) {
        process.stderr.write(`${escapeControls(`${path}: ${message}`)}\n`)
      }
      throw error
    }
    if (!(error instanceof CodedError)) throw error
    const hint =
      error.code === 'FOLDER_IN_USE' ? ': give the address of its gateway with --url' : ''
    throw new Exit(EXIT.configuration, `${settingOf(settings, error)}: ${error.message}${hint}`, {
      cause: error,
    })
  }
}

function stoppedNode(networks: Networks): NetworkNode {
  const find = (name: string): BusinessNetwork => {
    const network = networks.get(name)
    if (network !== null) return network
    throw new NetworkError('NETWORK_NOT_FOUND', `there is no network ${name}`)
  }
  const summaryOf = ({ definition }: BusinessNetwork): NetworkSummary => {
    const { name, version, description, sha256 } = definition
    return { name, version, description, sha256 }
  }
  return {
    list: async () => networks.list(),
    deploy: async (definition) => summaryOf(await networks.deploy(definition)),
    upgrade: async (definition, texts) => {
      const defaults = texts.flatMap((text) => parseFieldDefault(text) ?? [])
      return summaryOf(await networks.upgrade(definition, defaults))
    },
    issue: async (name, identity) => {
      const secret = randomBytes(SECRET_BYTES).toString('base64url')
      await issueIdentity(find(name), identity, secret, ADMIN)
      return secret
    },
    bind: async (name, participant, certificate) => {
      await find(name).change({ kind: 'bindIdentity', participant, certificate }, ADMIN)
    },
    revoke: async (name, id) => {
      await find(name).change({ kind: 'revokeIdentity', id }, ADMIN)
    },
    identities: async (name) => {
      const network = find(name)
      const type = network.definition.model.type(systemType('Identity'))
      if (type === null) return []
      const found: IdentitySummary[] = []
      for await (const page of (await network.list(type, { filter: IDENTITY_FILTER }, ADMIN))
        .pages) {
        for (const text of page) found.push(parseIdentity(parseJson(text)))
      }
      return found
    },
  }
}

function remoteNode(base: string, apiKey: string | null): NetworkNode {
  const request = async (method: string, path: string, sent?: Buffer | object): Promise<Json> => {
    const url = joinUrl(base, path)
    const headers: Record<string, string> = apiKey === null ? {} : { 'x-api-key': apiKey }
    let body: Uint8Array<ArrayBuffer> | string | null = null
    if (Buffer.isBuffer(sent)) {
      headers['content-type'] = 'application/octet-stream'
      body = new Uint8Array(sent)
    } else if (sent !== undefined) {
      headers['content-type'] = 'application/json'
      body = JSON.stringify(sent)
    }
    const options = { method, headers, body }
    const reply = await fetchFromNode(url, options, { timeoutMs: REPLY_MS }).catch(
      (error: Error) => {
        const message = `${base} does not answer: ${error.message}`
        throw new Exit(EXIT.finding, message, { cause: error })
      },
    )
    const text = reply.bytes.toString()
    const json = parseForeignJsonOrNull(text)
    if (reply.status >= 300) {
      const message = refusalText(json) ?? `${base} answered with ${reply.status}`
      throw new Exit(EXIT.finding, message)
    }
    if (json === null && text !== '') throw notAGateway()
    return json
  }
  const identitiesOf = (network: string) => `/${encodeURIComponent(network)}/api/system/identities`
  return {
    list: async () => parseList(await request('GET', '/networks')).map(parseSummary),
    deploy: async ({ archive }) => parseSummary(await request('POST', '/networks', archive)),
    upgrade: async ({ name, archive }, defaults) => {
      const query = new URLSearchParams(defaults.map((text): [string, string] => ['default', text]))
      return parseSummary(await request('PUT', `/networks/${name}?${query}`, archive))
    },
    issue: async (network, { participant, name: userID, canIssue: issuer }) => {
      const body = { participant, userID, issuer }
      return requireText(
        await request('POST', `${identitiesOf(network)}/issue`, body),
        'userSecret',
      )
    },
    bind: async (network, participant, certificate) => {
      await request('POST', `${identitiesOf(network)}/bind`, { participant, certificate })
    },
    revoke: async (network, identityId) => {
      await request('POST', `${identitiesOf(network)}/${encodeURIComponent(identityId)}/revoke`)
    },
    identities: async (network) =>
      parseList(
        await request(
          'GET',
          `${identitiesOf(network)}?${new URLSearchParams({ filter: IDENTITY_FILTER })}`,
        ),
      ).map(parseIdentity),
  }
}

/** Names the members to read, because `canIssue` is only sent to those who ask for it. */
const IDENTITY_FILTER = JSON.stringify({
  fields: { identityId: true, name: true, state: true, participant: true, canIssue: true },
})

function parseIdentity(json: Json): IdentitySummary {
  const { identityId, name, state, participant, canIssue } = isJsonObject(json) ? json : {}
  const text = (value: Json | undefined) => (typeof value === 'string' ? value : '')
  return {
    identityId: text(identityId),
    name: text(name),
    state: text(state),
    participant: text(participant),
    canIssue: canIssue === true,
  }
}

function parseSummary(json: Json): NetworkSummary {
  return {
    name: requireText(json, 'name'),
    version: requireText(json, 'version'),
    description: requireText(json, 'description'),
    sha256: requireText(json, 'sha256'),
  }
}

function parseList(json: Json): Json[] {
  if (Array.isArray(json)) return json
  throw notAGateway()
}

function requireText(json: Json, name: string): string {
  const value = isJsonObject(json) ? json[name] : undefined
  if (typeof value === 'string') return value
  throw notAGateway()
}

function notAGateway(): Exit {
  return new Exit(EXIT.finding, '--url: the server at this address is not a gateway of daicho')
}

/** Returns the error message of a reply, followed by one line per detail; null if the reply has no error message. */
function refusalText(json: Json): string | null {
  const error = isJsonObject(json) && isJsonObject(json.error) ? json.error : {}
  if (typeof error.message !== 'string') return null
  const details = Array.isArray(error.details) ? error.details.filter(isJsonObject) : []
  return error.message + details.map(({ path, message }) => `\n  ${path}: ${message}`).join('')
}
