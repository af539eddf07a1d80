import { describe, expect, it } from 'vitest'
import {
  decoyHash,
  hashPassword,
  matchesPassword,
  PASSWORD_LENGTH_MAX,
  PasswordLimiter,
  requirePasswordHash,
  WAITING_MAX,
} from './passwords.ts'

describe('a password hash', () => {
  it('uses argon2id with 19 MiB and two passes, and matches only its password', async () => {
    const hash = await hashPassword('pässword')
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/)
    requirePasswordHash(hash)
    expect(await matchesPassword(hash, 'pässword')).toBe(true)
    for (const wrong of ['', 'password', 'pässword ', 'Pässword', 'x'.repeat(5000)]) {
      expect(await matchesPassword(hash, wrong)).toBe(false)
    }
    expect(await hashPassword('pässword')).not.toBe(hash)
  })

  it('requires a password of 1 to 1024 characters without control characters', async () => {
    for (const bad of ['', 'x'.repeat(PASSWORD_LENGTH_MAX + 1), 'a\nb', 'a\u007fb', '\ud800']) {
      await expect(hashPassword(bad)).rejects.toMatchObject({ code: 'PASSWORD_UNUSABLE' })
    }
    expect(await hashPassword('x'.repeat(PASSWORD_LENGTH_MAX))).toContain('argon2id')
  })

  it('a password hash can be imported only if it is valid argon2id with a limited cost', () => {
    const [salt, digest] = ['A'.repeat(22), 'A'.repeat(43)]
    requirePasswordHash(`$argon2id$v=19$m=65536,t=3,p=4$${salt}$${digest}`)
    for (const bad of [
      '',
      'plain',
      `$argon2i$v=19$m=19456,t=2,p=1$${salt}$${digest}`,
      `$argon2id$v=16$m=19456,t=2,p=1$${salt}$${digest}`,
      `$argon2id$v=19$m=262145,t=2,p=1$${salt}$${digest}`,
      `$argon2id$v=19$m=19456,t=17,p=1$${salt}$${digest}`,
      `$argon2id$v=19$m=19456,t=2,p=9$${salt}$${digest}`,
      `$argon2id$v=19$m=0,t=2,p=1$${salt}$${digest}`,
      `$argon2id$v=19$m=x$${salt}$${digest}`,
      `$argon2id$v=19$m=19456,t=2,p=1$${'A'.repeat(13)}$${digest}`,
      `$argon2id$v=19$m=19456,t=2,p=1$${salt}$`,
      `$2b$10$${'A'.repeat(53)}`,
    ]) {
      expect(() => requirePasswordHash(bad), bad).toThrow(
        expect.objectContaining({ code: 'PASSWORD_HASH_UNUSABLE' }),
      )
    }
  })

  it('for an unknown user differs each time, costs as much as a real hash, and matches no password', async () => {
    const like = `$argon2id$v=19$m=1024,t=3,p=2$${'A'.repeat(22)}$${'A'.repeat(43)}`
    expect(decoyHash(like)).toContain('$m=1024,t=3,p=2$')
    expect(decoyHash(undefined)).toContain('$m=19456,t=2,p=1$')
    expect(decoyHash(like)).not.toBe(decoyHash(like))
    requirePasswordHash(decoyHash(undefined))
    expect(await matchesPassword(decoyHash(like), '')).toBe(false)
  })
})

describe('the password limiter', () => {
  it('runs two checks at a time, in order, even if a check fails', async () => {
    const limiter = new PasswordLimiter()
    const order: string[] = []
    const ends: (() => void)[] = []
    const work = (name: string) => () =>
      new Promise<string>((resolve, reject) => {
        order.push(name)
        ends.push(() => (name === 'b' ? reject(new Error('no')) : resolve(name)))
      })
    const all = Promise.allSettled(['a', 'b', 'c', 'd'].map((name) => limiter.run(work(name))))
    await new Promise(setImmediate)
    expect(order).toEqual(['a', 'b'])
    ends[1]?.()
    await new Promise(setImmediate)
    expect(order).toEqual(['a', 'b', 'c'])
    ends[0]?.()
    await new Promise(setImmediate)
    for (const end of ends) end()
    await new Promise(setImmediate)
    for (const end of ends) end()
    expect((await all).map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
  })

  it('rejects checks while 256 are waiting', async () => {
    const limiter = new PasswordLimiter()
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    const taken = Array.from({ length: WAITING_MAX + 2 }, () => limiter.run(() => gate))
    await expect(limiter.run(() => gate)).rejects.toMatchObject({ code: 'HASHING_BUSY' })
    open()
    await Promise.all(taken)
    expect(await limiter.run(async () => 'mine')).toBe('mine')
  })
})
