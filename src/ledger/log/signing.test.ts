import { expect, it } from 'vitest'
import type { Thread } from '../../base/worker/worker.ts'
import { type Platform, systemPlatform } from '../platform.ts'
import { LogSigning } from './signing.ts'
import type { SignerStart, ToSigner } from './thread.ts'

/**
 * A signer whose thread signs at most `most` blocks at once, and whose timers run when the time is set forward.
 * `stateBehind`: blocks that the state is behind the log, unless it was requested.
 */
function handSigning(stateBehind: number, most = Number.POSITIVE_INFINITY) {
  let nowMs = 0
  let timers: { readonly at: number; readonly run: () => void }[] = []
  const requests: [number, ToSigner][] = []
  let size = 0
  let signedSize = 0
  let receive: (reply: unknown) => void = () => {}
  const thread = {
    postMessage(request: ToSigner) {
      requests.push([nowMs / 1_000, request])
      const isBehind = size - signedSize > most
      signedSize = Math.min(size, signedSize + most)
      const stateSize =
        request === 'sign state' ? signedSize : Math.max(0, signedSize - stateBehind)
      const signed = { size: signedSize, note: '', head: null, stateSize, isBehind }
      queueMicrotask(() => receive({ kind: 'signed', signed }))
    },
    on(event: string, listener: (reply: unknown) => void) {
      if (event === 'message') receive = listener
    },
    unref() {},
  } as unknown as Thread
  const after = (ms: number, run: () => void) => {
    const timer = { at: nowMs + ms, run }
    timers.push(timer)
    return () => {
      timers = timers.filter((one) => one !== timer)
    }
  }
  const platform: Platform = { ...systemPlatform, schedule: { after }, startThread: () => thread }
  const signing = new LogSigning({ durable: true } as SignerStart, platform)
  const pass = async (ms: number) => {
    for (const end = nowMs + ms; nowMs < end; nowMs += 100) {
      await Promise.resolve()
      const due = timers.filter(({ at }) => at <= nowMs)
      timers = timers.filter(({ at }) => at > nowMs)
      for (const { run } of due) run()
    }
  }
  const commit = () => {
    size += 1_000
    signing.onCommit()
  }
  return { signing, requests, pass, commit, unsigned: () => size - signedSize }
}

it('a node that is never idle signs its log and follows its state every twenty seconds, and no more however far the state is behind', async () => {
  const { requests, pass, commit } = handSigning(50_000)
  for (let tenths = 0; tenths < 650; tenths += 1) {
    commit()
    await pass(100)
  }
  expect(requests.map(([, request]) => request)).toEqual(['sign', 'sign', 'sign'])
  const [first = 0, second = 0, third = 0] = requests.map(([at]) => Math.floor(at))
  expect([first, second - first, third - second]).toEqual([20, 20, 20])
})

it('an idle node signs its state, also after a load', async () => {
  const { requests, pass, commit } = handSigning(0)
  for (let tenths = 0; tenths < 250; tenths += 1) {
    commit()
    await pass(100)
  }
  await pass(5_000)
  expect(requests.map(([, request]) => request)).toEqual(['sign', 'sign state'])
})

it('an idle node signs all of a load that one signature does not cover, without further pauses of a second', async () => {
  const { requests, pass, commit } = handSigning(0, 50_000)
  for (let commits = 0; commits < 230; commits += 1) commit()
  await pass(10_000)
  expect(requests).toEqual([
    [2, 'sign state'],
    [2.2, 'sign state'],
    [2.4, 'sign state'],
    [2.6, 'sign state'],
    [2.8, 'sign state'],
  ])
})

it('signs all blocks after a load, at whatever moment of the twenty seconds it ends', async () => {
  for (let end = 180; end < 230; end += 1) {
    const { pass, commit, unsigned } = handSigning(0, 50_000)
    for (let tenths = 0; tenths < end; tenths += 1) {
      commit()
      await pass(100)
    }
    await pass(10_000)
    expect([end, unsigned()]).toEqual([end, 0])
  }
})
