// The issuer right, which is required to issue, bind and revoke identities in addition to access rules, as in
// Composer.
import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { authenticate, issueIdentity } from '../../src/network/index.ts'
import { type GatewayNode, gateway, networkOf } from '../support/gateway.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

const SYSTEM = 'org.hyperledger.composer.system'
const ADMIN = `${SYSTEM}.NetworkAdmin#admin`
const MODEL = `namespace org.test
participant Person identified by name { o String name }
participant Chief extends ${SYSTEM}.NetworkAdmin { }`
// The two rules for system types that Composer's samples contain.
const RULES = `
rule SystemACL { description: "d" participant: "${SYSTEM}.Participant" operation: ALL resource: "${SYSTEM}.**" action: ALLOW }
rule NetworkAdminUser { description: "d" participant: "${SYSTEM}.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`
const KEY = { 'x-api-key': 'the key' }
const IDENTITIES = '/api/system/identities'

const hash = (secret: string) => createHash('sha256').update(secret).digest('hex')
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })

/**
 * Starts a gateway with an API key and the participants ann, bob and eve. Returns the secrets of a member, an
 * issuer and an administrator.
 */
async function people(folder: string | null = null) {
  const node = await gateway({
    folder,
    apiKey: KEY['x-api-key'],
    deploy: [networkOf(MODEL, { 'permissions.acl': RULES })],
  })
  const names = ['ann', 'bob', 'eve'].map((name) => ({ name }))
  expect((await node.send('POST', '/api/Person', names, KEY)).status).toBe(200)
  const chief = await node.send('POST', '/api/Chief', { participantId: 'c' }, KEY)
  expect(chief.status).toBe(200)
  const secretOf = async (participant: string, more: object = {}) => {
    const reply = await issue(node, KEY, participant, more)
    expect(reply.status).toBe(200)
    return String(reply.json.userSecret)
  }
  return {
    node,
    member: await secretOf('org.test.Person#ann'),
    issuer: await secretOf('org.test.Person#bob', { issuer: true }),
    admin: await secretOf(ADMIN),
  }
}

function issue(node: GatewayNode, headers: object, participant: string, more: object = {}) {
  const body = { participant, userID: `for ${participant}`, ...more }
  return node.send('POST', `${IDENTITIES}/issue`, body, { ...headers })
}

function bind(node: GatewayNode, headers: object, participant: string, secret: string) {
  const body = { participant, certificate: `sha256:${hash(secret)}` }
  return node.send('POST', `${IDENTITIES}/bind`, body, { ...headers })
}

function revoke(node: GatewayNode, headers: object, secret: string) {
  return node.send('POST', `${IDENTITIES}/${hash(secret)}/revoke`, undefined, { ...headers })
}

const denied = (action: string) => ({
  status: 403,
  code: 'ACCESS_DENIED',
  message: `The identity for org.test.Person#ann does not have permission to ${action}`,
})
const refusalOf = ({ status, json }: Awaited<ReturnType<typeof revoke>>) => ({
  status,
  code: json.error.code,
  message: json.error.message,
})

it('does not let members issue, bind or revoke identities, even if the access rules allow it', async () => {
  const { node, member, issuer, admin } = await people()
  const me = bearer(member)
  for (const participant of [
    ADMIN,
    'org.test.Chief#c',
    'org.test.Person#eve',
    'org.test.Person#ann',
  ]) {
    for (const more of [{}, { issuer: true }, { options: { issuer: true } }]) {
      expect(refusalOf(await issue(node, me, participant, more))).toEqual(
        denied(`create a new identity for ${participant}`),
      )
    }
    expect(refusalOf(await bind(node, me, participant, 'mine'))).toEqual(
      denied(`bind an identity of ${participant}`),
    )
  }
  for (const secret of [member, issuer, admin, 'no such identity']) {
    expect(refusalOf(await revoke(node, me, secret))).toEqual(
      denied(`revoke the identity ${hash(secret)}`),
    )
  }
  // Lists follow the access rules, and contain no secrets.
  const list = await node.send('GET', IDENTITIES, undefined, me)
  expect(list.json.map(({ name }: { name: string }) => name).sort()).toEqual(
    [ADMIN, 'org.test.Person#ann', 'org.test.Person#bob'].map((each) => `for ${each}`).sort(),
  )
  expect(list.text).not.toContain(member)
  const ping = await node.send('GET', '/api/system/ping', undefined, bearer('mine'))
  expect(ping.status).toBe(401)
})

it('lets an identity with the issuer right issue, bind and revoke identities, except identities of NetworkAdmin', async () => {
  const { node, issuer, admin, member } = await people()
  const me = bearer(issuer)
  const plain = await issue(node, me, 'org.test.Person#eve')
  expect(plain.status).toBe(200)
  const eve = bearer(plain.json.userSecret)
  expect((await issue(node, eve, 'org.test.Person#eve')).status).toBe(403)
  // Composer's REST server takes the right from `options.issuer`.
  const right = { options: { issuer: true }, userID: 'eve, with the right' }
  const passed = await issue(node, me, 'org.test.Person#eve', right)
  const other = { userID: 'ann again' }
  expect(
    (await issue(node, bearer(passed.json.userSecret), 'org.test.Person#ann', other)).status,
  ).toBe(200)
  expect((await bind(node, me, 'org.test.Person#eve', 'my-own')).status).toBe(204)
  expect((await issue(node, bearer('my-own'), 'org.test.Person#eve')).status).toBe(403)
  expect((await revoke(node, me, 'my-own')).status).toBe(204)
  expect((await revoke(node, me, member)).status).toBe(204)
  for (const participant of [ADMIN, 'org.test.Chief#c']) {
    expect((await issue(node, me, participant)).status).toBe(403)
    expect((await bind(node, me, participant, 'another')).status).toBe(403)
  }
  expect((await revoke(node, me, admin)).status).toBe(403)
  expect((await revoke(node, KEY, issuer)).status).toBe(204)
  expect((await issue(node, me, 'org.test.Person#eve')).status).toBe(401)
})

it('lets an identity of NetworkAdmin manage the identities of members, but requires the API key for identities of NetworkAdmin', async () => {
  const { node, admin, member, issuer } = await people()
  const me = bearer(admin)
  expect((await issue(node, me, 'org.test.Person#eve', { issuer: true })).status).toBe(200)
  expect((await bind(node, me, 'org.test.Person#eve', 'my-own')).status).toBe(204)
  expect((await revoke(node, me, member)).status).toBe(204)
  for (const participant of [ADMIN, 'org.test.Chief#c']) {
    expect((await issue(node, me, participant)).status).toBe(403)
    expect((await bind(node, me, participant, 'another')).status).toBe(403)
  }
  expect((await revoke(node, me, admin)).status).toBe(403)
  expect((await issue(node, KEY, 'org.test.Chief#c')).status).toBe(200)
  expect((await revoke(node, KEY, admin)).status).toBe(204)
  expect((await revoke(node, KEY, issuer)).status).toBe(204)
})

it('checks access rules even for an identity with the issuer right', async () => {
  const rule = `rule D { description: "d" participant: "org.test.Person" operation: CREATE resource: "${SYSTEM}.IssueIdentity" action: DENY }`
  const node = await gateway({
    deploy: [networkOf(MODEL, { 'permissions.acl': rule + RULES })],
  })
  await node.send('POST', '/api/Person', { name: 'bob' })
  const { json } = await issue(node, {}, 'org.test.Person#bob', { issuer: true })
  const other = { userID: 'bob again' }
  const refused = await issue(node, bearer(json.userSecret), 'org.test.Person#bob', other)
  expect([refused.status, refused.json.error.message]).toEqual([
    403,
    expect.stringContaining("does not have 'CREATE' access to resource"),
  ])
})

it('stores the issuer right in the identity only if it is granted, and keeps it after a restart', async () => {
  const folder = temporaryFolder()
  const { node, member, issuer } = await people(folder)
  const recorded = async (secret: string) =>
    (await node.send('GET', `${IDENTITIES}/${hash(secret)}`, undefined, KEY)).json
  const asked = `${IDENTITIES}/${hash(issuer)}?filter[fields][name]=true&filter[fields][canIssue]=true`
  expect((await node.send('GET', asked, undefined, KEY)).json).toMatchObject({
    name: 'for org.test.Person#bob',
    canIssue: true,
  })
  // Without a filter that names it, `canIssue` is not sent, because Composer's client rejects unknown members.
  for (const secret of [member, issuer])
    expect(Object.keys(await recorded(secret)).sort()).toEqual(
      ['$class', 'certificate', 'identityId', 'issuer', 'name', 'participant', 'state'].sort(),
    )
  await node.close()
  const again = await gateway({ folder, apiKey: KEY['x-api-key'], deploy: [] })
  const path = `/${again.networks.list()[0]?.name}${IDENTITIES}/bind`
  const body = { participant: 'org.test.Person#eve', certificate: `sha256:${hash('my-own')}` }
  const ask = (secret: string) => again.send('POST', path, body, bearer(secret))
  expect((await ask(member)).status).toBe(403)
  expect((await ask(issuer)).status).toBe(204)
})

it('rejects a value of `issuer` other than true or false', async () => {
  const node = await gateway({ deploy: [networkOf(MODEL, { 'permissions.acl': RULES })] })
  await node.send('POST', '/api/Person', { name: 'bob' })
  for (const more of [{ issuer: 'yes' }, { options: { issuer: 1 } }, { options: 7 }]) {
    const { status, json } = await issue(node, {}, 'org.test.Person#bob', more)
    expect([status, json.error.code]).toEqual([422, 'RESOURCE_INVALID'])
  }
})

it('does not let a participant act as the administrator', async () => {
  const { node, member } = await people()
  const me = bearer(member)
  const identity = { $class: `${SYSTEM}.Identity`, identityId: hash('x'), participant: ADMIN }
  for (const name of ['Identity', 'IssueIdentity', 'BindIdentity', 'NetworkAdmin', 'Network']) {
    for (const path of [`/api/${name}`, `/api/${SYSTEM}.${name}`]) {
      expect([path, (await node.send('POST', path, identity, me)).status]).toEqual([path, 404])
    }
  }
  for (const [method, path] of [
    ['POST', '/api/system/historian'],
    ['PUT', `${IDENTITIES}/${hash(member)}`],
    ['DELETE', `${IDENTITIES}/${hash(member)}`],
    ['POST', '/api/system/ping'],
  ] as const) {
    const { status } = await node.send(method, path, identity, me)
    expect([method, path, status]).toEqual([method, path, 405])
  }
  for (const path of ['/networks', `/networks/x`]) {
    const { status } = await node.send(path === '/networks' ? 'POST' : 'PUT', path, 'x', {
      ...me,
      'content-type': 'application/octet-stream',
    })
    expect([path, status]).toEqual([path, 401])
  }
})

it('rejects a request whose issuer was revoked while the request was queued', async () => {
  const { node, issuer } = await people()
  const network = node.networks.get('test-network')
  if (network === null) throw new Error('the network is not deployed')
  const caller = await authenticate(network, issuer)
  await revoke(node, KEY, issuer)
  const late = { participant: 'org.test.Person#eve', name: 'late', canIssue: true }
  await expect(issueIdentity(network, late, 'late', caller)).rejects.toMatchObject({
    code: 'IDENTITY_UNKNOWN',
  })
})

it('rejects callers without credentials on a gateway with a key', async () => {
  const { node, member } = await people()
  for (const reply of [
    await issue(node, {}, 'org.test.Person#eve'),
    await bind(node, {}, 'org.test.Person#eve', 'mine'),
    await revoke(node, {}, member),
    await node.send('GET', IDENTITIES),
  ]) {
    expect([reply.status, reply.json.error.code]).toEqual([401, 'UNAUTHORIZED'])
  }
})
