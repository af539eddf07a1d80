import type { FastifyReply, FastifyRequest } from 'fastify'
import { expect, it } from 'vitest'
import { basicCheck } from './home-page.ts'

it('counts wrong passwords of an IPv6 client by its /64 network', () => {
  const check = basicCheck({ name: 'admin', password: 'right' }, { now: () => 0 })
  const reply = { header: () => reply } as unknown as FastifyReply
  const guess = (ip: string) => {
    const authorization = `Basic ${btoa('admin:wrong')}`
    check({ ip, headers: { authorization } } as FastifyRequest, reply)
  }
  for (let n = 0; n < 20; n += 1) expect(() => guess(`2001:db8::${n}`)).toThrow('a user name')
  expect(() => guess('2001:db8::ffff')).toThrow('too many wrong passwords')
  expect(() => guess('2001:db8:0:1::1')).toThrow('a user name')
})
