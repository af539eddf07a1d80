import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { BodyBudget } from './body-budget.ts'

const MI = 1024 * 1024

it('reserves memory for a body until its response closes, and rejects bodies beyond the budget', () => {
  const budget = new BodyBudget(2 * MI)
  const reserve = ({ length, transfer }: { length?: string; transfer?: string }) => {
    // `reserve` only waits for the event `close` of the response.
    const response = new EventEmitter() as unknown as ServerResponse<IncomingMessage>
    const socket = { bytesRead: 0 }
    const raw = { socket, complete: true } as unknown as IncomingMessage
    const request: Parameters<BodyBudget['reserve']>[0] = { growBody: null, raw, ip: '10.0.0.1' }
    const unset = {
      site: undefined,
      origin: undefined,
      encoding: undefined,
      upgrade: undefined,
      type: undefined,
    }
    const others = { hosts: 1, host: 'a', ...unset }
    const headers = { ...others, length, transfer }
    const refusal = budget.reserve(request, headers, 9 * MI, response)
    return { request, refusal, close: () => void response.emit('close') }
  }
  const busy = { status: 503, code: 'BODIES_BUSY' }
  const first = reserve({ length: `${2 * MI}` })
  expect(first.refusal).toBeNull()
  const second = reserve({ length: '70000' })
  expect(second.refusal).toMatchObject(busy)
  second.close()
  first.close()
  // A body of unknown length reserves 1 MiB at first, and more when it grows.
  const third = reserve({ transfer: 'chunked' })
  expect(third.refusal).toBeNull()
  expect(third.request.growBody?.(2 * MI)).toBeNull()
  expect(third.request.growBody?.(2 * MI + 1)).toMatchObject(busy)
  expect(reserve({ length: '70000' }).refusal).toMatchObject(busy)
  third.close()
  expect(reserve({ length: `${2 * MI}` }).refusal).toBeNull()
})
