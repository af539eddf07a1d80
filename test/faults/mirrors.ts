// Three nodes mirror each other while processes are killed, and the network between them fails, is slow or lies.
//
//   npm run build && node scripts/run.mjs test/faults/mirrors.ts [--minutes 30] [--seed 1]
//
// Each node mirrors both other chains, each from two sources, through relays that the script controls; one node pushes
// its chain, too. Clients create, change, delete and erase items, databases and attachments, and note what was
// acknowledged. Meanwhile, the script kills nodes, cuts, slows, truncates and changes the traffic between them, and
// restores chains from mirrors. At the end, it removes all faults.
//
// Exit code 0: all mirrors have the same blocks and attachments as their chains, every restore has the state of the
// node, and no acknowledged change is missing.
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Dice } from '../support/ledger-load.ts'
import { MirrorNode } from './mirrors/mirror-node.ts'
import { Relay } from './mirrors/relay.ts'

const { values: flags } = parseArgs({
  options: { minutes: { type: 'string', default: '30' }, seed: { type: 'string', default: '1' } },
})
const NAMES = ['a', 'b', 'c'] as const
const HEAL_MS = 120_000
const base = mkdtempSync(join(tmpdir(), 'daicho-mirrors-'))
const dice = new Dice(Number(flags.seed))
const wrong: string[] = []
const counts = { kills: 0, faults: 0, restores: 0, refusedRestores: 0 }
const log = (line: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${line}`)

function fail(what: string): void {
  wrong.push(what)
  log(`WRONG ${what}`)
}

const nodes = NAMES.map((name) => new MirrorNode(name, join(base, name), dice))
const relays: Relay[] = []

async function begin(): Promise<void> {
  for (const node of nodes) await node.start()
  for (const at of nodes) {
    for (const of of nodes.filter((one) => one !== at)) {
      for (const via of nodes.filter((one) => one !== at)) {
        const relay = await Relay.start(() => via.url, dice)
        relays.push(relay)
        const isPush = at === nodes[2] && of === nodes[0] && via === of
        await at.addPeer({ vkey: of.vkey, url: relay.url, push: isPush })
      }
    }
  }
}

async function causeFaults(endMs: number): Promise<void> {
  while (Date.now() < endMs) {
    await sleep(500 + dice.below(4_000))
    counts.faults += 1
    const relay = relays[dice.below(relays.length)]
    const kind = dice.below(10)
    if (kind < 2) {
      const node = nodes[dice.below(nodes.length)]
      counts.kills += 1
      await node?.kill()
      await sleep(dice.below(3_000))
      await node?.start()
    } else if (kind < 8) relay?.setMode(dice.below(Relay.MODES))
    else for (const one of relays) if (dice.below(3) === 0) one.setMode(0)
  }
}

/** Restores a chain from a mirror, with or without its key, and compares the result with the chain of the node. */
async function restoreOne(isFinal: boolean, of: MirrorNode, from: MirrorNode): Promise<void> {
  const folder = mkdtempSync(join(base, 'restored-'))
  const withKey = isFinal || dice.below(3) > 0
  if (withKey) copyFileSync(join(of.folder, 'node.key'), join(folder, 'node.key'))
  const restored = new MirrorNode(`${of.name} restored from ${from.name}`, folder, dice)
  const first = await restored.restore(from.url, of, withKey)
  counts.restores += 1
  // The source may have been killed, or may lack the newest blocks that the key has signed.
  if (first.code !== 0) {
    counts.refusedRestores += 1
    const refusal = `${restored.name}: ${first.stderr.trim()}`
    if (isFinal) fail(refusal)
    else log(refusal)
  } else if (withKey) {
    const { headId, blocks } = JSON.parse(first.stdout)
    const same = await of.idAt(blocks - 1).catch(() => headId)
    if (same !== headId) fail(`${restored.name} has another block ${blocks - 1}`)
    if (isFinal) {
      await restored.start()
      const [state, expected] = [await restored.state(), await of.state()]
      if (state !== expected) fail(`${restored.name} has another state`)
      for (const what of await restored.missing(of.acknowledged)) fail(`${restored.name}: ${what}`)
      await restored.kill()
    }
  }
  rmSync(folder, { recursive: true, force: true })
}

async function restoreRepeatedly(endMs: number): Promise<void> {
  while (Date.now() < endMs) {
    await sleep(20_000)
    const of = nodes[dice.below(3)]
    const from = nodes.filter((one) => one !== of)[dice.below(2)]
    if (of !== undefined && from !== undefined) await restoreOne(false, of, from)
  }
}

async function heal(): Promise<void> {
  for (const relay of relays) relay.setMode(0)
  const endMs = Date.now() + HEAL_MS
  for (const of of nodes) {
    for (const at of nodes) {
      let state = await at.lag(of).catch(String)
      if (state !== '') log(`${at.name} of ${of.name}: ${state}`)
      while (state !== '' && Date.now() < endMs) {
        await sleep(200)
        state = await at.lag(of).catch(String)
      }
      if (state !== '') fail(`${at.name} does not converge on the chain of ${of.name}: ${state}`)
    }
  }
}

try {
  await begin()
  const endMs = Date.now() + Number(flags.minutes) * 60_000
  const watching = setInterval(() => {
    log(
      `${nodes.map((one) => `${one.name} ${one.acknowledged.size} items, peak ${one.peakMiB} MiB`).join('; ')}; ${JSON.stringify(counts)}`,
    )
  }, 60_000)
  await Promise.all([
    causeFaults(endMs),
    restoreRepeatedly(endMs),
    ...nodes.map((node) => node.writeUntil(endMs)),
  ])
  clearInterval(watching)
  log('all faults are removed')
  await heal()
  for (const of of nodes) {
    for (const what of await of.missing(of.acknowledged)) fail(`${of.name}: ${what}`)
    for (const from of nodes) if (from !== of) await restoreOne(true, of, from)
    if (of.crashes > 0) fail(`${of.name} ended by itself ${of.crashes} times`)
  }
  for (const node of nodes) {
    await node.kill()
    const verified = await node.verify()
    if (verified !== 0) fail(`${node.name} does not verify: ${verified}`)
  }
  const peaksMiB = nodes.map((one) => one.peakMiB)
  console.log(
    JSON.stringify({ wrong, ...counts, writes: nodes.map((one) => one.writes), peaksMiB }),
  )
  process.exitCode = wrong.length === 0 ? 0 : 1
} finally {
  await Promise.all(nodes.map((node) => node.kill()))
  for (const relay of relays) relay.close()
  rmSync(base, { recursive: true, force: true })
}
