import { EventEmitter } from 'node:events'
import { expect, it, vi } from 'vitest'
import { signalAction } from '../actions/serve.ts'
import { findExit } from '../exit.ts'
import { endOnSignals } from '../signals.ts'

it('as the first process of a container, a program ends by a signal until a command handles signals', () => {
  const started = (pid: number) => {
    const exit = vi.fn<(code: number) => never>()
    const program = Object.assign(new EventEmitter(), { pid, exit })
    endOnSignals(program as unknown as NodeJS.Process)
    return program
  }
  const first = started(1)
  first.emit('SIGTERM')
  first.emit('SIGINT')
  first.on('SIGTERM', () => {}).emit('SIGTERM')
  expect(first.exit.mock.calls).toEqual([[143], [130]])
  expect(started(2).listenerCount('SIGTERM')).toBe(0)
})

it.each([
  [null, 'close'],
  [0, 'ignore'],
  [500, 'ignore'],
  [501, 'exit'],
  [60_000, 'exit'],
])(
  'for a signal %s ms after the first signal (null for the first signal), the action is %s',
  (sinceFirstMs, meaning) => {
    expect(signalAction(sinceFirstMs)).toBe(meaning)
  },
)

it('prints one line if the disk of temporary files is full, which SQLite reports without a system call', () => {
  const error = Object.assign(new Error('database or disk is full'), { errcode: 13 })
  expect(findExit(error)?.message).toBe('the disk is full (database or disk is full)')
})
