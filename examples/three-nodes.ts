// Starts three nodes on this computer. Each node mirrors the chains of the two other nodes:
//   node scripts/run.mjs examples/three-nodes.ts [folder] [port]
// The default folder is ./three-nodes, with a subfolder per node, and the default ports are 4126 to 4128. Ctrl-C stops
// all nodes. For containers, see packaging/compose.yaml.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
const folder = process.argv[2] ?? 'three-nodes'
const firstPort = Number(process.argv[3] ?? 4126)
const nodes = ['a', 'b', 'c'].map((name, at) => ({ name, port: firstPort + at }))

/** Starts a node. Resolves to its address when the node listens. */
function start({ name, port }: { name: string; port: number }): Promise<string> {
  const args = ['--disable-warning=ExperimentalWarning', program, 'serve', '--only', 'ledger']
  const child = spawn(process.execPath, [...args, '--port', `${port}`, '--json'], {
    env: {
      ...process.env,
      SYSTEM_FOLDER: join(folder, name),
      PEERS_ALLOW_PRIVATE: '1',
      LOG_LEVEL: 'warn',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  return new Promise((resolve, reject) => {
    child.stdout.once('data', (line) => resolve(JSON.parse(String(line)).ledger))
    child.once('exit', (code) => reject(new Error(`node ${name} ended with ${code}`)))
  })
}

/** Returns the verifier key of the node at `url`. In production, get the key from a source that you trust. */
async function verifierKey(url: string): Promise<string> {
  const { serverid }: { serverid: number } = JSON.parse(
    await (await fetch(`${url}/api/serverid`)).text(),
  )
  return (await (await fetch(`${url}/api/ledgers/${serverid}/vkey`)).text()).trim()
}

const urls = await Promise.all(nodes.map(start))
const vkeys = await Promise.all(urls.map(verifierKey))
for (const at of urls) {
  for (const [n, url] of urls.entries()) {
    if (url === at) continue
    await fetch(`${at}/api/config/peers`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ vkey: vkeys[n], url }),
    })
  }
}
console.log(urls.map((url, n) => `${nodes[n]?.name}  ${url}  ${vkeys[n]}`).join('\n'))
