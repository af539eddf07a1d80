// The types of the client, checked by `tsc`, which also reports an unused `@ts-expect-error`.
import { expect, expectTypeOf, it } from 'vitest'
import {
  type Attachment,
  type Entry,
  LedgerClient,
  type QueryFilter,
  type Stored,
} from '../../src/client/index.ts'

interface Fruit {
  name: string
  kind: 'apple' | 'pear'
  price?: number
  note: string | null
  tags: string[]
  grower?: { town: string; zip?: string }
}

type Shape = { kind: 'circle'; radius: number } | { kind: 'box'; sides?: number[] }

const ledger = new LedgerClient('http://127.0.0.1:1')
const fruit = ledger.database<Fruit>('fruit')
const shapes = ledger.database<Shape>('shapes')
const untyped = ledger.database('any')

/** Contains code that the compiler checks and that never runs. */
const compiled = (_: () => unknown) => expect.assertions(0)

it('patch accepts only members of the item, and null only for optional members', () =>
  compiled(() => [
    fruit.patch('x', { name: 'Fig', price: null, note: null, tags: [] }),
    fruit.patch('x', { grower: { zip: null } }),
    fruit.patch('x', { grower: null }),
    shapes.patch('x', { sides: null }),
    untyped.patch('x', { any: null, other: { member: null } }),
    // @ts-expect-error: an unknown member
    fruit.patch('x', { prise: 3 }),
    // @ts-expect-error: an unknown member of a member
    fruit.patch('x', { grower: { city: 'Aomori' } }),
    // @ts-expect-error: null for a required member
    fruit.patch('x', { name: null }),
    // @ts-expect-error: null for a required member of a member
    fruit.patch('x', { grower: { town: null } }),
    // @ts-expect-error: a value of another type
    fruit.patch('x', { price: '3' }),
  ]))

it("filters accept only members of the item, known operators, and values of the member's type", () =>
  compiled(() => [
    fruit.query({ filter: { where: { price: { gt: 1, lte: 3 }, tags: 'late', id: 'x' } } }),
    fruit.query({ filter: { where: { or: [{ 'grower.town': 'Aomori' }, { note: null }] } } }),
    fruit.ids({ filter: { where: { kind: { inq: ['apple'] } }, order: ['price DESC', 'id'] } }),
    shapes.query({ filter: { where: { kind: 'circle', radius: 2, sides: { gt: 3 } } } }),
    untyped.query({ filter: { where: { any: { gt: 1 }, or: [{ other: 1 }] }, order: 'any ASC' } }),
    // @ts-expect-error: an unknown member
    fruit.query({ filter: { where: { prise: 3 } } }),
    // @ts-expect-error: an unknown member in a list of conditions
    fruit.query({ filter: { where: { or: [{ prise: 3 }] } } }),
    // @ts-expect-error: a path that starts with an unknown member
    fruit.query({ filter: { where: { 'growr.town': 'Aomori' } } }),
    // @ts-expect-error: an unknown operator
    fruit.query({ filter: { where: { price: { above: 3 } } } }),
    // @ts-expect-error: a value of another type
    fruit.query({ filter: { where: { price: { gt: 'cheap' } } } }),
    // @ts-expect-error: a value that the member cannot have
    fruit.query({ filter: { where: { kind: 'plum' } } }),
    // @ts-expect-error: an order by an unknown member
    fruit.query({ filter: { order: 'prise' } }),
    // @ts-expect-error: an unknown direction
    fruit.query({ filter: { order: 'price UP' } }),
    // @ts-expect-error: an unknown part of a filter
    fruit.query({ filter: { were: {} } }),
    // @ts-expect-error: an unknown member in `fields`
    fruit.query({ filter: { fields: ['prise'] } }),
  ]))

it('counts and aggregates accept only members of the item, and a count accepts no order', () =>
  compiled(() => [
    fruit.count({ filter: { where: { price: { gt: 1 } } } }),
    fruit.aggregate({ group: ['kind', 'grower.town'], sum: ['price'], max: ['name'] }),
    untyped.aggregate({ group: ['any'], avg: ['other.member'] }),
    // @ts-expect-error: an unknown member
    fruit.count({ filter: { where: { prise: 3 } } }),
    // @ts-expect-error: an unknown member
    fruit.aggregate({ sum: ['prise'] }),
    // @ts-expect-error: a path that starts with an unknown member
    fruit.aggregate({ group: ['growr.town'] }),
    // @ts-expect-error: an order has no effect on a count
    fruit.count({ filter: { order: 'price' } }),
  ]))

it('`fields` narrows the type of the items that a query returns', () => {
  const whole = fruit.query({ filter: { where: { price: 3 } } })
  expectTypeOf(whole).toEqualTypeOf<AsyncGenerator<Stored<Fruit>>>()
  const some = fruit.query({ filter: { fields: ['id', 'price'] } })
  expectTypeOf(some).toEqualTypeOf<AsyncGenerator<Pick<Stored<Fruit>, 'id' | 'price'>>>()
  const filter: QueryFilter<Fruit> = { where: { price: { gt: 3 } } }
  expectTypeOf(fruit.query({ filter })).toEqualTypeOf<AsyncGenerator<Stored<Fruit>>>()
})

it('the method of an entry determines its members', () => {
  const described = (entry: Entry) => {
    switch (entry.method) {
      case 'create_item':
      case 'update_item':
        expectTypeOf(entry.item.id).toEqualTypeOf<string>()
        return entry.item.price
      case 'create_attachment':
      case 'delete_attachment':
        expectTypeOf(entry.attachment).extract<Attachment>().toEqualTypeOf<Attachment>()
        return entry.id
      case 'erase_item':
        return entry.positions
      case 'delete_item':
        // @ts-expect-error: a deletion has no item
        void entry.item
        return entry.id
      default:
        expectTypeOf(entry.method).toEqualTypeOf<'create_db' | 'delete_db'>()
        // @ts-expect-error: a database has no item
        return entry.item
    }
  }
  expectTypeOf(described).toBeFunction()
})
