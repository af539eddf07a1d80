import { writeFileSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import { errorMessage } from '../../base/errors.ts'
import { readRestoredHeight } from '../../ledger/core.ts'
import {
  checkNetwork,
  checkScripts,
  formatFinding,
  type NetworkDefinition,
  NetworkError,
  type NetworkSummary,
  type NetworkVerification,
  parseFieldDefault,
  readNetwork,
  requireDefinition,
  type SourceFinding,
} from '../../network/index.ts'
import { readSettings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import { type Gateway, type NetworkFlags, withNetworks, withNode } from '../node/gateway-client.ts'
import { addFolderOption, nodeFolder } from '../node/node-folder.ts'
import { count, escapeControls, print, withProgress } from '../output/output.ts'

const WHERE = `
Acts on the running node whose gateway is at --url (with GATEWAY_API_KEY if it has a key), or on the node in
SYSTEM_FOLDER, which must not be running.`

const JSON_ABOUT = 'print the result as one line of JSON'
const PATH_ABOUT = 'the directory of a network, or a .bna file'

export function networkCommand(): Command {
  const command = new Command('network').description(
    'check, pack, deploy, upgrade and verify business networks, and manage identities',
  )
  command
    .command('check')
    .description('report all errors in a network, with file, line and column')
    .argument('<path>', PATH_ABOUT)
    .option('--json', JSON_ABOUT)
    .addHelpText(
      'after',
      '\nExit code 0: no errors. 1: errors were found. 2: the network cannot be read.',
    )
    .action(check)
  command
    .command('pack')
    .description('pack a network into a .bna file; equal files give equal bytes')
    .argument('<directory>', 'the directory of a network')
    .option('--out <file>', 'the archive to write; <name>@<version>.bna if omitted')
    .option('--json', JSON_ABOUT)
    .action(pack)
  nodeCommand(command, 'deploy', 'deploy a network to a node')
    .argument('<path>', PATH_ABOUT)
    .action((path: string, flags: NetworkFlags) =>
      change(flags, 'deployed', (node) => node.deploy(read(path))),
    )
  nodeCommand(
    command,
    'upgrade',
    'replace a deployed network, provided that all stored data fits the new model',
  )
    .argument('<path>', PATH_ABOUT)
    .option(
      '--default <Type.field=value>',
      'value for a new field; may be repeated',
      parseDefault,
      [],
    )
    .action((path: string, flags: NetworkFlags & { default: readonly string[] }) =>
      change(flags, 'upgraded', (node) => node.upgrade(read(path), flags.default)),
    )
  nodeCommand(command, 'list', 'list the networks of a node').action(list)
  const verifyNetworks = command
    .command('verify')
    .description('replay all transactions and compare their writes with the ledger')
    .argument('[names...]', 'networks of the node in SYSTEM_FOLDER; all if omitted')
    .option('--json', JSON_ABOUT)
    .addHelpText(
      'after',
      '\nThe node must not be running. Exit code 0: no differences. 1: differences were found.',
    )
    .action(verify)
  addFolderOption(verifyNetworks, 'data folder of the stopped node')
  command.addCommand(identityCommand())
  return command
}

function identityCommand(): Command {
  const command = new Command('identity').description(
    'manage the identities of the participants of a network',
  )
  const network = ['<network>', 'name of the network'] as const
  const participant = ['<participant>', 'such as org.example.Trader#ann'] as const
  nodeCommand(command, 'issue', 'issue an identity and print its secret, which is not stored')
    .argument(...network)
    .argument(...participant)
    .argument('<name>', 'display name of the identity')
    .option('--issuer', 'allow the identity to issue, bind and revoke identities of members')
    .addHelpText('after', '\nRequests with Authorization: Bearer <secret> act as the participant.')
    .action(issue)
  nodeCommand(command, 'bind', 'create an identity for a secret that only the participant knows')
    .argument(...network)
    .argument(...participant)
    .argument('<certificate>', 'sha256:<64 hexadecimal digits>, the hash of the secret')
    .action(async (name: string, bearer: string, certificate: string, flags: NetworkFlags) => {
      await withNode(flags, (node) => node.bind(name, bearer, certificate))
      print(flags.json, { status: true }, `bound to ${bearer}`)
    })
  nodeCommand(command, 'list', 'list the identities of a network')
    .argument(...network)
    .action(listIdentities)
  nodeCommand(command, 'revoke', 'revoke an identity permanently')
    .argument(...network)
    .argument('<id>', 'id of the identity, as listed')
    .action(async (name: string, id: string, flags: NetworkFlags) => {
      await withNode(flags, (node) => node.revoke(name, id))
      print(flags.json, { status: true }, `revoked ${id}`)
    })
  return command
}

/** Adds a command that acts on a node. */
function nodeCommand(parent: Command, name: string, about: string): Command {
  const command = parent
    .command(name)
    .description(about)
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', JSON_ABOUT)
    .addHelpText('after', WHERE)
  return addFolderOption(command, 'data folder of the stopped node')
}

function parseDefault(text: string, before: readonly string[]): string[] {
  if (parseFieldDefault(text) === null) throw new InvalidArgumentError('write Type.field=value.')
  return [...before, text]
}

async function check(path: string, { json }: NetworkFlags): Promise<void> {
  const { findings: found, definition: checked } = checkNetwork(filesAt(path))
  const unloaded = checked === null ? null : await findScriptError(checked)
  const definition = unloaded === null ? checked : null
  const findings = unloaded === null ? found : [...found, unloaded]
  const errors = findings.filter(({ severity }) => severity === 'error').length
  const text = [
    ...findings.map(formatFinding),
    definition === null
      ? count(errors, 'error')
      : `${definition.name} ${definition.version} is valid`,
  ].join('\n')
  print(json, { status: definition !== null, findings }, text)
  process.exitCode = definition === null ? EXIT.finding : EXIT.success
}

/** Returns the error of a script that cannot be loaded, or null. */
async function findScriptError(definition: NetworkDefinition): Promise<SourceFinding | null> {
  try {
    await checkScripts(definition)
    return null
  } catch (error) {
    if (!(error instanceof NetworkError)) throw error
    return { severity: 'error', path: 'lib', line: 0, column: 0, message: error.message }
  }
}

function pack(path: string, { out, json }: NetworkFlags & { out?: string }): void {
  const { name, version, archive, sha256 } = read(path)
  const file = out ?? `${name}@${version}.bna`
  const bytes = archive.length
  try {
    writeFileSync(file, archive)
  } catch (error) {
    const reason = errorMessage(error)
    throw new Exit(EXIT.usage, `${file} cannot be written: ${reason}`, { cause: error })
  }
  const result = { status: true, file, name, version, bytes, sha256 }
  print(json, result, `${file}  ${bytes} bytes  sha256 ${sha256}`)
}

async function change(
  flags: NetworkFlags,
  verb: string,
  work: (node: Gateway) => Promise<NetworkSummary>,
): Promise<void> {
  const summary = await withNode(flags, work)
  print(flags.json, { status: true, ...summary }, `${verb} ${summaryText(summary)}`)
}

async function list(flags: NetworkFlags): Promise<void> {
  const networks = await withNode(flags, (node) => node.list())
  printList(flags, { status: true, networks }, networks.map(summaryText))
}

async function verify(names: readonly string[], flags: NetworkFlags): Promise<void> {
  const settings = readSettings(process.env)
  const { result: networks } = await withProgress('verifying', (line) =>
    withNetworks(settings, async (deployed) => {
      const restoredHeight = readRestoredHeight(nodeFolder(settings, { mayBeNew: false }))
      const verified: ({ name: string } & NetworkVerification)[] = []
      for (const name of names.length > 0 ? names : deployed.recorded()) {
        const show = ({ height, transactions }: { height: number; transactions: number }) =>
          line.update(null, `${name}  block ${height}, transaction ${transactions}`)
        verified.push({ name, ...(await deployed.verify(name, show, restoredHeight)) })
      }
      return verified
    }),
  )
  const status = networks.every(({ finding }) => finding === null)
  const lines = networks.map(({ name, ...result }) => verificationText(name, result))
  printList(flags, { status, networks }, lines)
  process.exitCode = status ? EXIT.success : EXIT.finding
}

async function issue(
  network: string,
  participant: string,
  userID: string,
  flags: NetworkFlags & { readonly issuer?: boolean },
): Promise<void> {
  const identity = { participant, name: userID, canIssue: flags.issuer === true }
  const userSecret = await withNode(flags, (node) => node.issue(network, identity))
  print(flags.json, { status: true, userID, userSecret }, userSecret)
}

async function listIdentities(network: string, flags: NetworkFlags): Promise<void> {
  const identities = await withNode(flags, (node) => node.identities(network))
  const lines = identities.map(
    ({ identityId, name, state, participant, canIssue }) =>
      `${identityId}  ${state}  ${name}  ${participant}${canIssue ? '  issuer' : ''}`,
  )
  printList(flags, { status: true, identities }, lines)
}

/** Prints `lines`, or `result` as JSON. An empty list prints nothing, except as JSON. */
function printList({ json }: NetworkFlags, result: object, lines: readonly string[]): void {
  if (json === true || lines.length > 0) print(json, result, lines.join('\n'))
}

function verificationText(name: string, result: NetworkVerification): string {
  const { blocks, restored, transactions, finding } = result
  if (finding !== null) return `${name}  ${finding}`
  const replayed = `${count(transactions, 'transaction')} in ${count(blocks - restored, 'block')}: all match the ledger`
  if (restored === 0) return `${name}  ${replayed}`
  return `${name}  ${replayed}; ${count(restored, 'block')} restored from another chain, not replayed`
}

function summaryText({ name, version, sha256 }: NetworkSummary): string {
  return `${name} ${version}  sha256 ${sha256}`
}

function filesAt(path: string) {
  try {
    return readNetwork(path)
  } catch (error) {
    if (!(error instanceof NetworkError)) throw error
    throw new Exit(EXIT.usage, `${path}: ${error.message}`, { cause: error })
  }
}

function read(path: string): NetworkDefinition {
  const files = filesAt(path)
  try {
    return requireDefinition(files)
  } catch (error) {
    if (!(error instanceof NetworkError)) throw error
    for (const finding of error.findings)
      process.stderr.write(`${escapeControls(formatFinding(finding))}\n`)
    throw new Exit(EXIT.finding, `${path} is not used because of these errors`, {
      cause: error,
    })
  }
}
