import { Command } from 'commander'
import { textOrFile } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/verify.ts'))

export function verifyCommand(): Command {
  return new Command('verify')
    .description(
      'verify a data folder, an export, a proof file, evidence or the log of a running node',
    )
    .argument(
      '<what>',
      'a data folder (its node may be running), the postgres:// URL of a database, an export (- for stdin), ' +
        'a .tlog-proof, .state-proof or .state-list file, an evidence.json, or the URL of a node',
    )
    .option(
      '--key <vkey>',
      'verifier key of the node (from /api/ledgers/<serverid>/vkey), or a file that contains it',
    )
    .option(
      '--state <file>',
      'for a URL: file for the state of the last audit (default: a file in ~/.daicho)',
    )
    .option(
      '--chain <what>',
      'for a state proof or list, or evidence of a wrong state: folder, postgres:// URL or export whose state is recomputed',
    )
    .option(
      '--token <token>',
      'for a URL: token if the node requires one, or a file that contains it',
      textOrFile,
    )
    .option(
      '--erasure <file>',
      'for a proof file of an erased entry: the proof file of the entry that erased the content',
    )
    .option(
      '--witness <vkey>',
      'for a proof file or a URL: key of a witness that must have cosigned; repeatable',
      (vkey, others: readonly string[] = []) => [...others, textOrFile(vkey)],
    )
    .option('--quorum <number>', 'number of witnesses that must have cosigned (default: all)')
    .option(
      '--policy <file>',
      'for a proof file or a URL: a C2SP tlog-policy with logs and witnesses',
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: everything is valid, or the evidence is. 1: a difference was found and printed.\n2: nothing to verify.',
    )
    .action(run('runVerify'))
}
