import fc from 'fast-check'
import { expect, it } from 'vitest'
import { StoreError } from '../../ledger/core.ts'
import { requireDefinition } from '../definition/definition.ts'
import { parseStored, type ResourceReader, toWrite } from './database.ts'
import { Guard } from './guard.ts'
import { requireType } from './instances.ts'
import { NO_RESOURCES, Overlay } from './overlay.ts'

const definition = requireDefinition({
  packed: null,
  files: new Map(
    Object.entries({
      'package.json': '{"name":"sorting","version":"1.0.0"}',
      'models/test.cto': `namespace org.test
        asset Thing identified by id { o String id o Integer size o Boolean open }
        participant Person identified by id { o String id }`,
      'permissions.acl': `rule Open { description: "" participant: "ANY" operation: READ
        resource(t): "org.test.Thing" condition: (t.open) action: ALLOW }`,
    }).map(([path, text]) => [path, Buffer.from(text)]),
  ),
})
const thing = requireType(definition.model, 'org.test.Thing')
const order = [{ path: ['size'], descending: true }]

/** Returns a reader that sorts at most `most` resources, as a store does without an index. */
function sortingAtMost(most: number, below: ResourceReader): ResourceReader {
  return {
    read: (target) => below.read(target),
    exists: (target) => below.exists(target),
    count: (selection) => below.count(selection),
    async *select(selection) {
      if (
        selection.order.length > 0 &&
        selection.limit === null &&
        (await below.count(selection)) > most
      ) {
        throw new StoreError('SEARCH_TOO_LARGE', 'too many')
      }
      yield* below.select(selection)
    },
  }
}

it('sorts the resources that a caller may read, however many others there are', async () => {
  const rows = fc.array(fc.record({ size: fc.nat(3), open: fc.boolean() }), { maxLength: 12 })
  const rowLimit = fc.option(fc.nat(5))
  await fc.assert(
    fc.asyncProperty(rows, rowLimit, fc.nat(3), fc.nat(6), async (things, limit, offset, most) => {
      const all = new Overlay(NO_RESOURCES)
      for (const [at, content] of things.entries()) {
        const target = { type: 'org.test.Thing', id: `t${at}` }
        all.apply(toWrite('create', target, { $class: target.type, id: target.id, ...content }))
      }
      const guard = new Guard({
        definition,
        caller: { participant: { type: 'org.test.Person', id: 'ann' }, identity: null },
        database: sortingAtMost(most, all),
        evaluate: async ({ resources }) =>
          resources.map((text) => parseStored(text ?? '{}').open === true),
        nowMs: 0,
      })
      const found: string[] = []
      for await (const page of guard.select({ type: thing, where: null, order, limit, offset })) {
        found.push(...page.map(({ id }) => id))
      }
      const readable = things.flatMap(({ size, open }, at) =>
        open ? [{ id: `t${at}`, size }] : [],
      )
      const ids = readable
        .sort((one, other) => other.size - one.size || (one.id < other.id ? -1 : 1))
        .map(({ id }) => id)
      expect(found).toEqual(ids.slice(offset, limit === null ? undefined : offset + limit))
    }),
  )
})

it('reads versions of a resource only in its turn, and returns the readable ones without their texts', async () => {
  const steps: string[] = []
  const guard = new Guard({
    ...{ definition, database: NO_RESOURCES, nowMs: 0 },
    caller: { participant: { type: 'org.test.Person', id: 'ann' }, identity: null },
    evaluate: async ({ resources }) => {
      steps.push('check')
      return resources.map((text) => parseStored(text ?? '{}').open === true)
    },
    inTurn: (work) => {
      steps.push('turn')
      return work()
    },
  })
  const read = async () => {
    steps.push('read')
    return [true, false].map((open, version) => ({ text: JSON.stringify({ open }), version }))
  }
  expect(await guard.readVersions({ type: 'org.test.Thing', id: 't' }, read)).toEqual([0])
  expect(steps).toEqual(['turn', 'read', 'check'])
})
