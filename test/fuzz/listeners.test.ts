// Every listener as a process of its own, attacked with what its OpenAPI document allows and what it does not:
// docs/decisions/0026-simulation-and-attacks.md. Many more by hand: `npm run -s fuzz -- ledger 100000 1`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { attack } from './attack.ts'
import { LISTENERS } from './served.ts'

/** Attempts on each. */
const ATTEMPTS = 400

it.each(LISTENERS)(
  '%s: refuses in its own form, answers the next one, ends every connection, loses nothing',
  async (name) => {
    const folder = mkdtempSync(join(tmpdir(), 'daicho-fuzz-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { findings, statuses } = await attack(name, ATTEMPTS, 1, folder)
    expect(findings).toEqual([])
    // Some of it reaches what is behind the refusals.
    expect([...statuses.keys()]).toEqual(expect.arrayContaining([200, 400, 404]))
  },
)
