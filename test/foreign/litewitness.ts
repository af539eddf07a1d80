// Runs a node whose checkpoints are cosigned by two witnesses: another daicho node, and litewitness
// (filippo.io/torchwood). Opens the checkpoints with Go. Needs Go, ssh-agent, the Go module proxy and a build:
//
//   npm run build && node scripts/run.mjs <this file>
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { EMPTY_FRONTIER, frontierRoot, witnessKeyText } from '../../src/chain/index.ts'
import { type Daicho, startProgram } from '../support/program.ts'

const TORCHWOOD = 'filippo.io/torchwood@v0.9.0'
const NAME = 'litewitness.example/w'
const WAIT_MS = 15_000

const folder = mkdtempSync(join(tmpdir(), 'daicho-foreign-'))
const at = (...names: string[]) => join(folder, ...names)
const started: ChildProcess[] = []

const run = (program: string, args: string[], cwd = folder, env: NodeJS.ProcessEnv = {}) =>
  execFileSync(program, args, { cwd, env: { ...process.env, ...env }, encoding: 'utf8' })

function start(program: string, args: string[]): ChildProcess {
  const child = spawn(program, args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  started.push(child)
  return child
}

async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + WAIT_MS
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error(`not within ${WAIT_MS} ms: ${what}`)
    await delay(50)
  }
}

function expect(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(`check failed: ${what}`)
  console.log(`ok  ${what}`)
}

/** Builds litewitness and the program that opens notes (open-note.go). */
function build(): void {
  run('go', ['install', `${TORCHWOOD.replace('@', '/cmd/litewitness@')}`], folder, {
    GOBIN: folder,
  })
  mkdirSync(at('open-note'))
  cpSync(new URL('open-note.go', import.meta.url), at('open-note', 'main.go'))
  run('go', ['mod', 'init', 'open-note'], at('open-note'))
  run('go', ['get', TORCHWOOD], at('open-note'))
  run('go', ['mod', 'tidy'], at('open-note'))
  run('go', ['build', '-o', at('open'), '.'], at('open-note'))
}

/** Starts litewitness with a new key for the log of `vkey`. Returns the verifier key and the URL of the witness. */
async function startLitewitness(vkey: string): Promise<{ vkey: string; url: string }> {
  run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'witness', '-f', at('key')])
  start('ssh-agent', ['-D', '-a', at('agent')])
  await until('ssh-agent listens', () => existsSync(at('agent')))
  run('ssh-add', ['-q', at('key')], folder, { SSH_AUTH_SOCK: at('agent') })
  const [, fingerprint = ''] = run('ssh-keygen', ['-l', '-f', at('key.pub')]).split(' ')
  const address = '127.0.0.1:7380'
  start(at('litewitness'), [
    ...['-name', NAME, '-db', at('litewitness.db'), '-key', fingerprint],
    ...['-ssh-agent', at('agent'), '-listen', address],
  ])
  const url = `http://${address}`
  await until('litewitness listens', () => fetch(url).then(Boolean, () => false))
  const database = new DatabaseSync(at('litewitness.db'))
  const [origin = ''] = vkey.split('+')
  const root = Buffer.from(frontierRoot(EMPTY_FRONTIER)).toString('base64')
  database
    .prepare('INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)')
    .run(origin, root)
  database.prepare('INSERT INTO key (origin, key) VALUES (?, ?)').run(origin, vkey)
  database.close()
  const encoded = readFileSync(at('key.pub'), 'utf8').split(' ')[1] ?? ''
  const publicKey = Uint8Array.from(Buffer.from(encoded, 'base64').subarray(-32))
  return { vkey: witnessKeyText({ name: NAME, publicKey }), url }
}

async function serve(name: string, variables: Record<string, string> = {}) {
  const args = ['serve', '--only', 'ledger', '--port', '0', '--json']
  const daicho = startProgram(args, {
    ...{ SYSTEM_FOLDER: at(name), PEERS_ALLOW_PRIVATE: '1', LOG_LEVEL: 'warn', ...variables },
  })
  started.push(daicho.child)
  const url: string = JSON.parse(await daicho.firstLine).ledger
  const reply = await (await fetch(`${url}/api/serverid`)).text()
  const serverid = /\d+/.exec(reply)?.[0] ?? ''
  return {
    daicho,
    url,
    text: async (path: string) => {
      return (await fetch(url + path.replace('SERVERID', serverid))).text()
    },
  }
}

async function end({ child, ended }: Daicho): Promise<void> {
  child.kill('SIGTERM')
  const { stderr } = await ended
  if (stderr !== '') console.log(stderr.trimEnd())
}

try {
  build()
  const first = await serve('node')
  const vkey = (await first.text('/api/ledgers/SERVERID/vkey')).trim()
  await end(first.daicho)
  const other = await serve('witness', { WITNESS_OF: vkey })
  const own = {
    vkey: (await other.text('/api/ledgers/witness/vkey')).trim(),
    url: `${other.url}/api/ledgers/witness`,
  }
  const foreign = await startLitewitness(vkey)
  const WITNESSES = [own, foreign].map((one) => `${one.vkey} ${one.url}`).join(',')
  const keys = [own.vkey, foreign.vkey]

  const verify = async (file: string, quorum: string) => {
    const witnesses = keys.flatMap((key) => ['--witness', key])
    const args = ['verify', at(file), '--key', vkey, ...witnesses, '--quorum', quorum]
    const { code, stdout } = await startProgram(args).ended
    return { code, stdout }
  }
  // In round 2, the restarted node does not know which sizes the witnesses have cosigned.
  for (const round of [1, 2]) {
    const node = await serve('node', { WITNESSES })
    await fetch(`${node.url}/api/fruit`, { method: 'POST' })
    for (const id of ['fig', 'plum', 'pear'].map((name) => name + round)) {
      const headers = { 'content-type': 'application/json' }
      await fetch(`${node.url}/api/fruit`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ id }),
      })
      writeFileSync(at('note'), await node.text('/api/ledgers/SERVERID/checkpoint'))
      const opened = run(at('open'), [at('note'), vkey, ...keys])
      expect(
        opened.includes(`signed by ${NAME}`),
        `Go opens the checkpoint: ${opened.trimEnd().replaceAll('\n', ', ')}`,
      )
    }
    writeFileSync(at('proof'), await node.text(`/api/fruit/fig${round}/proof`))
    const { code, stdout } = await verify('proof', '2')
    expect(
      code === 0 && stdout.includes(NAME),
      'daicho verify accepts a proof with both cosignatures',
    )
    await end(node.daicho)
  }
  // A proof without the signature of litewitness fails with a quorum of two, and passes with a quorum of one.
  const [foreignLine = ''] =
    new RegExp(`^— ${NAME} .*\n`, 'm').exec(readFileSync(at('proof'), 'utf8')) ?? []
  writeFileSync(at('reduced'), readFileSync(at('proof'), 'utf8').replace(foreignLine, ''))
  const { code, stdout } = await verify('reduced', '2')
  expect(code === 1, `daicho verify: ${stdout.trimEnd()}`)
  expect((await verify('reduced', '1')).code === 0, 'daicho verify accepts it with a quorum of one')
  await end(other.daicho)
} finally {
  for (const child of started) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill()
    await once(child, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
}
