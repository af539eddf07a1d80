import { errorMessage } from '../../base/errors.ts'
import { writeFileInParts } from '../../base/files/durable-files.ts'
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
import { nodeFolder } from '../node/node-folder.ts'
import { count, escapeControls, print, withProgress } from '../output/output.ts'
import { followLink, requireFileName } from '../output/output-file.ts'

export async function runNetworkCheck(path: string, { json }: NetworkFlags): Promise<void> {
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

export async function runNetworkPack(
  path: string,
  { out, json }: NetworkFlags & { out?: string },
): Promise<void> {
  const { name, version, archive, sha256 } = read(path)
  const file = out ?? `${name}@${version}.bna`
  const bytes = archive.length
  requireFileName(file, [path])
  try {
    const options = { mode: 0o666, inheritsOwner: false }
    await writeFileInParts(followLink(file), (opened) => opened.writeFile(archive), options)
  } catch (error) {
    const reason = errorMessage(error)
    throw new Exit(EXIT.usage, `${file} cannot be written: ${reason}`, { cause: error })
  }
  const result = { status: true, file, name, version, bytes, sha256 }
  print(json, result, `${file}  ${bytes} bytes  sha256 ${sha256}`)
}

export function runNetworkDeploy(path: string, flags: NetworkFlags): Promise<void> {
  return changeNetwork(flags, 'deployed', (node) => node.deploy(read(path)))
}

export async function runNetworkUpgrade(
  path: string,
  flags: NetworkFlags & { default: readonly string[] },
): Promise<void> {
  const wrong = flags.default.find((text) => parseFieldDefault(text) === null)
  if (wrong !== undefined) {
    throw new Exit(EXIT.usage, `--default must be Type.field=value, not ${wrong}`)
  }
  await changeNetwork(flags, 'upgraded', (node) => node.upgrade(read(path), flags.default))
}

async function changeNetwork(
  flags: NetworkFlags,
  verb: string,
  work: (node: Gateway) => Promise<NetworkSummary>,
): Promise<void> {
  const summary = await withNode(flags, work)
  print(flags.json, { status: true, ...summary }, `${verb} ${summaryText(summary)}`)
}

export async function runNetworkList(flags: NetworkFlags): Promise<void> {
  const networks = await withNode(flags, (node) => node.list())
  printList(flags, { status: true, networks }, networks.map(summaryText))
}

export async function runNetworkVerify(
  names: readonly string[],
  flags: NetworkFlags,
): Promise<void> {
  const settings = readSettings(process.env)
  const { result: networks } = await withProgress('verifying', (line) =>
    withNetworks(settings, flags, async (deployed) => {
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

export async function runIdentityIssue(
  network: string,
  participant: string,
  userID: string,
  flags: NetworkFlags & { readonly issuer?: boolean },
): Promise<void> {
  const identity = { participant, name: userID, canIssue: flags.issuer === true }
  const userSecret = await withNode(flags, (node) => node.issue(network, identity))
  print(flags.json, { status: true, userID, userSecret }, userSecret)
}

export async function runIdentityBind(
  network: string,
  participant: string,
  certificate: string,
  flags: NetworkFlags,
): Promise<void> {
  await withNode(flags, (node) => node.bind(network, participant, certificate))
  print(flags.json, { status: true }, `bound to ${participant}`)
}

export async function runIdentityRevoke(
  network: string,
  id: string,
  flags: NetworkFlags,
): Promise<void> {
  await withNode(flags, (node) => node.revoke(network, id))
  print(flags.json, { status: true }, `revoked ${id}`)
}

export async function runIdentityList(network: string, flags: NetworkFlags): Promise<void> {
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
