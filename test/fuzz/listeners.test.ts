// Attacks every listener, each in its own process, with valid and invalid requests from its OpenAPI document
// (docs/decisions/0026-simulation-and-attacks.md). For many more requests, run `npm run -s fuzz -- ledger 100000 1`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { roundsOf } from '../support/rounds.ts'
import { attack } from './attack.ts'
import { LISTENERS } from './served.ts'

/** Number of attempts per listener. */
const ATTEMPTS = roundsOf(600)

it.each(LISTENERS)(
  '%s: rejects damaged requests with its own error format, answers the next request, closes every connection, and loses no data',
  async (name) => {
    const folder = mkdtempSync(join(tmpdir(), 'daicho-fuzz-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { findings, statuses } = await attack(name, ATTEMPTS, 1, folder)
    expect(findings).toEqual([])
    expect([...statuses.keys()]).toEqual(expect.arrayContaining([200, 400, 404]))
  },
)
