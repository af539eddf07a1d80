import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startDaicho } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

const FILES = {
  'package.json': '{"name":"talks","version":"1.0.0"}',
  'models/org.test.cto': 'namespace org.test\ntransaction Say { o String text }\n',
  'lib/say.js': `/**
 * @param {org.test.Say} say
 * @transaction
 */
function speak(say) { console.warn(say.text) }
`,
}

it('logs console output of a processor with the level of the console method', async () => {
  const network = temporaryFolder()
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(join(network, path, '..'), { recursive: true })
    writeFileSync(join(network, path), text)
  }
  const serve = ['serve', '--only', 'gateway', '--gateway-port', '0', '--json']
  const daicho = startDaicho(serve, { NETWORKS: network, LOG_LEVEL: 'info' })
  const { gateway } = JSON.parse(await daicho.firstLine)
  const reply = await fetch(`${gateway}/api/Say`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"text":"hello"}',
  })
  expect(reply.status).toBe(200)
  daicho.child.kill('SIGTERM')
  const { stderr } = await daicho.ended
  const lines = stderr.split('\n').filter((line) => line.includes('"processor"'))
  expect(lines.map((line) => line.replace(/"time":"[^"]*"/, '"time":""'))).toEqual([
    '{"level":30,"time":"","component":"gateway","network":"talks","console":"warn","text":"hello","msg":"processor"}',
  ])
})
