import { existsSync } from 'node:fs'
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

/** The browser to test with: the one named, the system's, or the one that npm installed. */
async function browserPath(): Promise<string> {
  const named = process.env.CHROMIUM
  if (named !== undefined && named !== '') return named
  if (existsSync('/usr/bin/chromium')) return '/usr/bin/chromium'
  // Makes the package bring its own copies of libraries that the system may lack.
  process.env.AWS_EXECUTION_ENV ??= 'AWS_Lambda_nodejs22.x'
  const { default: packaged } = await import('@sparticuz/chromium')
  return packaged.executablePath()
}

/** Starts a browser without a window; the caller closes it. */
export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await browserPath(), args: FLAGS })
}
