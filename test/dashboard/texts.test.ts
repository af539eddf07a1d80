import { expect, it } from 'vitest'
import { english } from '../../src/dashboard/browser/language/english.ts'
import { japanese } from '../../src/dashboard/browser/language/japanese.ts'

const VALUES = [7, 8, 9, 6]

/** Returns every text by its path. Texts with parameters are rendered with VALUES. */
function renderedTexts(texts: object, at = ''): [string, string][] {
  return Object.entries(texts).flatMap(([name, text]): [string, string][] => {
    const path = `${at}${name}`
    if (typeof text === 'string') return [[path, text]]
    if (typeof text === 'function') return [[`${path}/${text.length}`, text(...VALUES)]]
    return renderedTexts(text, `${path}.`)
  })
}

it('the dashboard has the same texts with the same parameters in all languages', () => {
  const [inEnglish, inJapanese] = [renderedTexts(english), renderedTexts(japanese)]
  expect(inJapanese.map(([path]) => path)).toEqual(inEnglish.map(([path]) => path))
  expect(inEnglish.length).toBeGreaterThan(150)
  for (const [path, text] of [...inEnglish, ...inJapanese]) {
    expect([path, text.trim() === text && text !== '']).toEqual([path, true])
    const values = VALUES.map(String).slice(0, Number(/\/(\d)$/.exec(path)?.[1] ?? 0))
    expect([path, values.filter((value) => text.includes(value))]).toEqual([path, values])
  }
})

it('uses the singular for the number 1, and omits the total while the length of a chain is unknown', () => {
  expect([english.blocks(1), english.entries(1), english.blocks(1_234)]).toEqual([
    ...['1 block', '1 entry', '1,234 blocks'],
  ])
  expect([english.verifying(7, null), japanese.verifying(7, null)]).toEqual([
    '7 blocks',
    expect.stringContaining('7'),
  ])
})
