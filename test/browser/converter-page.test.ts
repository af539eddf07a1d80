import { readFile } from 'node:fs/promises'
import type { Browser, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Listener } from '../../src/http/index.ts'
import { readWithSheetJs } from '../converter/readers.ts'
import { startConverter } from '../converter/service.ts'
import { launchBrowser } from '../support/browser.ts'

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

/** A fresh page, and everything that it complained of or fetched from elsewhere. */
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

it('an image that is chosen is shown as its cells, counted, and downloaded as the workbook', async () => {
  const { page, complaints } = await open()
  const name = 'two.dots <b>&写.png'
  await page.setInputFiles('#file', { name, mimeType: 'image/png', buffer: picture })
  await page.locator('#facts').waitFor({ state: 'visible' })
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

it('what is no image is refused in words, and the next image is taken', async () => {
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

it('the documentation at the root leads to the page, and back', async () => {
  const page = await browser.newPage({ locale: 'en' })
  await page.goto(converter.url)
  await page.getByRole('link', { name: 'Image to spreadsheet', exact: true }).click()
  await page.locator('#drop').waitFor()
  await page.getByRole('link', { name: 'API', exact: true }).click()
  await page.locator('.opblock-summary-path[data-path="/image"]').waitFor()
  await page.close()
})
