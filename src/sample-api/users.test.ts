import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { hashPassword, matchesPassword } from '../tokens/index.ts'
import {
  addUser,
  changePassword,
  openUserDirectory,
  readUsersFile,
  removeUser,
  USERS_MAX,
  type User,
  usersInFolder,
} from './users.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'daicho-users-'))
})
afterEach(() => rm(folder, { recursive: true }))

const HASH = `$argon2id$v=19$m=19456,t=2,p=1$${'A'.repeat(22)}$${'A'.repeat(43)}`
const user = (name: string): User => ({ name, passwordHash: HASH, admin: false })
const fileOf = async (content: unknown) => {
  const path = join(folder, 'declared.json')
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

describe('a list of users', () => {
  it('contains each name at most once, and rejects changes of unknown users', () => {
    const one = addUser([], user('ada'))
    expect(() => addUser(one, user('ada'))).toThrow('the user ada already exists')
    expect(addUser(one, user('Ada')).map(({ name }) => name)).toEqual(['ada', 'Ada'])
    expect(removeUser(one, 'ada')).toEqual([])
    expect(() => removeUser(one, 'bob')).toThrow('unknown user bob')
    const changed = changePassword(one, 'ada', 'x')
    expect(changed).toEqual([{ name: 'ada', passwordHash: 'x', admin: false }])
    expect(() => changePassword(one, 'bob', 'x')).toThrow('bob')
  })

  it('rejects names that are empty, long or unprintable, and more than 1000 users', () => {
    for (const name of ['', 'x'.repeat(257), 'a\nb', '\ud800']) {
      expect(() => addUser([], user(name))).toThrow(
        expect.objectContaining({ code: 'USER_NAME_UNUSABLE' }),
      )
    }
    const full = Array.from({ length: USERS_MAX }, (_, index) => user(`${index}`))
    expect(() => addUser(full, user('x'))).toThrow(expect.objectContaining({ code: 'USERS_FULL' }))
  })

  it('a list of users is stored with password hashes only, in a file that only the owner can read', async () => {
    const users = usersInFolder(folder)
    const passwordHash = await hashPassword('secret words')
    await users.change((list) => addUser(list, { ...user('ada'), passwordHash }))
    const path = join(folder, 'users.json')
    expect(await readFile(path, 'utf8')).not.toContain('secret words')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(usersInFolder(folder).current()).toEqual(users.current())
    await writeFile(path, (await readFile(path, 'utf8')).replace('$argon2id', '$argon2i'))
    expect(() => users.current()).toThrow(expect.objectContaining({ code: 'FILE_DAMAGED' }))
  })

  it.each([
    ['a list', []],
    ['an empty object', {}],
    ['an object instead of a list', { users: {} }],
    ['a user that is a number', { users: [5] }],
    ['a user without a name', { users: [{ ...user('ada'), name: 5 }] }],
    ['a user without a hash', { users: [{ ...user('ada'), passwordHash: null }] }],
    ['a password instead of a hash', { users: [{ ...user('ada'), passwordHash: 'words' }] }],
    ['an `admin` that is not a boolean', { users: [{ ...user('ada'), admin: 1 }] }],
    ['a duplicate user', { users: [user('ada'), user('ada')] }],
  ])('a list of users is rejected as damaged if its file contains %s', async (_, content) => {
    await writeFile(join(folder, 'users.json'), JSON.stringify(content))
    const users = usersInFolder(folder)
    expect(() => users.current()).toThrow(expect.objectContaining({ code: 'FILE_DAMAGED' }))
  })
})

describe("an operator's file of users", () => {
  it("an operator's file of users may contain passwords, which are hashed when the file is read, and password hashes", async () => {
    const made = await hashPassword('b')
    const path = await fileOf([
      { name: 'ada', password: 'a', admin: true },
      { name: 'bob', passwordHash: made },
    ])
    const [ada, bob] = await readUsersFile(path)
    expect(ada).toMatchObject({ name: 'ada', admin: true })
    expect(await matchesPassword(ada?.passwordHash ?? '', 'a')).toBe(true)
    expect(bob).toEqual({ name: 'bob', passwordHash: made, admin: false })
  })

  it("an operator's file of users is rejected with the position of each error and without passwords", async () => {
    const bad: [unknown, string][] = [
      ['', 'is not JSON'],
      ['[{"name":"ada","password":"hunter2"', 'is not JSON'],
      ['[{"name":"ada","password":"hunter2","password":"hunter2"}]', 'is not JSON'],
      [{}, 'is not a JSON array'],
      [['ada'], 'user 1: it is not an object'],
      [[{ password: 'hunter2' }], 'user 1: its name is not a string'],
      [[{ name: 'ada' }], 'user 1: it needs either'],
      [[{ name: 'ada', password: 'hunter2', passwordHash: HASH }], 'user 1: it needs either'],
      [[{ name: 'ada', password: 5 }], 'user 1: it needs either'],
      [[{ name: 'ada', password: '' }], 'user 1: a password must have 1 to 1024'],
      [[{ name: 'ada', passwordHash: 'hunter2' }], 'user 1: a password hash is not'],
      [[{ name: 'ada', password: 'hunter2', admin: 'yes' }], 'user 1: its admin'],
      [[{ name: 'ada', password: 'hunter2', role: 'x' }], 'user 1: it has an unknown member role'],
      [
        [
          { name: 'a', passwordHash: HASH },
          { name: 'a', passwordHash: HASH },
        ],
        'user 2: the user a already exists',
      ],
    ]
    for (const [content, why] of bad) {
      const path = await fileOf(content)
      const error = await readUsersFile(path).catch((caught: unknown) => caught)
      expect(error).toMatchObject({ code: 'USERS_FILE_UNUSABLE' })
      expect(String(error)).toContain(`the users file ${path} `)
      expect(String(error)).toContain(why)
      expect(String(error)).not.toContain('hunter2')
    }
    await expect(readUsersFile(join(folder, 'none'))).rejects.toThrow('cannot be read')
  })
})

describe('the users of a node', () => {
  it('the users of a node are by default one preset user on a loopback address; on other addresses, users must be configured', async () => {
    const book = await openUserDirectory({ file: null, folder: null, isLoopback: true })
    expect([...book.all().keys()]).toEqual(['demo'])
    expect(book.isPreset()).toBe(true)
    const onPublicAddress = openUserDirectory({ file: null, folder, isLoopback: false })
    await expect(onPublicAddress).rejects.toMatchObject({
      code: 'USERS_NOT_CONFIGURED',
      message: expect.stringContaining('USERS_FILE'),
    })
    await expect(
      openUserDirectory({ file: await fileOf([]), folder: null, isLoopback: false }),
    ).rejects.toMatchObject({ code: 'USERS_NOT_CONFIGURED' })
  })

  it("the users of a node are the users of the operator's file and of the folder, without the preset user", async () => {
    await usersInFolder(folder).change((list) => addUser(addUser(list, user('ada')), user('eve')))
    const file = await fileOf([{ name: 'ada', password: 'a', admin: true }])
    for (const isLoopback of [true, false]) {
      const book = await openUserDirectory({ file, folder, isLoopback })
      expect([...book.all().values()].map(({ name, admin }) => [name, admin])).toEqual([
        ['ada', true],
        ['eve', false],
      ])
      expect(book.isPreset()).toBe(false)
    }
  })

  it('the users of a node can change while the node is running', async () => {
    const users = usersInFolder(folder)
    await users.change((list) => addUser(list, user('ada')))
    const [near, far] = [
      await openUserDirectory({ file: null, folder, isLoopback: true }),
      await openUserDirectory({ file: null, folder, isLoopback: false }),
    ]
    expect([...near.all().keys()]).toEqual(['ada'])
    await users.change((list) => removeUser(list, 'ada'))
    expect([...near.all().keys()]).toEqual(['demo'])
    expect([...far.all().keys()]).toEqual([])
    expect(far.isPreset()).toBe(false)
    expect(far.decoy()).toContain('$m=19456,t=2,p=1$')
  })
})
