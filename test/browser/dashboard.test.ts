// User interactions with the dashboard in a real browser. Tests find buttons and fields by their accessible names.
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openTokens } from '../../src/tokens/index.ts'
import { expectAccessible } from '../support/accessibility.ts'
import { dashboards, writeJson } from '../support/dashboard-page.ts'
import { HandClock, temporaryFolder } from '../support/ledger-node.ts'
import { until } from '../support/until.ts'

const { startNode, openPage } = dashboards()

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const shown = (page: Page, text: string) => page.getByText(text).first().waitFor()
/** Returns the name and text of the file that the page saves during `act`. */
async function saved(
  page: Page,
  act: () => Promise<void>,
): Promise<{ name: string; text: string }> {
  const [download] = await Promise.all([page.waitForEvent('download'), act()])
  const text = readFileSync(await download.path(), 'utf8')
  return { name: download.suggestedFilename(), text }
}

/** A PNG image of one pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const widthOf = (image: unknown) => Number(Reflect.get(Object(image), 'naturalWidth'))

/** A page of another origin with a form and without a Content-Security-Policy. */
const LURE = '<!doctype html><form method="post"></form>'
const heading = (page: Page, name: string) =>
  page.getByRole('heading', { level: 1, name }).waitFor()

describe('databases and items', () => {
  it('creates, fills, changes and deletes a database on an empty node', async () => {
    const node = await startNode()
    const { page, complaints } = await openPage(node)
    await shown(page, 'There is no database yet')

    await button(page, 'New database').click()
    await page.getByLabel('Name').fill('config')
    await button(page, 'Create').click()
    await shown(page, 'DATABASE_NAME_RESERVED')
    await page.getByLabel('Name').fill('fruit & 果物')
    await page.keyboard.press('Enter')
    await heading(page, 'fruit & 果物')
    await shown(page, 'This database is empty')

    await button(page, 'Add item').click()
    const json = (text: string) => writeJson(page, text)
    await json('{"id":"plum","price":90,}')
    await shown(page, 'This is not JSON. (line 1, column 25)')
    expect(await button(page, 'Create').isDisabled()).toBe(true)
    await json('{"id":"plum","price":9007199254740993}')
    await shown(page, 'A number cannot be stored exactly')
    await json('{"id":"plum","price":90,"tags":["stone"]}')
    await button(page, 'Create').click()
    await shown(page, 'Item plum was added.')

    await page.getByRole('link', { name: 'plum', exact: true }).click()
    await heading(page, 'plum')
    await button(page, 'Edit').click()
    await json('{"id":"pear","price":80}')
    await shown(page, 'The id is plum and cannot be changed.')
    await json('{"id":"plum","price":80,"tags":["stone","blue"]}')
    await button(page, 'Save').click()
    await shown(page, 'Item plum was saved.')
    const path = `/api/${encodeURIComponent('fruit & 果物')}/plum`
    expect((await node.send('GET', path)).json.item).toEqual({
      id: 'plum',
      price: 80,
      tags: ['stone', 'blue'],
    })

    const newest = page.locator('.revisions > li').first()
    await newest.getByText('Entry 2.0').waitFor()
    const differences = await newest.locator('.differences > li').allTextContents()
    expect(differences).toEqual(['price changed9080', 'tags[1] added"blue"'])

    await button(page, 'Delete').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await shown(page, 'This item was deleted:')
    await page.locator('.revisions > li').nth(2).waitFor()

    await page.getByRole('navigation').getByRole('link', { name: 'Databases' }).first().click()
    await button(page, 'Delete: fruit & 果物').click()
    const confirm = page.getByRole('dialog').getByRole('button', { name: 'Delete' })
    expect(await confirm.isDisabled()).toBe(true)
    await page.getByLabel('Type fruit & 果物 to confirm').fill('fruit')
    expect(await confirm.isDisabled()).toBe(true)
    await page.getByLabel('Type fruit & 果物 to confirm').fill('fruit & 果物')
    await confirm.click()
    await shown(page, 'There is no database yet')
    expect((await node.send('GET', '/api/dbs')).json.dbs).toEqual([])
    expect(complaints).toEqual([])
  })

  it('shows the path to a page without a separator at its end', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'plum' })
    const { page, complaints } = await openPage(node, { at: '#/db/fruit' })
    await heading(page, 'fruit')
    const path = page.getByRole('navigation', { name: 'Databases' })
    expect(await path.textContent()).toBe('Databases')
    await page.getByRole('link', { name: 'plum' }).click()
    await heading(page, 'plum')
    expect(await path.textContent()).toBe('Databases › fruit')
    expect(complaints).toEqual([])
  })

  it('shows changes of other clients automatically, and never overwrites unseen changes', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    const { page, complaints } = await openPage(node, { at: '#/db/fruit' })
    await shown(page, 'This database is empty')
    await node.send('POST', '/api/fruit', { id: 'fig', price: 5 })
    await page.getByRole('link', { name: 'fig' }).click()
    await button(page, 'Edit').click()
    await writeJson(page, '{"price":6}')
    await node.send('POST', '/api/fruit/fig', { price: 7 })
    await shown(page, 'Somebody else has changed the item.')
    expect(await button(page, 'Save').isDisabled()).toBe(true)
    // The editor shows both texts, and leaving it asks first.
    const theirs = (text: string) =>
      page.locator('.cm-deletedChunk', { hasText: text }).first().waitFor()
    await theirs('"price": 7')
    expect(await page.getByLabel('JSON of the item').innerText()).toContain('{"price":6}')
    let asked = ''
    page.once('dialog', (dialog) => {
      asked = dialog.message()
      void dialog.dismiss()
    })
    await page.getByRole('link', { name: 'Node', exact: true }).click()
    await expect.poll(() => asked).toBe('Your changes are not saved. Leave them?')
    await expect.poll(() => page.url()).toContain('#/db/fruit/fig')
    await expectAccessible(page, 'conflict')
    await node.send('POST', '/api/fruit/fig', { price: 7, stock: 2 })
    await theirs('"stock": 2')
    await button(page, 'Merge').click()
    await button(page, 'Save').click()
    await shown(page, 'Item fig was saved.')
    expect((await node.send('GET', '/api/fruit/fig')).json.item).toEqual({
      ...{ id: 'fig', price: 6, stock: 2 },
    })
    await page.locator('.revisions').getByRole('button', { name: 'Restore' }).last().click()
    await page.getByRole('dialog').getByText('stock').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click()
    await shown(page, 'The content of entry 1.0 was restored.')
    expect((await node.send('GET', '/api/fruit/fig')).json.item).toEqual({ id: 'fig', price: 5 })
    await shown(page, 'Entry 5.0')
    await page.locator('.revisions summary', { hasText: 'Compare' }).first().click()
    await page.getByLabel('Compare with').selectOption({ index: 1 })
    await page.locator('details[open] .differences').getByText('stock').waitFor()
    await button(page, 'Edit').click()
    await button(page, 'Form').click()
    await page.getByLabel('Value', { exact: true }).fill('x')
    await shown(page, 'This is not JSON.')
    await page.getByLabel('Value', { exact: true }).fill('5.5')
    await button(page, 'JSON').click()
    await writeJson(page, '{"price":8}')
    await button(page, 'Save').click()
    await shown(page, 'Item fig was saved.')
    expect((await node.send('GET', '/api/fruit/fig')).json.item).toEqual({ id: 'fig', price: 8 })
    await page.goto(`${node.url}/#/`)
    await heading(page, 'Databases')
    await node.send('POST', '/api/late')
    await page.getByRole('link', { name: 'late' }).waitFor()
    expect(complaints).toEqual([])
  })

  it('keeps a text that the user types while the node fails, its database is deleted, or a cancelled request ends', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'fig', price: 5 })
    const { page } = await openPage(node, { at: '#/db/fruit/fig' })
    page.on('dialog', (dialog) => void dialog.accept())
    await button(page, 'Edit').click()
    const editor = page.getByLabel('JSON of the item')
    for (const price of [7, 8, 7]) {
      await node.send('POST', '/api/fruit/fig', { price })
      await page.locator('.notice.bad').getByRole('button', { name: 'Take theirs' }).click()
      await expect.poll(() => editor.innerText()).toContain(`"price": ${price}`)
    }
    await writeJson(page, '{"price":6}')
    const failure = { status: 500, json: { status: false, code: 'STORE_FAILED', message: 'x' } }
    await page.route('**/api/fruit/fig', (route) => route.fulfill(failure))
    await node.send('POST', '/api/fruit/fig', { price: 9 })
    await shown(page, 'STORE_FAILED')
    expect(await editor.innerText()).toContain('{"price":6}')
    await page.unroute('**/api/fruit/fig')
    await button(page, 'Try again').first().click()
    await shown(page, 'Somebody else has changed the item.')
    await node.send('DELETE', '/api/fruit')
    await shown(page, 'DATABASE_NOT_FOUND')
    expect(await editor.innerText()).toContain('{"price":6}')
    await button(page, 'Cancel').click()
    await shown(page, 'This database does not exist.')

    await node.send('POST', '/api/fruit')
    await page.goto(`${node.url}/#/db/fruit`)
    const held = Promise.withResolvers<void>()
    await page.route('**/api/fruit', (route) => held.promise.then(() => route.continue()))
    const dialog = page.getByRole('dialog')
    const add = async (text: string) => {
      await button(page, 'Add item').click()
      await writeJson(page, text)
    }
    await add('{"id":"late"}')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await add('{"id":"next"}')
    held.resolve()
    await shown(page, 'Item late was added.')
    expect(await editor.innerText()).toBe('{"id":"next"}')
  })

  it('does not soon repeat requests that its token does not permit', async () => {
    const node = await startNode()
    const { page } = await openPage(node)
    await page.clock.install()
    const asked: string[] = []
    await page.route(/config\/peers|\/changes/, (route) => {
      asked.push(new URL(route.request().url()).pathname.split('/').at(-1) ?? '')
      return route.fulfill({ status: 403, json: { status: false, code: 'SCOPE_MISSING' } })
    })
    await page.reload()
    await heading(page, 'Databases')
    for (let round = 0; round < 6; round += 1) {
      await page.clock.runFor(4_000)
      await page.evaluate("fetch('./healthz').then((reply) => reply.text())")
    }
    // The feed is asked for its position, and then for changes.
    expect(asked.toSorted()).toEqual(['changes', 'changes', 'peers'])
  })

  it('shows a list and a search that take longer than the time between two changes', async () => {
    const node = await startNode()
    await node.send('POST', '/api/stock')
    await node.send('POST', '/api/stock', { id: 'first' })
    const { page } = await openPage(node)
    await page.clock.install()
    for (const [view, request] of [
      ['#/db/stock', /\/api\/stock\?limit=51/],
      ['#/ledger?method=create_item', /\/api\/ledgers\?/],
    ] as const) {
      const held = Promise.withResolvers<void>()
      let count = 0
      await page.route(request, async (route) => {
        count += 1
        await held.promise
        await route.continue()
      })
      await page.goto(`${node.url}/${view}`)
      await expect.poll(() => count).toBe(1)
      for (let round = 0; round < 5; round += 1) {
        await node.send('POST', '/api/stock', {})
        await page.evaluate("fetch('./healthz').then((reply) => reply.text())")
        await page.clock.runFor(300)
      }
      expect(count).toBe(1)
      held.resolve()
      await page.getByRole('link', { name: 'first', exact: true }).waitFor()
      await page.clock.runFor(10_000)
      await expect.poll(() => count).toBeGreaterThan(1)
      await page.unroute(request)
    }
  })

  it('keeps the results of a search that the user has continued when the page is shown again', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    for (let n = 0; n < 30; n += 1) await node.send('POST', '/api/fruit', { n })
    const at = '#/ledger?method=create_item'
    const { page, complaints } = await openPage(node, { at: `${at}&from=2999-01-01T00:00:00.000Z` })
    await shown(page, 'No entry found so far.')
    // A year of five digits is no time.
    await page.evaluate(`(() => {
      const field = document.querySelector('input[type=datetime-local]')
      field.value = '12999-01-01T00:00'
      field.dispatchEvent(new Event('change', { bubbles: true }))
    })()`)
    await page.waitForURL(`${node.url}/${at}`, { timeout: 20_000 })
    expect(complaints).toEqual([])
    await button(page, 'Search further back').click()
    await shown(page, 'The whole chain was searched.')
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).search))
    await page.clock.install()
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect.poll(() => asked.some((query) => query.startsWith('?since=30.0'))).toBe(true)
    asked.length = 0
    await page.clock.runFor(300)
    expect(await page.locator('.block').count()).toBe(30)
    expect(asked.filter((query) => query.includes('since'))).toEqual([])
  })

  it('verifies an item, its absence and a whole list, shows the past without buttons, and detects content that the node did not record', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'plum', price: 90 })
    const { page, complaints } = await openPage(node, { at: '#/db/fruit/plum' })
    await button(page, 'Verify in this browser').click()
    await shown(page, `This item is included in checkpoint 2 of node ${node.service.serverId}.`)
    const proof = page.locator('.proof').first()
    await proof.getByText(`${node.service.log.verifierKey.split('+')[1]}`).waitFor()
    await proof.getByText('It is the newest revision as of block 1, signed by').waitFor()
    const file = await saved(page, () => proof.getByText('Download proof').click())
    expect(file.name).toBe('fruit-plum-1.0.state-proof')
    expect(file.text).toBe((await node.send('GET', '/api/fruit/plum/proof?current=1')).text)

    await node.send('POST', '/api/fruit/plum', { price: 95 })
    await shown(page, '"price": 95')
    await page.getByText('Show an earlier time').click()
    await page.getByLabel('or the block').fill('1')
    await button(page, 'Show').click()
    await shown(page, 'The past: Block 1 · nothing can be changed here')
    await page.reload()
    await shown(page, '"price": 90')
    expect(await page.locator('.revisions li').count()).toBe(1)
    for (const name of ['Edit', 'Delete', 'Upload', 'Erase former revisions']) {
      expect([name, await button(page, name).count()]).toEqual([name, 0])
    }
    await page.getByRole('link', { name: 'Changes since then' }).click()
    await shown(page, '0 created, 1 changed, 0 deleted')
    await page.getByText('Differences').click()
    await page.locator('.differences del').getByText('90').waitFor()
    await page.goBack()
    await page.getByRole('link', { name: 'fruit', exact: true }).click()
    await page.locator('.items tbody tr').getByText('90').waitFor()
    expect(await button(page, 'Add item').count()).toBe(0)
    await button(page, 'Back to now').click()
    await page.locator('.items tbody tr').getByText('95').waitFor()
    await page.getByText('Proof that the list is complete').click()
    await button(page, 'Verify in this browser').click()
    await shown(page, 'The database has exactly 1 item as of block 2, those of this page')
    await page.goto(`${node.url}/#/db/fruit/kiwi`)
    await button(page, 'Verify in this browser').click()
    await shown(page, 'There is no such item as of block 2, signed by the node.')
    await page.goto(`${node.url}/#/db/fruit/plum`)

    // Simulates a node that shows content that it did not record.
    await page.route('**/api/fruit/plum', async (route) => {
      const reply = await route.fetch()
      const body = (await reply.text()).replace('95', '91')
      await route.fulfill({ response: reply, body })
    })
    await page.reload()
    await shown(page, '"price": 91')
    await button(page, 'Verify in this browser').first().click()
    await shown(page, 'This item is not proven.')
    await shown(page, 'The proof is for content that differs from this page.')
    expect(complaints).toEqual([])
  })

  it('attaches, shows, saves, replaces and deletes files', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'plum' })
    const { page, complaints } = await openPage(node, { at: '#/db/fruit/plum' })
    await shown(page, 'This item has no attachments.')
    const upload = async (name: string, mimeType: string, content: string | Buffer) => {
      await button(page, 'Upload').first().click()
      const buffer = Buffer.from(content)
      await page.getByLabel('File', { exact: true }).setInputFiles({ name, mimeType, buffer })
    }
    const submit = () => page.getByRole('dialog').getByRole('button', { name: 'Upload' }).click()
    await upload('note.txt', 'text/plain', 'ripe')
    await submit()
    await shown(page, 'note.txt was attached.')
    await shown(page, 'text/plain · 4 B')
    await button(page, 'View: note.txt').click()
    await page.locator('.preview').getByText('ripe').waitFor()
    const file = await saved(page, () => button(page, 'Download: note.txt').click())
    expect([file.name, file.text]).toEqual(['note.txt', 'ripe'])

    await upload('dot.png', 'image/png', Buffer.from(PNG, 'base64'))
    await submit()
    await button(page, 'View: dot.png').click()
    const image = page.getByRole('img', { name: 'dot.png' })
    await expect.poll(() => image.evaluate(widthOf)).toBe(1)
    await button(page, 'Delete: dot.png').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await shown(page, 'dot.png was deleted.')

    await upload('note.txt', 'image/svg+xml', '<svg xmlns="http://www.w3.org/2000/svg"/>')
    await shown(page, 'The attachment note.txt exists and will be replaced.')
    await submit()
    await shown(page, 'image/svg+xml')
    // It showed the former content.
    expect(await page.locator('.preview').count()).toBe(0)
    const { attachments } = (await node.send('GET', '/api/fruit/plum/attachments')).json
    expect(attachments).toMatchObject([{ name: 'note.txt', content_type: 'image/svg+xml' }])
    await button(page, 'Delete: note.txt').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await shown(page, 'This item has no attachments.')

    await page.goto(`${node.url}/#/ledger?method=create_attachment`)
    await page.locator('.entry').getByText('note.txt').first().waitFor()
    expect(await page.locator('.block').count()).toBe(3)
    expect(complaints).toEqual([])
  })

  it('keeps a file that the user has chosen while the node fails or the item is deleted', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'plum' })
    const { page } = await openPage(node, { at: '#/db/fruit/plum' })
    await button(page, 'Upload').first().click()
    const buffer = Buffer.from('ripe')
    const file = { name: 'note.txt', mimeType: 'text/plain', buffer }
    await page.getByLabel('File', { exact: true }).setInputFiles(file)
    const failure = { status: 500, json: { status: false, code: 'STORE_FAILED', message: 'x' } }
    const lists = '**/api/fruit/plum/attachments?**'
    await page.route(lists, (route) => route.fulfill(failure))
    await node.send('POST', '/api/fruit/plum', { price: 1 })
    await shown(page, 'STORE_FAILED')
    await page.unroute(lists)
    await node.send('DELETE', '/api/fruit/plum')
    await shown(page, 'This item was deleted')
    const submit = page.getByRole('dialog').getByRole('button', { name: 'Upload' })
    await submit.click()
    await shown(page, 'ITEM_NOT_FOUND')
    await node.send('POST', '/api/fruit', { id: 'plum' })
    await submit.click()
    await shown(page, 'note.txt was attached.')
  })

  it('erases one former revision, then all former revisions, after the user has typed the id', async () => {
    const node = await startNode()
    await node.send('POST', '/api/people')
    for (const name of ['Ann', 'Bea', 'Cid', 'Dot']) {
      await node.send('POST', name === 'Ann' ? '/api/people' : '/api/people/p1', { id: 'p1', name })
    }
    const { page, complaints } = await openPage(node, { at: '#/db/people/p1' })
    const confirm = page.getByRole('dialog').getByRole('button', { name: 'Erase' })
    await page.locator('.revisions').getByRole('button', { name: 'Erase' }).last().click()
    await shown(page, 'Erase entry 1.0?')
    expect(await confirm.isDisabled()).toBe(true)
    await page.getByLabel('Type p1 to confirm').fill('p1')
    await confirm.click()
    await shown(page, '1 revision was erased.')
    await shown(page, 'The content of this revision was erased.')
    await button(page, 'Erase former revisions').click()
    await page.getByLabel('Type p1 to confirm').fill('p1')
    await confirm.click()
    await shown(page, '2 revisions were erased.')
    const { history } = (await node.send('GET', '/api/people/p1/history')).json
    expect(history.map(({ item }: { item?: object }) => item ?? null)).toEqual([
      ...[null, null, null, { id: 'p1', name: 'Dot' }],
    ])

    // The proof of an erased revision covers its commitment instead of its content.
    const oldest = page.locator('.revisions > li').last()
    await oldest.getByText('Proof', { exact: true }).click()
    await oldest.getByRole('button', { name: 'Verify in this browser' }).click()
    await oldest.getByText('the content: it was erased').waitFor()
    expect(complaints).toEqual([])
  })

  it('keeps page, order, conditions and columns in the address, so “back” and “reload” restore them', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    const items = Array.from({ length: 120 }, (_, n) => ({ id: `f${n}`, n, at: { town: 'Oslo' } }))
    await node.send('POST', '/api/fruit', items)
    await node.send('POST', '/api/config/indexes', { db: 'fruit', path: 'n' })
    await until('the index is ready', async () => {
      const { indexes } = (await node.send('GET', '/api/config/indexes')).json
      return indexes[0]?.state === 'ready'
    })
    const { page, complaints } = await openPage(node, { at: '#/db/fruit' })
    const first = page.locator('.items tbody tr').first()
    await button(page, 'Next').click()
    await first.getByText('f50', { exact: true }).waitFor()
    // At first, the columns are members that the items have.
    const heads = page.locator('.items thead th')
    expect(await heads.allTextContents()).toEqual(['Id', 'at.town', 'n', 'Actions'])
    await page.locator('summary', { hasText: 'Columns' }).click()
    await page.getByLabel('n', { exact: true }).uncheck()
    await page.getByLabel('n', { exact: true }).check()
    expect(await heads.allTextContents()).toEqual(['Id', 'at.town', 'n', 'Actions'])
    await page.reload()
    await first.getByText('f50', { exact: true }).waitFor()
    expect(page.url()).toBe(`${node.url}/#/db/fruit?column=at.town&column=n&page=2`)
    // A click on a head sorts, with or without an index.
    await heads.getByRole('button', { name: 'n', exact: true }).click()
    await first.getByText('f0', { exact: true }).waitFor()
    await shown(page, 'Sorted by the index on n.')
    await heads.getByRole('button', { name: 'n', exact: true }).click()
    await first.getByText('f119', { exact: true }).waitFor()
    expect(await heads.nth(2).getAttribute('aria-sort')).toBe('descending')
    await heads.getByRole('button', { name: 'at.town' }).click()
    await shown(page, 'the node reads 120 items for each page.')
    await button(page, 'Index this member: at.town').click()
    await shown(page, 'Sorted by the index on at.town.')
    await page.locator('summary', { hasText: 'Indexes' }).click()
    await button(page, 'Remove: at.town').click()
    await shown(page, 'The index on at.town was removed.')
    for (let back = 0; back < 3; back += 1) await page.goBack()
    await first.getByText('f50', { exact: true }).waitFor()
    await button(page, 'Last').click()
    await first.getByText('f100', { exact: true }).waitFor()
    await page.getByLabel('Page 3 of 3').fill('2')
    await button(page, 'Go').click()
    await first.getByText('f50', { exact: true }).waitFor()

    await page.getByText('Filter', { exact: true }).click()
    await page.getByLabel('Member').first().fill('n')
    expect(await page.getByLabel('Type').inputValue()).toBe('number')
    await page.getByLabel('Value', { exact: true }).fill('7')
    await button(page, 'Add condition').click()
    await page.getByLabel('Member').nth(1).fill('at.town')
    await page.getByLabel('Value', { exact: true }).nth(1).fill('Oslo')
    await button(page, 'Show').click()
    await first.getByText('f7', { exact: true }).waitFor()
    await page.reload()
    await first.getByText('f7', { exact: true }).waitFor()
    const values = await page.getByLabel('Value', { exact: true }).all()
    expect(await Promise.all(values.map((field) => field.inputValue()))).toEqual(['7', 'Oslo'])
    await button(page, 'JSON').click()
    expect(await page.getByLabel('Filter as JSON').inputValue()).toBe(
      '{"and":[{"n":{"eq":7}},{"at.town":{"eq":"Oslo"}}]}',
    )
    const csv = await saved(page, () => button(page, 'Save as CSV').click())
    expect([csv.name, csv.text]).toEqual(['fruit.csv', 'id,at.town,n\r\nf7,Oslo,7\r\n'])
    const ndjson = await saved(page, () => button(page, 'Save as NDJSON').click())
    expect(ndjson.text).toBe('{"at":{"town":"Oslo"},"id":"f7","n":7}\n')

    // “Back” also restores the scroll position.
    await button(page, 'Clear').click()
    await page.getByText('f49', { exact: true }).scrollIntoViewIfNeeded()
    await page.getByText('f49', { exact: true }).click()
    await heading(page, 'f49')
    await page.goBack()
    await until('the page scrolls', async () => Number(await page.evaluate('scrollY')) > 200)
    await page.goBack()
    await first.getByText('f7', { exact: true }).waitFor()

    await page.getByLabel('Go to an id').fill('f99')
    await button(page, 'Open').click()
    await heading(page, 'f99')
    await page.goBack()
    await first.getByText('f7', { exact: true }).waitFor()
    await page.goto(`${node.url}/#/ledger/9?method=create_db`)
    await page.reload()
    expect(await page.getByLabel('Height').inputValue()).toBe('9')
    expect(await page.getByLabel('Method').inputValue()).toBe('create_db')
    await page.goto(`${node.url}/#/ledger/9`)
    await shown(page, 'There is no block 9. The newest block has the height 1.')
    await page.goto(`${node.url}/#/ledgers`)
    await heading(page, 'There is no such page')
    expect(complaints).toEqual([])
  })

  it('changes, exports and deletes many items: those of the page, and all that match', async () => {
    const node = await startNode()
    await node.send('POST', '/api/stock')
    const items = Array.from({ length: 120 }, (_, n) => ({ id: `s${n}`, kind: n % 2 ? 'a' : 'é' }))
    await node.send('POST', '/api/stock', items)
    const { page, complaints } = await openPage(node, { at: '#/db/stock' })
    await page.getByLabel('Select: s1', { exact: true }).check()
    await button(page, 'Select this page').click()
    await shown(page, '50 selected')
    await button(page, 'Select all matches (120)').click()
    await button(page, 'Change a member').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Member').fill('id')
    await dialog.getByLabel('Value', { exact: true }).fill('é')
    expect(await dialog.getByRole('button', { name: 'Change' }).isDisabled()).toBe(true)
    await dialog.getByLabel('Member').fill('"a.b".c')
    await shown(page, '120 of 120 items will change: {"a.b":{"c":"é"}}')
    await dialog.getByLabel('Member').fill('kind')
    await dialog.getByText('60 of 120 items will change:').waitFor()
    await dialog.getByLabel('Reason').fill('tidied')
    await expectAccessible(page, 'change-many')
    await node.send('DELETE', '/api/stock/s1')
    await page.route('**/api/ledgers', (route) => {
      // An item is deleted after the page has read its id.
      const text = route.request().postData() ?? ''
      return route.continue({ postData: text.replace('"s3"', '"gone"') })
    })
    await dialog.getByRole('button', { name: 'Change' }).click()
    await shown(page, '58 items were changed, 1 refused.')
    await shown(page, 'there is no item gone in stock')
    await page.unroute('**/api/ledgers')
    await button(page, 'Hide').click()
    const last = (await node.send('GET', '/api/stock/s119/history')).json.history.at(-1)
    expect(last).toMatchObject({ method: 'update_item', reason: 'tidied', item: { kind: 'é' } })
    // Another page does not end an export.
    const held = Promise.withResolvers<void>()
    const lists = '**/api/stock?limit=1000&docs=true**'
    await page.route(lists, (route) => held.promise.then(() => route.continue()))
    const csv = await saved(page, async () => {
      await button(page, 'Save as CSV').click()
      await button(page, 'Next').click()
      await page.getByLabel('Select: s60', { exact: true }).waitFor()
      held.resolve()
    })
    await button(page, 'Previous').click()
    expect([csv.text.slice(0, 10), csv.text.split('\r\n').length]).toEqual([
      '\ufeffid,kind\r\n',
      121,
    ])
    await page.getByLabel('Select: s0', { exact: true }).check()
    await page.getByLabel('Select: s2', { exact: true }).check()
    await button(page, 'Delete selected').click()
    await page.getByLabel('Type stock to confirm').fill('stock')
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await shown(page, '2 items were deleted, 0 not.')
    await shown(page, '117 items')
    expect((await node.send('GET', '/api/stock?limit=2')).json.items).toEqual(['s3', 's4'])
    // The number of matches of other conditions is not shown, and not what is selected.
    const at = (where: object) =>
      page.goto(`${node.url}/#/db/stock?where=${encodeURIComponent(JSON.stringify(where))}`)
    await at({ id: 's3' })
    await button(page, 'Select all matches (1)').waitFor()
    const counted = Promise.withResolvers<void>()
    await page.route('**/api/stock?limit=1&count=true**', (route) =>
      counted.promise.then(() => route.continue()),
    )
    await at({ kind: 'é' })
    await page.getByLabel('Select: s4', { exact: true }).waitFor()
    expect(await page.getByText('Select all matches').count()).toBe(0)
    counted.resolve()
    await button(page, 'Select all matches (116)').waitFor()
    // All that were deleted are in one block.
    const { ledgers } = (await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`))
      .json
    expect(ledgers.at(-1).body.map(({ method }: { method: string }) => method)).toEqual([
      ...['delete_item', 'delete_item'],
    ])
    expect(complaints).toEqual([])
  })

  it('imports a dropped file with the rules of the loader, and the refused lines after their correction', async () => {
    const node = await startNode()
    await node.send('POST', '/api/stock')
    await node.send('POST', '/api/stock', { id: 'old', n: 0 })
    const { page, complaints } = await openPage(node, { at: '#/db/stock' })
    await heading(page, 'stock')
    const rows = Array.from({ length: 1_200 }, (_, n) => `s${n},${n},"名 ${n}\r\nx"`)
    const lines = ['id,n:number,name', ...rows, 'old,1,x', 'bad,x,y', '/,2,z']
    await page.evaluate(`(() => {
      const text = new DataTransfer()
      text.setData('text/plain', 'x')
      dispatchEvent(new DragEvent('drop', { dataTransfer: text, cancelable: true }))
    })()`)
    expect(await page.locator('.import').count()).toBe(0)
    await page.evaluate(`(() => {
      const dataTransfer = new DataTransfer()
      dataTransfer.items.add(new File([${JSON.stringify(lines.join('\r\n'))}], 'stock.csv'))
      dataTransfer.items.add(new File(['id'], 'other.csv'))
      dispatchEvent(new DragEvent('drop', { dataTransfer, cancelable: true }))
    })()`)
    await shown(page, 'stock.csv')
    await shown(page, 'Only the first of the dropped files is imported.')
    await page.locator('.import').getByRole('button', { name: 'Import', exact: true }).click()
    await shown(page, '1,200 items were added, 0 replaced, 0 left out, 3 refused.')
    await shown(page, 'Line 2,403: column n: "x" is not a number')
    await expectAccessible(page, 'import')
    const field = page.getByLabel('The refused lines, to correct')
    expect(await field.inputValue()).toBe('id,n:number,name\nold,1,x\nbad,x,y\n/,2,z')
    await field.fill('id,n:number,name\nold,1,x\nbad,3,y\nslash,2,z')
    await page.getByLabel('If an id exists').selectOption('replace')
    // The corrected lines stay while nothing can be recorded, and are of the kind of their file, whatever is chosen next.
    const refuse = { status: 403, json: { status: false, code: 'SCOPE_MISSING', message: 'no' } }
    await page.route('**/api/ledgers', (route) => route.fulfill(refuse))
    await button(page, 'Import these lines').click()
    await shown(page, 'SCOPE_MISSING')
    await page.unroute('**/api/ledgers')
    expect(await field.inputValue()).toContain('slash,2,z')
    const path = join(temporaryFolder(), 'next.json')
    writeFileSync(path, '{}')
    await page.locator('.import input[type=file]').setInputFiles(path)
    writeFileSync(path, 'changed')
    await page.locator('.import').getByRole('button', { name: 'Import', exact: true }).click()
    await shown(page, 'The file cannot be read')
    let asked = ''
    page.once('dialog', (dialog) => {
      asked = dialog.message()
      void dialog.dismiss()
    })
    await page.locator('.import').getByRole('button', { name: 'Close' }).click()
    expect(asked).toBe('Your changes are not saved. Leave them?')
    await button(page, 'Import these lines').click()
    await shown(page, '2 items were added, 1 replaced, 0 left out, 0 refused.')
    await shown(page, '1,203 items')
    expect((await node.send('GET', '/api/stock/old')).json.item).toEqual({
      ...{ id: 'old', n: 1, name: 'x' },
    })
    expect((await node.send('GET', '/api/stock/s7')).json.item.name).toBe('名 7\r\nx')
    expect(complaints).toEqual([])
  })

  it('counts the items of each database, and summarizes items in groups of one or two members', async () => {
    const node = await startNode()
    await node.send('POST', '/api/empty')
    await node.send('POST', '/api/stock')
    await node.send('POST', '/api/stock', [
      { id: '1', kind: 'pear', town: 'Oslo', qty: 2 },
      { id: '2', kind: 'pear', town: 'Rome', qty: 3 },
      { id: '3', kind: 'plum', town: 'Rome', qty: 1_000 },
      { id: '4', kind: 'pear', town: 'Rome', qty: 6 },
    ])
    const { page, complaints } = await openPage(node)
    const counts = page.locator('.rows li .soft')
    await counts.nth(1).waitFor()
    expect(await counts.allTextContents()).toEqual(['0 items', '4 items'])

    await page.getByRole('link', { name: 'stock' }).click()
    await page.locator('summary', { hasText: 'Summary' }).click()
    await page.getByLabel('Values of').selectOption('qty')
    const expectTable = (...expected: string[][]) =>
      expect
        .poll(async () => {
          const rows = await page.locator('.summary tr').all()
          return Promise.all(rows.map((row) => row.locator('th, td').allTextContents()))
        })
        .toEqual(expected)
    const values = ['Count', 'Sum', 'Average', 'Smallest', 'Largest']
    await expectTable(values, ['4', '1,011', '252.75', '2', '1,000'])
    await page.getByLabel('Group by').selectOption('kind')
    await page.getByLabel('Then by').selectOption('town')
    await expectTable(
      ['kind', 'town', ...values],
      ['pear', 'Oslo', '1', '2', '2', '2', '2'],
      ['pear', 'Rome', '2', '9', '4.5', '3', '6'],
      ['plum', 'Rome', '1', '1,000', '1,000', '1,000', '1,000'],
    )
    await expectAccessible(page, 'summary-of-two-members')
    await page.getByLabel('Then by').selectOption('kind')
    await page.getByLabel('Values of').selectOption('none')
    await expectTable(['kind', 'Count'], ['pear', '3'], ['plum', '1'])
    expect(complaints).toEqual([])
  })

  it('copies an item as JSON, and the shown items as a table', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    const item = { id: 'plum', code: '5', day: '2026-11-26', price: 90 }
    await node.send('POST', '/api/fruit', item)
    const { page, complaints } = await openPage(node, {
      at: '#/db/fruit',
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    const clipboard = () => page.evaluate<string>('navigator.clipboard.readText()')
    // A string that looks like a number has quotes; a date has none.
    const cells = page.locator('.items tbody td')
    await cells.nth(3).waitFor()
    expect(await cells.allTextContents()).toEqual(['"5"', '2026-11-26', '90', 'Delete'])
    await button(page, 'Copy: Table').click()
    await shown(page, 'Copied')
    expect(await clipboard()).toBe('id\tcode\tday\tprice\r\nplum\t5\t2026-11-26\t90\r\n')
    await page.getByRole('link', { name: 'plum' }).click()
    await button(page, 'Copy: JSON of the item').click()
    await shown(page, 'Copied')
    expect(JSON.parse(await clipboard())).toEqual(item)
    expect(complaints).toEqual([])
  })

  it('shows markup as text and hidden characters as escapes, in names, ids, values and titles', async () => {
    const node = await startNode()
    const hostile: readonly (readonly [name: string, shown: string])[] = [
      [
        '<script>document.title="owned"<\u2215script><img src=x onerror=alert(1)>',
        '<script>document.title="owned"<\\u{2215}script><img src=x onerror=alert(1)>',
      ],
      ['р\u0430ypal', '\\u{440}\\u{430}ypal'],
      ['оса', ''],
      ['a\u202elive', 'a\\u{202e}live'],
      ['zero\u200bwidth', 'zero\\u{200b}width'],
      [' outer  spaces\u00a0', '\\u{20}outer \\u{20}spaces\\u{a0}'],
      ['שלום 12', '\u2067שלום\u2069 12'],
      ['a.b', ''],
    ]
    for (const [name] of hostile) await node.send('POST', `/api/${encodeURIComponent(name)}`)
    const items = hostile.map(([id]) => ({ id, [id]: id }))
    expect((await node.send('POST', '/api/a.b', items)).status).toBe(200)
    const { page, complaints } = await openPage(node, { permissions: ['clipboard-read'] })
    let dialogs = 0
    page.on('dialog', (dialog) => {
      dialogs += 1
      void dialog.dismiss()
    })
    const views = ['#/', '#/db/a.b', '#/db/a.b?json=true', '#/ledger']
    for (const at of views) {
      await page.goto(`${node.url}/${at}`)
      await page.getByRole('link', { name: 'a.b', exact: true }).first().waitFor()
      const text = await page.locator('main').innerText()
      for (const [name, shown] of hostile) expect(text).toContain(shown || name)
      expect(text).not.toMatch(/[\u202e\u200b\u00a0]/)
      expect(await page.locator('#app script, #app img:not([alt=""])').count()).toBe(0)
    }
    for (const [id, shown] of hostile) {
      await page.goto(`${node.url}/#/db/a.b/${encodeURIComponent(id)}`)
      await page.getByRole('heading', { level: 1, name: shown || id, exact: true }).waitFor()
      await expect.poll(() => page.title()).toBe(`${shown || id} · daicho`)
      await button(page, 'Delete').click()
      const dialog = page.getByRole('dialog').getByRole('heading')
      expect(await dialog.textContent()).toBe(`Delete the item ${shown || id}?`)
      await page.keyboard.press('Escape')
    }
    // The editor shows the same characters, and a form would drop the line break.
    await node.send('POST', '/api/a.b', { id: 'mixed', text: 'р\u0430ypal\nоса' })
    await page.goto(`${node.url}/#/db/a.b/mixed`)
    await button(page, 'Edit').click()
    const escapes = page.locator('.cm-specialChar')
    await expect.poll(() => escapes.allTextContents()).toEqual(['\\u0440', '\\u0430'])
    expect(await button(page, 'Form').isDisabled()).toBe(true)
    await button(page, 'Cancel').click()
    // The clipboard gets the original, and the shown form is enough to confirm.
    await page.goto(`${node.url}/#/`)
    await page.getByRole('link', { name: 'a\\u{202e}live' }).selectText()
    await page.keyboard.press('Control+C')
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe('a\u202elive')
    await button(page, 'Delete: a\\u{202e}live').click()
    await page.getByLabel('Type a\\u{202e}live to confirm').fill('a\\u{202e}live')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await shown(page, 'Database a\\u{202e}live was deleted.')
    expect([dialogs, complaints]).toEqual([0, []])
  })

  it('offers every function by keyboard', async () => {
    const node = await startNode()
    await node.send('POST', '/api/fruit')
    const { page, complaints } = await openPage(node)
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.className')).toBe('skip')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.keyboard.type('veg')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect((await node.send('GET', '/api/dbs')).json.dbs).toEqual(['fruit'])
    await page.keyboard.press('Enter')
    await page.keyboard.type('veg')
    await page.keyboard.press('Enter')
    await heading(page, 'veg')
    // Waits outside of the page: a condition inside the page needs eval, which the page's policy forbids.
    await page.locator('main:focus').waitFor()
    expect(complaints).toEqual([])
  })
})

describe('the page itself', () => {
  it('uses the language of the browser, English or Japanese, and remembers a chosen language', async () => {
    const node = await startNode()
    const { page, complaints } = await openPage(node, { locale: 'ja-JP' })
    await heading(page, 'データベース')
    expect(await page.getAttribute('html', 'lang')).toBe('ja')
    await page.getByLabel('言語').selectOption('en')
    await heading(page, 'Databases')
    await page.reload()
    await heading(page, 'Databases')
    expect(await page.getAttribute('html', 'lang')).toBe('en')
    expect(complaints).toEqual([])
  })

  it.each([
    ['en-GB', '23 Nov 2026, 21:00:00 GMT+9', '1,234,500'],
    ['de-DE', '23. Nov. 2026, 21:00:00 GMT+9', '1.234.500'],
  ])(
    'shows dates and numbers in the locale of the browser, %s, and in its time zone',
    async (locale, date, sum) => {
      const node = await startNode({ clock: new HandClock(Date.parse('2026-11-23T12:00:00Z')) })
      await node.send('POST', '/api/fruit')
      await node.send('POST', '/api/fruit', { id: 'plum', n: 1_234_500 })
      const { page, complaints } = await openPage(node, { locale, timezoneId: 'Asia/Tokyo' })
      await heading(page, 'Databases')
      await page.goto(`${node.url}/#/db/fruit`)
      await page.locator('summary', { hasText: 'Summary' }).click()
      await page.getByLabel('Values of').selectOption('n')
      await page.locator('.summary').getByText(sum).first().waitFor()
      await page.goto(`${node.url}/#/node`)
      await page.locator('.facts time', { hasText: date }).waitFor()
      const axis = page.locator('.chart-axis').first().locator('span')
      await axis.first().waitFor()
      expect(await axis.allTextContents()).toEqual(['21:00', '21:05', '21:10 GMT+9'])
      // A choice of another language changes no dates.
      await page.getByLabel('Language').selectOption('ja')
      await heading(page, 'ノード')
      await page.locator('.facts time', { hasText: date }).waitFor()
      expect(complaints).toEqual([])
    },
  )

  it('works when tokens are required, even after its token has expired', async () => {
    const clock = new HandClock(Date.now())
    const tokens = await openTokens({ clock, folder: null, secret: null })
    const node = await startNode({ clock, tokens })
    const { page, complaints } = await openPage(node)
    await shown(page, 'There is no database yet')
    const sessions: string[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/session')) sessions.push(request.method())
      expect(request.url()).not.toContain('token')
    })
    // Advances the node's clock, so that the page's token expires.
    clock.time += 16 * 60_000
    await button(page, 'New database').click()
    await page.getByLabel('Name').fill('fruit')
    await button(page, 'Create').click()
    await heading(page, 'fruit')
    expect(sessions).toContain('POST')
    await page.goto(`${node.url}/#/verify`)
    await button(page, 'Verify the chain').click()
    await shown(page, 'The chain is valid.')
    expect(complaints).toEqual([])
  })

  it('shows that the session has expired, and that the node does not answer', async () => {
    const clock = new HandClock(Date.now())
    const tokens = await openTokens({ clock, folder: null, secret: null })
    const node = await startNode({ clock, tokens })
    const { page } = await openPage(node)
    await page.route('**/api/**', (route) => route.abort())
    await page.getByRole('link', { name: 'Ledger', exact: true }).click()
    await shown(page, 'The node does not answer.')
    await page.unroute('**/api/**')
    await page.getByRole('link', { name: 'Node', exact: true }).click()
    await shown(page, 'Verifier key')
    await page.getByText('The node does not answer.').waitFor({ state: 'detached' })

    await page.route('**/session', (route) =>
      route.fulfill({ status: 401, json: { status: false, code: 'CREDENTIALS_NEEDED' } }),
    )
    clock.time += 16 * 60_000
    await page.getByRole('link', { name: 'Databases', exact: true }).click()
    await shown(page, 'Your session has ended.')
    await page.unroute('**/session')
    await button(page, 'Sign in again').click()
    await shown(page, 'There is no database yet')
  })

  it('rejects changes from a page of another origin, and accepts them from its own page', async () => {
    const lines: string[] = []
    const node = await startNode({ log: (line) => lines.push(line) })
    /** Browser code that sends every kind of request that a page can send, and resolves to the outcome of each. */
    const attack = `(async () => {
      const results = []
      const json = { body: '{"id":"a"}', headers: { 'content-type': 'application/json' } }
      const calls = [
        ['POST', '/api/evil'], ['POST', '/api/fruit', json], ['POST', '/session'], ['GET', '/'],
        ['DELETE', '/api/fruit/plum'],
      ]
      for (const mode of ['cors', 'no-cors']) {
        for (const [method, path, more] of calls) {
          const init = { method, mode, credentials: 'include', ...more }
          results.push(await fetch(${JSON.stringify(node.url)} + path, init).then(
            (reply) => reply.status, () => 'failed'))
        }
      }
      return results
    })()`
    /** Submits the form of `page` to the node, as if a user had pressed a button on a malicious page. */
    const sendForm = async (page: Page, path: string) => {
      await page.evaluate(`document.forms[0].action = ${JSON.stringify(node.url + path)}`)
      await Promise.all([
        page.waitForNavigation().catch(() => {}),
        page.evaluate('document.forms[0].submit()'),
      ])
    }
    const stored = async () => [
      (await node.send('GET', '/api/dbs')).json.dbs,
      (await node.send('GET', '/api/fruit')).json.items,
    ]
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'plum' })
    const before = [['fruit'], ['plum']]

    // Signs in first, because the attack is possible only with stored credentials.
    const { page } = await openPage(node)
    const context = page.context()
    const openAt = async (url: string) => {
      const opened = await context.newPage()
      await opened.goto(url)
      return opened
    }
    // Serves the malicious page from a listener of its own. A page without a URL would have an opaque origin, and
    // browsers block all requests from opaque origins to this computer.
    const elsewhere = createServer((_request, reply) => {
      reply.setHeader('content-type', 'text/html').end(LURE)
    })
    onTestFinished(() => {
      elsewhere.close()
    })
    elsewhere.listen(0, '127.0.0.1')
    await once(elsewhere, 'listening')
    const { port } = elsewhere.address() as AddressInfo
    // These pages have no Content-Security-Policy, so only the node's own checks protect it.
    for (const host of ['127.0.0.1', 'evil.localhost']) {
      lines.length = 0
      const evil = await openAt(`http://${host}:${port}/`)
      const results = await evil.evaluate<unknown[]>(attack)
      expect(results.filter((status) => status !== 'failed' && status !== 0)).toEqual([])
      await sendForm(evil, '/api/form')
      expect(await stored()).toEqual(before)
      // Checks that the requests reached the node, which rejected them.
      const refused = lines.filter((line) => line.includes('"status":403'))
      expect(refused.filter((line) => line.includes('"/api/evil"')).length).toBeGreaterThan(0)
      expect(refused.filter((line) => line.includes('"/api/form"')).length).toBeGreaterThan(0)
      await evil.close()
    }

    await context.route(`${node.url}/lure`, (route) =>
      route.fulfill({ contentType: 'text/html', body: LURE }),
    )
    const own = await openAt(`${node.url}/lure`)
    const results = await own.evaluate<unknown[]>(attack)
    expect(results.slice(0, 5)).toEqual([200, 200, 200, 200, 200])
    expect(await stored()).toEqual([['fruit', 'evil'], ['a']])
    await sendForm(own, '/api/form')
    expect(await stored()).toEqual([['fruit', 'evil', 'form'], ['a']])
  })
})
