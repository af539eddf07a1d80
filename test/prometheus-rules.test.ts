// The alert rules in packaging/prometheus, with the tool of Prometheus.
import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'

const promtool = (...args: string[]) =>
  spawnSync('promtool', args, { cwd: 'packaging/prometheus', encoding: 'utf8' })
const isInstalled = promtool('--version').status === 0
const note = isInstalled ? '' : ' (skipped: promtool is not installed)'

it.skipIf(!isInstalled)(`the alert rules are valid, and pass their tests${note}`, () => {
  for (const args of [
    ['check', 'rules', 'daicho-alerts.yml'],
    ['test', 'rules', 'daicho-alerts.test.yml'],
  ]) {
    const { status, stdout, stderr } = promtool(...args)
    expect([status, stdout + stderr]).toEqual([0, expect.stringContaining('SUCCESS')])
  }
})
