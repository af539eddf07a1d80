import { expect, it } from 'vitest'
import type { Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import { toWrite } from './database.ts'
import { NO_RESOURCES, Overlay } from './overlay.ts'
import { isRevoked } from './transaction.ts'

it('a request of an identity does not read the content of its participant, which can have 10 MB', async () => {
  const participant = { type: 'org.a.Clerk', id: 'ann' }
  const identity = { type: systemType('Identity'), id: 'e3b0' }
  const all = new Overlay(NO_RESOURCES)
  all.apply(toWrite('create', identity, { state: 'ISSUED' }))
  all.apply(toWrite('create', participant, { note: 'long' }))
  const read: Target[] = []
  const state = {
    exists: (target: Target) => all.exists(target),
    read: (target: Target) => {
      read.push(target)
      return all.read(target)
    },
  }
  const caller = { participant, identity: identity.id }
  expect(await isRevoked(caller, state)).toBe(false)
  all.apply({ kind: 'delete', target: participant })
  expect(await isRevoked(caller, state)).toBe(true)
  expect(read).toEqual([identity, identity])
})
