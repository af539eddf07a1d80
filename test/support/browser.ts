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

/**
 * Returns the path of the browser: the configured browser, a browser of the system, or the browser that npm
 * installed.
 */
async function browserPath(): Promise<string> {
  const named = process.env.CHROMIUM
  if (named !== undefined && named !== '') return named
  return existsSync('/usr/bin/chromium') ? '/usr/bin/chromium' : packagedBrowser()
}

/**
 * Returns the path of the browser that npm installed. The first call unpacks it into a temporary folder, then
 * moves the files to `home`. The executable is moved last, because concurrent tests start the browser as soon as
 * the executable exists.
 */
async function packagedBrowser(): Promise<string> {
  // This variable makes the package unpack its copies of libraries that the system may lack.
  process.env.AWS_EXECUTION_ENV ??= 'AWS_Lambda_nodejs22.x'
  const home = process.env.BROWSER_HOME ?? tmpdir()
  const { TMPDIR = tmpdir() } = process.env
  try {
    // The package unpacks itself, and looks for its libraries, in the folder for temporary files.
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

/** Moves all files from `aside` to `home`, and the browser last. */
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
    // Ignored if another test has already moved the file.
    if (!existsSync(to)) throw error
  }
}

/** Starts a headless browser, which the caller closes. */
export async function launchBrowser(): Promise<Browser> {
  // The locale determines how the browser encodes the names of saved files.
  const env = { ...process.env, LANG: 'C.UTF-8' }
  return chromium.launch({ executablePath: await browserPath(), args: FLAGS, env })
}
