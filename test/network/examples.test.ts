// The networks in examples/, tested over HTTP.
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { readNetwork, requireDefinition } from '../../src/network/index.ts'
import { gateway } from '../support/gateway.ts'

const example = (name: string) =>
  requireDefinition(readNetwork(fileURLToPath(new URL(`../../examples/${name}`, import.meta.url))))

it('runs a letter of credit from the application to the payment, readable only by its parties', async () => {
  const node = await gateway({ deploy: [example('letters-of-credit')] })
  const bank = (partyId: string) => ({ partyId, name: partyId })
  await node.send('POST', '/api/Bank', ['east', 'west', 'north'].map(bank))
  const trader = (partyId: string, at: string) => ({ partyId, name: partyId, bank: at })
  await node.send('POST', '/api/Trader', [
    trader('imp', 'east'),
    trader('exp', 'west'),
    trader('oth', 'north'),
  ])
  const as = async (kind: string, id: string) => {
    const participant = `resource:org.example.parties.${kind}#${id}`
    const issued = await node.send('POST', '/api/system/identities/issue', {
      participant,
      userID: id,
    })
    const authorization = `Bearer ${issued.json.userSecret}`
    return async (method: string, path: string, body?: unknown) => {
      const { status, json } = await node.send(method, `/api/${path}`, body, { authorization })
      return [status, json?.error?.message ?? json] as const
    }
  }
  const imp = await as('Trader', 'imp')
  const exp = await as('Trader', 'exp')
  const east = await as('Bank', 'east')
  const west = await as('Bank', 'west')
  const other = await as('Trader', 'oth')
  const letter = { letterId: 'L1' }
  const terms = [
    { termId: 't1', text: 'on time' },
    { termId: 't2', text: 'unbroken' },
  ]
  const applied = await imp('POST', 'Apply', { ...letter, amount: 500, terms, exporter: 'exp' })
  expect(applied[0]).toBe(200)
  const byHand = {
    ...letter,
    letterId: 'L2',
    amount: 1,
    terms,
    importer: 'imp',
    exporter: 'exp',
    approvedBy: [],
  }
  expect((await imp('POST', 'Letter', byHand))[0]).toBe(403)
  expect((await other('GET', 'Letter'))[1]).toEqual([])
  expect((await other('POST', 'Approve', { letter: 'L1' }))[0]).toBe(422)
  expect((await exp('POST', 'Ship', { letter: 'L1', evidence: 'x' }))[1]).toBe(
    'the letter L1 is WAITING, not APPROVED',
  )
  expect((await imp('POST', 'Approve', { letter: 'L1' }))[1]).toBe('imp has approved already')
  for (const party of [east, exp, west])
    expect((await party('POST', 'Approve', { letter: 'L1' }))[0]).toBe(200)
  expect((await imp('PUT', 'Letter/L1', { ...byHand, letterId: 'L1' }))[0]).toBe(403)
  expect((await imp('POST', 'Ship', { letter: 'L1', evidence: 'x' }))[1]).toBe(
    'only the exporter can ship',
  )
  expect((await exp('POST', 'Ship', { letter: 'L1', evidence: 'bill of lading' }))[0]).toBe(200)
  expect((await east('POST', 'Sum', {}))[1]).toMatchObject({ open: 1, amount: 500 })
  expect((await east('POST', 'Close', { letter: 'L1' }))[0]).toBe(200)
  expect((await east('POST', 'Sum', {}))[1]).toMatchObject({ open: 0, amount: 0 })
  expect((await imp('GET', 'Letter/L1'))[1]).toMatchObject({
    status: 'CLOSED',
    closed: '2027-01-15T08:00:00.000Z',
    approvedBy: ['Trader#imp', 'Bank#east', 'Trader#exp', 'Bank#west'].map(
      (party) => `resource:org.example.parties.${party}`,
    ),
  })
  expect((await imp('GET', 'queries/withTerm?termId=t2'))[1]).toHaveLength(1)
  const party = encodeURIComponent('resource:org.example.parties.Bank#west')
  expect((await exp('GET', `queries/approvedBy?party=${party}`))[1]).toHaveLength(1)
  expect((await other('GET', 'queries/withTerm?termId=t2'))[1]).toEqual([])
  const verified = await node.networks.verify('letters-of-credit', () => {})
  expect([verified.finding, verified.transactions]).toEqual([null, 14])
})

it('runs manual fund transfers and standing orders, and queries them', async () => {
  const node = await gateway({ deploy: [example('fund-transfers')] })
  const post = async (path: string, body: unknown) => {
    const { status, json } = await node.send('POST', `/api/${path}`, body)
    return [status, json?.error?.message ?? json] as const
  }
  const get = async (path: string) =>
    (await node.send('GET', `/api/${path}`)).json.map(
      ({ accountId }: { accountId: string }) => accountId,
    )
  await post('Customer', [
    { customerId: 'ann', name: 'Ann' },
    { customerId: 'bob', name: 'Bob' },
  ])
  const current = (accountId: string, owner: string, balance: number, tags: string[]) => ({
    accountId,
    owner,
    balance,
    tags,
  })
  await post('Current', [
    current('a', 'ann', 20_000, ['joint', 'private']),
    current('b', 'bob', 50, ['private']),
  ])
  await post('Savings', { accountId: 's', owner: 'ann' })
  expect((await post('Current', { accountId: 'z', owner: 'nobody' }))[0]).toBe(422)
  const from = 'resource:org.example.funds.Current#a'
  const to = 'resource:org.example.funds.Savings#s'
  const b = 'resource:org.example.funds.Current#b'
  expect((await post('Transfer', { amount: 10_000, from, to, reference: 'saved' }))[0]).toBe(200)
  expect((await post('Transfer', { amount: 51, from: b, to: from }))[1]).toBe(
    'the balance of b is too small',
  )
  expect((await post('Transfer', { amount: 1, from, to: from }))[1]).toBe(
    'a transfer needs two accounts',
  )
  await post('StandingOrder', [
    { orderId: 'o1', amount: 10, day: 3, from: 'a', to: b },
    { orderId: 'o2', amount: 60, day: 3, from: 'b', to },
    { orderId: 'o3', amount: 500, day: 3, from: 'a', to: b },
    { orderId: 'o4', amount: 1, day: 4, from: 'a', to: b },
  ])
  expect((await post('CollectOrders', { day: 3, reference: 'rent' }))[0]).toBe(200)
  expect(await post('Worth', { customer: 'ann' })).toEqual([200, 9_490 + 10_060])
  expect(await post('Worth', { customer: 'bob' })).toEqual([200, 500])
  expect((await node.send('GET', '/api/Savings/s')).json.balance).toBe(10_060)
  expect(await get('queries/richest?least=100&rows=1&pass=1')).toEqual(['b'])
  expect(await get('queries/tagged?tag=private')).toEqual(['a', 'b'])
  expect(await get('queries/household')).toEqual(['a'])
  expect(await get('queries/paidFor?reference=rent')).toEqual(['b'])
  const events = (await node.send('GET', '/api/system/historian')).json.flatMap(
    ({ eventsEmitted }: { eventsEmitted: { $class: string; amount: number; number: string }[] }) =>
      eventsEmitted,
  )
  expect(events.map(({ amount }: { amount: number }) => amount)).toEqual([10_000, 500, 60, 10])
  expect(events[0]).toMatchObject({
    $class: 'org.example.funds.LargeTransfer',
    number: expect.stringMatching(/^2027-\d{6}$/),
  })
  expect((await node.networks.verify('fund-transfers', () => {})).finding).toBe(null)
})
