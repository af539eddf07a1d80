// The participants that receive an event, when it is emitted and when it is replayed.
import { expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import { gateway, networkOf } from '../support/gateway.ts'

const SYSTEM = 'org.hyperledger.composer.system'
const MODEL = `namespace org.test
participant Person identified by name { o String name }
transaction Say { o String to }
transaction Finish { }
abstract event Said { o String text }
event Loud extends Said { }
event Soft extends Said { }
event End { }`
const LIB = `
/** @param {org.test.Say} tx the transaction
 *  @transaction */
async function say(tx) {
  for (const type of ['Loud', 'Soft']) {
    const event = getFactory().newEvent('org.test', type)
    event.text = type.toLowerCase() + ' to ' + tx.to
    emit(event)
  }
}
/** @param {org.test.Finish} tx the transaction
 *  @transaction */
async function finish(tx) { emit(getFactory().newEvent('org.test', 'End')) }`

const rule = (name: string, operation: string, resource: string, end = 'action: ALLOW') =>
  `rule ${name} { description: "d" participant(p): "org.test.Person" operation: ${operation} resource${resource} ${end} }\n`
const BASE = `
rule System { description: "d" participant: "ANY" operation: ALL resource: "${SYSTEM}.**" action: ALLOW }
rule Admin { description: "d" participant: "${SYSTEM}.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }
${rule('End', 'READ', ': "org.test.End"')}`
const SUBMIT = rule('Submit', 'CREATE', ': "org.test.Say"')

/** Returns the events that ann receives under `rules`. The administrator emits events about ann and bob. */
async function received(rules: string, about = {}, deadlineMs = 5_000): Promise<string[]> {
  const files = { 'lib/say.js': LIB, 'permissions.acl': rules + BASE }
  const node = await gateway({ deploy: [networkOf(MODEL, files, about)], deadlineMs })
  await node.send('POST', '/api/Person', { name: 'ann' })
  const identity = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', identity)
  const listen = async (path: string) => {
    const socket = new WebSocket(node.url.replace('http', 'ws') + path, {
      headers: { authorization: `Bearer ${json.userSecret}` },
    })
    onTestFinished(() => socket.terminate())
    const texts: string[] = []
    const ended = new Promise<string[]>((resolve) => {
      socket.on('message', (data) => {
        const { $class, text } = JSON.parse(String(data))
        // The last event, which everybody may read. All other events arrive before it.
        if ($class === 'org.test.End') resolve(texts)
        else texts.push(text)
      })
    })
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    return { ended }
  }
  const live = await listen('/')
  for (const to of ['ann', 'bob']) {
    expect((await node.send('POST', '/api/Say', { to })).status).toBe(200)
  }
  expect((await node.send('POST', '/api/Finish', {})).status).toBe(200)
  const texts = await live.ended
  expect(await (await listen('/?since=0')).ended).toEqual(texts)
  return texts
}

const EVERYTHING = ['loud to ann', 'soft to ann', 'loud to bob', 'soft to bob']

it('sends an event without its own READ rule to participants that may submit its transaction', async () => {
  expect(await received(SUBMIT)).toEqual(EVERYTHING)
})

it('sends an event without its own READ rule only if its transaction fulfils the condition of the CREATE rule', async () => {
  const mine = rule(
    'Mine',
    'CREATE',
    '(t): "org.test.Say"',
    'condition: (t.to === p.getIdentifier()) action: ALLOW',
  )
  expect(await received(mine)).toEqual(['loud to ann', 'soft to ann'])
})

it('sends no event whose transaction has a CREATE rule with a condition that does not end', async () => {
  const endless = rule(
    'Endless',
    'CREATE',
    '(t): "org.test.Say"',
    'condition: ((() => { while (t.to === "bob") {} return true })()) action: ALLOW',
  )
  expect(await received(endless, {}, 300)).toEqual(['loud to ann', 'soft to ann'])
})

it('sends an event to participants that may read it because of a rule with a wildcard', async () => {
  expect(await received(rule('R', 'READ', ': "org.test.**"'))).toEqual(EVERYTHING)
})

it('does not send an event to participants that may neither submit its transaction nor read the event', async () => {
  expect(await received('')).toEqual([])
  expect(await received(rule('D', 'CREATE', ': "org.test.Say"', 'action: DENY') + SUBMIT)).toEqual(
    [],
  )
})

it('requires READ permission for an event if a READ rule names its type or a supertype', async () => {
  const denied = rule('D', 'READ', ': "org.test.Loud"', 'action: DENY')
  expect(await received(denied + SUBMIT)).toEqual(['soft to ann', 'soft to bob'])
  const allowed = rule('R', 'READ', ': "org.test.Loud"')
  expect(await received(allowed)).toEqual(['loud to ann', 'loud to bob'])
  const own = rule(
    'R',
    'ALL',
    '(e): "org.test.Said"',
    'condition: (e.text.endsWith(p.getIdentifier())) action: ALLOW',
  )
  expect(await received(own + SUBMIT)).toEqual(['loud to ann', 'soft to ann'])
})

it('does not treat a rule with a wildcard or without READ as a READ rule of the event', async () => {
  const wild = rule('D', 'READ', ': "org.test.*"', 'action: DENY')
  const other = rule('C', 'CREATE', ': "org.test.Said"', 'action: DENY')
  // The rule for the last event must be before the wildcard rule, because the first match decides.
  const end = rule('First', 'READ', ': "org.test.End"')
  expect(await received(end + wild + other + SUBMIT)).toEqual(EVERYTHING)
})

it('sends all events to all participants if a READ rule allows the system type Event, like Composer', async () => {
  expect(await received(rule('All', 'READ', `: "${SYSTEM}.Event"`))).toEqual(EVERYTHING)
})

it('requires READ for every event if daicho.strictEvents is set', async () => {
  const about = { daicho: { strictEvents: true } }
  expect(await received(SUBMIT, about)).toEqual([])
  const wild = rule('R', 'READ', ': "org.test.*"')
  expect(await received(wild, about)).toEqual(EVERYTHING)
})
