import { utimesSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page, Route } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Listener } from '../../src/http/index.ts'
import { readWithSheetJs } from '../converter/readers.ts'
import { startConverter } from '../converter/service.ts'
import { launchBrowser } from '../support/browser.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

let browser: Browser
let converter: Listener
let picture: Buffer
beforeAll(async () => {
  converter = await startConverter()
  browser = await launchBrowser()
  const raw = Buffer.from(Array.from({ length: 30 * 20 * 3 }, (_, at) => (at * 13) & 255))
  picture = await sharp(raw, { raw: { width: 30, height: 20, channels: 3 } })
    .png()
    .toBuffer()
})
afterAll(async () => {
  await browser.close()
  await converter.close()
})

/** Opens a new page. `complaints` receives its errors and its requests to other hosts. */
async function open(): Promise<{ page: Page; complaints: string[] }> {
  const page = await browser.newPage({ acceptDownloads: true, locale: 'en' })
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (line) => {
    if (line.type() === 'error' && !line.text().includes('415')) complaints.push(line.text())
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(converter.url) && !request.url().startsWith('blob:')) {
      complaints.push(`fetched ${request.url()}`)
    }
  })
  await page.goto(`${converter.url}/page`)
  return { page, complaints }
}

it('says that a file was changed since it was chosen', async () => {
  const path = join(temporaryFolder(), 'a.png')
  writeFileSync(path, picture)
  // The browser compares the times of a file by seconds.
  utimesSync(path, 1e9, 1e9)
  const { page } = await open()
  await page.setInputFiles('#file', path)
  await page.locator('#facts').waitFor({ state: 'visible' })
  writeFileSync(path, 'other')
  await page.click('#convert')
  const message = page.locator('#message', { hasText: 'The file cannot be read' })
  await message.waitFor()
  await page.selectOption('[name=resample]', 'nearest')
  await page.locator('#canvas').waitFor({ state: 'hidden' })
  await message.waitFor()
})

it('shows a chosen image as cells, counts its colours and downloads the workbook', async () => {
  const { page, complaints } = await open()
  const name = 'two.dots <b>&写.png'
  await page.setInputFiles('#file', {
    name: '\u202egnp.png',
    mimeType: 'image/png',
    buffer: picture,
  })
  await page.locator('#facts').waitFor({ state: 'visible' })
  expect(await page.textContent('#file-name')).toBe('\\u{202e}gnp.png')
  await page.setInputFiles('#file', { name, mimeType: 'image/png', buffer: picture })
  expect(await page.textContent('#file-name')).toBe(name)
  expect(await page.textContent('#grid')).toBe('100 × 66')
  expect(await page.textContent('#cells')).toBe('6,600')
  expect(await page.textContent('#screen')).toBe('200 × 132 px')

  await page.fill('[name=width]', '30')
  await page.selectOption('[name=resample]', 'nearest')
  await page.locator('#grid', { hasText: /^30 × 20$/ }).waitFor()
  const shown = await page.evaluate<number[]>(
    `(() => {
      const canvas = document.getElementById('canvas')
      return [...canvas.getContext('2d').getImageData(0, 0, 30, 20).data]
    })()`,
  )
  const { data } = await sharp(picture).raw().toBuffer({ resolveWithObject: true })
  const seen = shown.filter((_, at) => at % 4 !== 3)
  expect(seen).toEqual([...data])

  const downloading = page.waitForEvent('download')
  await page.click('#convert')
  const download = await downloading
  expect(download.suggestedFilename()).toMatch(/^two\.dots .*写\.xlsx$/)
  const book = readWithSheetJs(await readFile(await download.path()))
  expect(book.used).toBe('A1:AD20')
  expect(book.sheets).toEqual([name])
  await page.locator('#message.good').waitFor()
  expect(await page.isHidden('#progress')).toBe(true)
  expect(complaints).toEqual([])
  await page.close()
})

it('reports a file that is not an image, and accepts the next image', async () => {
  const { page, complaints } = await open()
  const text = { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') }
  await page.setInputFiles('#file', text)
  await page.locator('#message.bad').waitFor()
  expect(await page.textContent('#message')).toContain('JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP')
  expect(await page.isHidden('#facts')).toBe(true)
  await page.setInputFiles('#file', { name: 'a.png', mimeType: 'image/png', buffer: picture })
  await page.locator('#facts').waitFor({ state: 'visible' })
  expect(await page.textContent('#message')).toBe('')
  expect(complaints).toEqual([])
  await page.close()
})

it('accepts a dropped or pasted picture, and does not send a picture that is too large', async () => {
  const { page, complaints } = await open()
  /** Dispatches the event `kind` on the page, with a file called `name` or without a file. */
  const happen = (kind: string, name?: string) =>
    page.evaluate(
      `(() => {
        const dataTransfer = new DataTransfer()
        const bytes = Uint8Array.from(${JSON.stringify([...picture])})
        const name = ${JSON.stringify(name ?? null)}
        if (name !== null) dataTransfer.items.add(new File([bytes], name, { type: 'image/png' }))
        document.dispatchEvent('${kind}' === 'paste'
          ? new ClipboardEvent('paste', { clipboardData: dataTransfer })
          : new DragEvent('${kind}', { dataTransfer, cancelable: true }))
      })()`,
    )
  const isOver = () => page.locator('#drop.over').count()
  await happen('dragenter')
  expect(await isOver()).toBe(1)
  await happen('dragleave')
  expect(await isOver()).toBe(0)
  await happen('dragover')
  expect(await isOver()).toBe(1)
  await happen('drop', 'dropped.png')
  await page.locator('#facts').waitFor({ state: 'visible' })
  expect([await isOver(), await page.textContent('#file-name')]).toEqual([0, 'dropped.png'])
  await happen('paste', 'pasted.png')
  expect(await page.textContent('#file-name')).toBe('pasted.png')
  // Dropped or pasted text is not a picture, so the page does not change.
  await happen('drop')
  await happen('paste')
  expect(await page.textContent('#file-name')).toBe('pasted.png')

  await page.selectOption('[name=colors]', '256')
  await page.locator('#colors', { hasText: /^256 \/ [\d,]+$/ }).waitFor()
  const buffer = Buffer.alloc(10 * 1024 * 1024 + 1)
  await page.setInputFiles('#file', { name: 'long.png', mimeType: 'image/png', buffer })
  expect(await page.textContent('#message')).toBe('This file is 10.5 MB; the maximum is 10 MiB.')
  expect(await page.isHidden('#facts')).toBe(true)
  expect(complaints).toEqual([])
  await page.close()
})

it('reports an unreachable service, an error status, a broken connection and a cancellation', async () => {
  const { page } = await open()
  const waitForMessage = (text: string) => page.locator('#message', { hasText: text }).waitFor()
  await page.route('**/preview', (route) => route.abort())
  await page.setInputFiles('#file', { name: 'a.png', mimeType: 'image/png', buffer: picture })
  await waitForMessage('The service cannot be reached.')
  await page.unroute('**/preview')
  await page.fill('[name=width]', '30')
  await page.locator('#facts').waitFor({ state: 'visible' })
  const outcomes: [(route: Route) => unknown, string][] = [
    [(route) => route.fulfill({ status: 503, json: { message: 'come again' } }), 'Come again.'],
    [
      (route) => route.fulfill({ status: 502, body: '<html>' }),
      'The service replied with status 502.',
    ],
    [(route) => route.abort(), 'The connection was interrupted; nothing was saved.'],
    [() => page.click('#cancel'), 'Cancelled.'],
  ]
  for (const [answer, text] of outcomes) {
    await page.route('**/image', (route) => void answer(route))
    await page.click('#convert')
    await waitForMessage(text)
    expect([await page.isHidden('#progress'), await page.isEnabled('#convert')]).toEqual([
      true,
      true,
    ])
    await page.unroute('**/image')
  }
  await page.close()
})

it('links to its documentation, and the documentation links back to it', async () => {
  const page = await browser.newPage({ locale: 'en' })
  await page.goto(converter.url)
  await page.getByRole('link', { name: 'Image to spreadsheet', exact: true }).click()
  await page.locator('#drop').waitFor()
  await page.getByRole('link', { name: 'API', exact: true }).click()
  await page.locator('.opblock-summary-path[data-path="/image"]').waitFor()
  await page.close()
})
