// Every listener in its own process, attacked with valid and invalid requests of its OpenAPI document:
// docs/decisions/0026-simulation-and-attacks.md. Many more manually: `npm run -s fuzz -- ledger 100000 1`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { attack } from './attack.ts'
import { LISTENERS } from './served.ts'

/** Attempts per listener. */
const ATTEMPTS = 400

it.each(LISTENERS)(
  '%s: rejects damaged requests in its own error shape, answers the next request, closes every connection, and loses no data',
  async (name) => {
    const folder = mkdtempSync(join(tmpdir(), 'daicho-fuzz-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { findings, statuses } = await attack(name, ATTEMPTS, 1, folder)
    expect(findings).toEqual([])
    // Some requests pass validation.
    expect([...statuses.keys()]).toEqual(expect.arrayContaining([200, 400, 404]))
  },
)
