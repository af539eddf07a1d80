import { writeFileSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import { systemSchedule } from '../../base/clock.ts'
import {
  checkNetwork,
  definitionOf,
  findingText,
  type NetworkDefinition,
  NetworkError,
  type NetworkSummary,
  type NetworkVerification,
  parseFieldDefault,
  readNetwork,
} from '../../network/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { reportEvery } from '../progress.ts'
import { readSettings } from '../settings.ts'
import { type HostFlags, type NetworkHost, WHERE, withNetworks, withNode } from './network-host.ts'
import { identityCommand } from './network-identity.ts'

/** `daicho network`. */
export function networkCommand(): Command {
  const command = new Command('network')
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
    .action((path: string, flags: HostFlags) =>
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
    .action((path: string, flags: HostFlags & { default: readonly string[] }) =>
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
  command.addCommand(identityCommand())
  return command
}

function parseDefault(text: string, before: readonly string[]): string[] {
  if (parseFieldDefault(text) === null) throw new InvalidArgumentError('write Type.field=value.')
  return [...before, text]
}

function check(path: string, { json }: HostFlags): void {
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

function pack(path: string, { out, json }: HostFlags & { out?: string }): void {
  const { name, version, archive, sha256 } = read(path)
  const file = out ?? `${name}@${version}.bna`
  try {
    writeFileSync(file, archive)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new Exit(EXIT.usage, `${file} cannot be written: ${why}`, { cause: error })
  }
  const result = { file, name, version, bytes: archive.length, sha256 }
  if (json === true) process.stdout.write(`${JSON.stringify({ status: true, ...result })}\n`)
  else process.stdout.write(`${file}  ${archive.length} bytes  sha256 ${sha256}\n`)
}

async function list(flags: HostFlags): Promise<void> {
  const networks = await withNode(flags, (node) => node.list())
  if (flags.json === true) process.stdout.write(`${JSON.stringify({ status: true, networks })}\n`)
  else for (const network of networks) process.stdout.write(`${summaryText(network)}\n`)
}

async function verify(names: readonly string[], { json }: HostFlags): Promise<void> {
  let progress = () => 'opening the ledger'
  const stopReports = reportEvery(() => progress(), systemSchedule, process.stderr)
  const results = await withNetworks(readSettings(process.env), async (networks) => {
    const wanted = names.length > 0 ? names : networks.recorded()
    const found = []
    for (const name of wanted) {
      const result = await networks.verify(name, ({ height, transactions }) => {
        progress = () => `${name}  block ${height}, transaction ${transactions}`
      })
      found.push({ name, ...result })
      if (json !== true) process.stdout.write(`${resultText(name, result)}\n`)
    }
    progress = () => 'closing the ledger'
    return found
  }).finally(stopReports)
  const isRight = results.every(({ finding }) => finding === null)
  if (json === true) {
    process.stdout.write(`${JSON.stringify({ status: isRight, networks: results })}\n`)
  }
  process.exitCode = isRight ? EXIT.right : EXIT.finding
}

function resultText(name: string, { blocks, transactions, finding }: NetworkVerification): string {
  const what = `${transactions} transactions in ${blocks} blocks`
  return `${name}  ${finding ?? `${what}: all are as recorded`}`
}

async function act(
  flags: HostFlags,
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
