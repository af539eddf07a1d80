import { Command } from 'commander'
import { type HostFlags, WHERE, withNode } from './network-host.ts'

/** `daicho network identity`. */
export function identityCommand(): Command {
  const command = new Command('identity').description(
    'who speaks for the participants of a network',
  )
  command
    .command('issue')
    .description('make an identity of a participant, and print its secret, which is kept nowhere')
    .argument('<network>', 'its name')
    .argument('<participant>', 'whom it speaks for, like org.example.Trader#ann')
    .argument('<name>', 'what people call the identity')
    .option('--issuer', 'let the identity issue, bind and revoke identities of members')
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      `\nWith the secret, as Authorization: Bearer <secret>, one is the participant.\n${WHERE}`,
    )
    .action(issue)
  command
    .command('bind')
    .description('make an identity of a participant with a secret that its bearer keeps')
    .argument('<network>', 'its name')
    .argument('<participant>', 'whom it speaks for, like org.example.Trader#ann')
    .argument('<certificate>', 'sha256:<64 hexadecimal digits>, the hash of the secret')
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText('after', WHERE)
    .action(bind)
  command
    .command('list')
    .description('the identities of a network')
    .argument('<network>', 'its name')
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', 'print them as one line of JSON')
    .addHelpText('after', WHERE)
    .action(list)
  command
    .command('revoke')
    .description('take an identity its right to speak, for good')
    .argument('<network>', 'its name')
    .argument('<id>', 'the identity, as the list names it')
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText('after', WHERE)
    .action(revoke)
  return command
}

async function issue(
  network: string,
  participant: string,
  userID: string,
  flags: HostFlags & { readonly issuer?: boolean },
): Promise<void> {
  const identity = { participant, name: userID, canIssue: flags.issuer === true }
  const userSecret = await withNode(flags, (node) => node.issue(network, identity))
  say(flags, { userID, userSecret }, userSecret)
}

async function bind(
  network: string,
  participant: string,
  certificate: string,
  flags: HostFlags,
): Promise<void> {
  await withNode(flags, (node) => node.bind(network, participant, certificate))
  say(flags, {}, `bound to ${participant}`)
}

async function list(network: string, flags: HostFlags): Promise<void> {
  const identities = await withNode(flags, (node) => node.identities(network))
  const lines = identities.map(
    ({ identityId, name, state, participant, canIssue }) =>
      `${identityId}  ${state}  ${name}  ${participant}${canIssue ? '  issuer' : ''}`,
  )
  if (flags.json === true || lines.length > 0) say(flags, { identities }, lines.join('\n'))
}

async function revoke(network: string, id: string, flags: HostFlags): Promise<void> {
  await withNode(flags, (node) => node.revoke(network, id))
  say(flags, {}, `revoked ${id}`)
}

function say({ json }: HostFlags, result: object, line: string): void {
  const text = json === true ? JSON.stringify({ status: true, ...result }) : line
  process.stdout.write(`${text}\n`)
}
