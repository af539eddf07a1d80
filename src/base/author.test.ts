import { expect, it } from 'vitest'
import { decodeAuthor } from './author.ts'

it.each([
  [{ sub: 'a' }],
  [{ sub: 'org.acme.Trader#bob', iss: 'mynetwork' }],
  [{ sub: '台'.repeat(85), iss: 'https://idp.example/realms/acme' }],
  [{ sub: 'x'.repeat(256), iss: 'y'.repeat(512) }],
])('decodes %j as an author', (value) => {
  expect(decodeAuthor(value)).toEqual(value)
})

it.each([
  [undefined],
  [null],
  ['a'],
  [[]],
  [{}],
  [{ sub: '' }],
  [{ sub: 1 }],
  [{ sub: 'x'.repeat(257) }],
  [{ sub: '台'.repeat(86) }],
  [{ sub: '\ud800' }],
  [{ sub: 'a', iss: '' }],
  [{ sub: 'a', iss: null }],
  [{ sub: 'a', iss: 'y'.repeat(513) }],
  [{ iss: 'a' }],
  [{ sub: 'a', name: 'b' }],
  [{ sub: 'a', iss: 'b', name: 'c' }],
])('does not decode %j', (value) => {
  expect(decodeAuthor(value)).toBeNull()
})
