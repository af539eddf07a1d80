import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** The browser to test with: the configured browser, the system's, or the browser that npm installed. */
async function browserPath(): Promise<string> {
  const named = process.env.CHROMIUM
  if (named !== undefined && named !== '') return named
  return existsSync('/usr/bin/chromium') ? '/usr/bin/chromium' : packagedBrowser()
}

/**
 * The browser installed by npm, unpacked once. It is unpacked into a temporary folder and then moved, the executable
 * last: several tests start concurrently, and none may start an incomplete browser.
 */
async function packagedBrowser(): Promise<string> {
  // Makes the package unpack its copies of libraries that the system may lack.
  process.env.AWS_EXECUTION_ENV ??= 'AWS_Lambda_nodejs22.x'
  const home = process.env.BROWSER_HOME ?? tmpdir()
  const { TMPDIR = tmpdir() } = process.env
  try {
    // The package searches its libraries, and unpacks itself, in the folder for temporary files.
    process.env.TMPDIR = home
    const { default: packaged } = await import('@sparticuz/chromium')
    const path = join(home, 'chromium')
    if (existsSync(path)) return path
    const aside = mkdtempSync(join(home, 'daicho-browser-'))
    process.env.TMPDIR = aside
    await packaged.executablePath()
    takeFrom(aside, home)
    return path
  } finally {
    process.env.TMPDIR = TMPDIR
  }
}

/** Moves all files from `aside` to `home`, the browser last. */
function takeFrom(aside: string, home: string): void {
  const names = readdirSync(aside).filter((name) => name !== 'chromium')
  for (const name of [...names, 'chromium']) {
    if (!existsSync(join(home, name))) moved(join(aside, name), join(home, name))
  }
  rmSync(aside, { recursive: true, force: true })
}

function moved(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // Another test was first; its files are complete.
    if (!existsSync(to)) throw error
  }
}

/** Starts a headless browser; the caller closes it. */
export async function launchBrowser(): Promise<Browser> {
  // The browser encodes names of saved files by its locale.
  const env = { ...process.env, LANG: 'C.UTF-8' }
  return chromium.launch({ executablePath: await browserPath(), args: FLAGS, env })
}
