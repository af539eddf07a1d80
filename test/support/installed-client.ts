import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { buildClient } from '../../scripts/build-client.ts'
import { temporaryFolder } from './ledger-node.ts'

const PACKAGE = fileURLToPath(new URL('../../clients/typescript', import.meta.url))
const run = promisify(execFile)

/** Packs `@daicho/client`, installs it into an empty folder without network, and returns the folder. */
export async function installClient(): Promise<string> {
  await buildClient()
  const folder = temporaryFolder()
  const pack = ['pack', PACKAGE, '--ignore-scripts', '--silent', '--pack-destination', folder]
  const { stdout } = await run('npm', pack)
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  const flags = ['--offline', '--no-audit', '--no-fund', '--silent']
  await run('npm', ['install', ...flags, join(folder, stdout.trim())], { cwd: folder })
  return folder
}
