import { writeFileSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import { systemClock } from '../base/clock.ts'
import { CodedError } from '../base/coded-error.ts'
import { isJsonObject, type Json } from '../base/json.ts'
import { openLedger } from '../ledger/index.ts'
import {
  checkNetwork,
  definitionOf,
  type FieldDefault,
  findingText,
  type NetworkDefinition,
  NetworkError,
  type NetworkSummary,
  Networks,
  parseFieldDefault,
  readNetwork,
} from '../network/index.ts'
import { EXIT, Exit } from './exit.ts'
import { nodeFolder } from './node-folder.ts'
import { readSettings, type Settings } from './settings.ts'
import { VERSION } from './version.ts'

/** How many blocks of the ledger are verified between two lines that say how far it is. */
const BLOCKS_PER_LINE = 1_000

const WHERE = `
The node is the one whose gateway runs at --url (with GATEWAY_API_KEY, where it has a key), or the one in
SYSTEM_FOLDER, which must not be running.`

/** `daicho network`. */
export function networkCommand(): Command {
  const command = new Command('network').description(
    'business networks: check, pack, deploy, upgrade, verify',
  )
  command
    .command('check')
    .description('report everything that is wrong in a network, with file, line and column')
    .argument('<path>', 'the directory of a network, or a .bna')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText('after', '\nExit code 0: nothing is wrong. 1: something is. 2: it cannot be read.')
    .action(check)
  command
    .command('pack')
    .description('make the .bna of a network; equal files give equal bytes')
    .argument('<directory>', 'the directory of a network')
    .option('--out <file>', 'the archive to write, else <name>@<version>.bna')
    .option('--json', 'print the result as one line of JSON')
    .action(pack)
  command
    .command('deploy')
    .description('record a network in the ledger of a node, which serves it from then on')
    .argument('<path>', 'the directory of a network, or a .bna')
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText('after', WHERE)
    .action((path: string, flags: Flags) =>
      act(flags, 'deployed', (node) => node.deploy(read(path))),
    )
  command
    .command('upgrade')
    .description('exchange a deployed network, when all that is stored fits the new one')
    .argument('<path>', 'the directory of a network, or a .bna')
    .option('--default <Type.field=value>', 'fills a new field; may be repeated', parseDefault, [])
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText('after', WHERE)
    .action((path: string, flags: Flags & { default: readonly string[] }) =>
      act(flags, 'upgraded', (node) => node.upgrade(read(path), flags.default)),
    )
  command
    .command('list')
    .description('the networks of a node')
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', 'print them as one line of JSON')
    .addHelpText('after', WHERE)
    .action(list)
  command
    .command('verify')
    .description('run all transactions again, and compare what they write with the ledger')
    .argument('[names...]', 'networks of the node in SYSTEM_FOLDER; all of them when none is named')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nThe node must not be running. Exit code 0: nothing differs. 1: something does.',
    )
    .action(verify)
  return command
}

interface Flags {
  readonly url?: string
  readonly json?: boolean
}

function parseDefault(text: string, before: readonly string[]): string[] {
  if (parseFieldDefault(text) === null) throw new InvalidArgumentError('write Type.field=value.')
  return [...before, text]
}

function check(path: string, { json }: Flags): void {
  const { findings, definition } = checkNetwork(filesAt(path))
  const isRight = definition !== null
  if (json === true) process.stdout.write(`${JSON.stringify({ status: isRight, findings })}\n`)
  else {
    for (const finding of findings) process.stdout.write(`${findingText(finding)}\n`)
    const errors = findings.filter(({ severity }) => severity === 'error').length
    if (definition === null) process.stdout.write(`${errors} error${errors === 1 ? '' : 's'}\n`)
    else process.stdout.write(`${definition.name} ${definition.version} is right\n`)
  }
  process.exitCode = isRight ? EXIT.right : EXIT.finding
}

function pack(path: string, { out, json }: Flags & { out?: string }): void {
  const { name, version, archive, sha256 } = read(path)
  const file = out ?? `${name}@${version}.bna`
  try {
    writeFileSync(file, archive)
  } catch (error) {
    throw new Exit(EXIT.usage, `${file} cannot be written`, { cause: error })
  }
  const result = { file, name, version, bytes: archive.length, sha256 }
  if (json === true) process.stdout.write(`${JSON.stringify({ status: true, ...result })}\n`)
  else process.stdout.write(`${file}  ${archive.length} bytes  sha256 ${sha256}\n`)
}

async function list(flags: Flags): Promise<void> {
  const networks = await withNode(flags, (node) => node.list())
  if (flags.json === true) process.stdout.write(`${JSON.stringify({ status: true, networks })}\n`)
  else for (const network of networks) process.stdout.write(`${summaryText(network)}\n`)
}

async function verify(names: readonly string[], { json }: Flags): Promise<void> {
  const results = await withNetworks(readSettings(process.env), async (networks) => {
    const wanted = names.length > 0 ? names : networks.list().map(({ name }) => name)
    const found = []
    for (const name of wanted) {
      const result = await networks.verify(name, (height) => {
        if (height % BLOCKS_PER_LINE === 0) process.stderr.write(`${name}  block ${height}\n`)
      })
      found.push({ name, ...result })
    }
    return found
  })
  const isRight = results.every(({ finding }) => finding === null)
  if (json === true) {
    process.stdout.write(`${JSON.stringify({ status: isRight, networks: results })}\n`)
  } else {
    for (const { name, blocks, transactions, finding } of results) {
      const what = `${transactions} transactions in ${blocks} blocks`
      process.stdout.write(`${name}  ${finding ?? `${what}: all are as recorded`}\n`)
    }
  }
  process.exitCode = isRight ? EXIT.right : EXIT.finding
}

async function act(
  flags: Flags,
  done: string,
  work: (node: NetworkHost) => Promise<NetworkSummary>,
): Promise<void> {
  const summary = await withNode(flags, work)
  if (flags.json === true) process.stdout.write(`${JSON.stringify({ status: true, ...summary })}\n`)
  else process.stdout.write(`${done} ${summaryText(summary)}\n`)
}

function summaryText({ name, version, sha256 }: NetworkSummary): string {
  return `${name} ${version}  sha256 ${sha256}`
}

function filesAt(path: string) {
  try {
    return readNetwork(path)
  } catch (error) {
    if (!(error instanceof NetworkError)) throw error
    throw new Exit(EXIT.usage, error.message, { cause: error })
  }
}

function read(path: string): NetworkDefinition {
  const files = filesAt(path)
  try {
    return definitionOf(files)
  } catch (error) {
    if (!(error instanceof NetworkError)) throw error
    for (const finding of error.findings) process.stderr.write(`${findingText(finding)}\n`)
    throw new Exit(EXIT.finding, `${path} is not deployed while this is wrong`, { cause: error })
  }
}

/** A node that networks are deployed on. */
interface NetworkHost {
  list(): Promise<NetworkSummary[]>
  deploy(definition: NetworkDefinition): Promise<NetworkSummary>
  upgrade(definition: NetworkDefinition, defaults: readonly string[]): Promise<NetworkSummary>
}

async function withNode<Result>(
  { url }: Flags,
  work: (node: NetworkHost) => Promise<Result>,
): Promise<Result> {
  const settings = readSettings(process.env)
  if (url !== undefined) return work(nodeAt(url, settings.GATEWAY_API_KEY))
  return withNetworks(settings, (networks) => work(nodeIn(networks)))
}

/** The networks of the node in `SYSTEM_FOLDER`, which is not running. */
async function withNetworks<Result>(
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
  }
}

function nodeAt(base: string, apiKey: string | null): NetworkHost {
  const ask = async (method: string, path: string, archive?: Buffer): Promise<Json> => {
    const url = URL.parse(path, base)
    if (url === null) throw new Exit(EXIT.usage, '--url: this is no address')
    const headers: Record<string, string> = apiKey === null ? {} : { 'x-api-key': apiKey }
    if (archive !== undefined) headers['content-type'] = 'application/octet-stream'
    const body = archive === undefined ? {} : { body: new Uint8Array(archive) }
    const reply = await fetch(url, { method, headers, ...body }).catch((error: unknown) => {
      throw new Exit(EXIT.finding, `${url.origin} does not answer`, { cause: error })
    })
    const text = await reply.text()
    if (reply.ok) return JSON.parse(text)
    throw new Exit(EXIT.finding, messageIn(text) ?? `${url.origin} answered with ${reply.status}`)
  }
  return {
    list: async () => arrayOf(await ask('GET', '/networks')).map(summaryIn),
    deploy: async ({ archive }) => summaryIn(await ask('POST', '/networks', archive)),
    upgrade: async ({ name, archive }, defaults) => {
      const query = new URLSearchParams(defaults.map((text): [string, string] => ['default', text]))
      return summaryIn(await ask('PUT', `/networks/${name}?${query}`, archive))
    },
  }
}

function arrayOf(json: Json): Json[] {
  return Array.isArray(json) ? json : []
}

function summaryIn(json: Json): NetworkSummary {
  const { name, version, description, sha256 } = isJsonObject(json) ? json : {}
  const text = (value: Json | undefined) => (typeof value === 'string' ? value : '')
  return {
    name: text(name),
    version: text(version),
    description: text(description),
    sha256: text(sha256),
  }
}

/** The message of a refusal, with its details, one a line. */
function messageIn(text: string): string | null {
  try {
    const json: Json = JSON.parse(text)
    const error = isJsonObject(json) && isJsonObject(json.error) ? json.error : {}
    const details = arrayOf(error.details ?? null).map((detail) =>
      isJsonObject(detail) ? `\n  ${detail.path}: ${detail.message}` : '',
    )
    return typeof error.message === 'string' ? error.message + details.join('') : null
  } catch {
    return null
  }
}
