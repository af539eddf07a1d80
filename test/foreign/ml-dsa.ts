// Checks that daicho accepts ML-DSA-44 cosignatures (type 6) of Go (filippo.io/torchwood), and that Go accepts those
// of Node. Needs Go, the Go module proxy, and Node 24.6: node scripts/run.mjs <this file>
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  cosignatureBy,
  cosignatureLine,
  nodeVerifySignature,
  parseWitnessKey,
  signedNote,
  verifierKeyText,
  witnessKeyText,
} from '../../src/chain/index.ts'
import { temporaryNodeKey } from '../../src/ledger/log/node-key.ts'
import { toLogKey } from '../../src/ledger/log/signed-head.ts'

const TORCHWOOD = 'filippo.io/torchwood@v0.10.0'
/** The first Go version with crypto/mldsa. */
const GOTOOLCHAIN = 'go1.27.0'
const NAME = 'witness.example/無花果'
const CHECKPOINTS = 20

const folder = mkdtempSync(join(tmpdir(), 'daicho-foreign-'))
const run = (program: string, args: string[], cwd = folder, input = '') =>
  execFileSync(program, args, {
    ...{ cwd, input, encoding: 'utf8', env: { ...process.env, GOTOOLCHAIN } },
    stdio: ['pipe', 'pipe', 'inherit'],
  })

function build(name: string): string {
  const source = join(folder, `${name}-source`)
  mkdirSync(source)
  cpSync(new URL(`${name}.go`, import.meta.url), join(source, 'main.go'))
  run('go', ['mod', 'init', name], source)
  run('go', ['get', TORCHWOOD], source)
  run('go', ['mod', 'tidy'], source)
  run('go', ['build', '-o', join(folder, name), '.'], source)
  return join(folder, name)
}

async function isAccepted(vkey: string, note: string): Promise<boolean> {
  const found = cosignatureBy(nodeVerifySignature, parseWitnessKey(vkey), note)
  return found.then(
    (cosignature) => cosignature !== null,
    () => false,
  )
}

function expect(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(`check failed: ${what}`)
}

try {
  const [cosign, open] = [build('ml-dsa'), build('open-note')]
  const { verifier, privateKey: logKey } = toLogKey(temporaryNodeKey())
  const { publicKey, privateKey } = generateKeyPairSync('ml-dsa-44')
  const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-1_312)
  const key = { name: NAME, publicKey: Uint8Array.from(raw) }
  for (let n = 0; n < CHECKPOINTS; n += 1) {
    const text = `${verifier.name}\n${(n + 1) ** 9}\n${randomBytes(32).toString('base64')}\n`
    const [vkey = '', ...lines] = run(cosign, [NAME], folder, text).split('\n')
    const note = lines.join('\n')
    expect(await isAccepted(vkey, note), `the cosignature of Go is accepted: ${note}`)
    const other = note.replace(text, text.replace('daicho', 'other'))
    expect(!(await isAccepted(vkey, other)), 'the cosignature of another origin is refused')

    const timestamp = 1_800_000_000 + n
    const signed = signedNote(verifier, text, (message) => sign(null, message, logKey))
    const line = cosignatureLine(key, { text, timestamp }, (message) => {
      return sign(null, message, privateKey)
    })
    writeFileSync(join(folder, 'note'), signed + line)
    const opened = run(open, [join(folder, 'note'), verifierKeyText(verifier), witnessKeyText(key)])
    expect(opened.includes(`signed by ${NAME} `), `Go opens the note: ${opened}`)
  }
  console.log(
    `ok  ${CHECKPOINTS} cosignatures of Go are accepted by daicho, and ${CHECKPOINTS} of Node by Go`,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
