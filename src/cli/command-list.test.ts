import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { NODE_FLAGS } from '../../scripts/node-flags.mjs'
import { createCommands } from './command-list.ts'

it.each(createCommands().map((command) => [command.name(), command] as const))(
  'the command %s has a description',
  (_name, command) => {
    expect(command.description()).toMatch(/^[a-z].*[a-z]$/i)
  },
)

/** Prints the URLs of all modules of this project and of packages that the process has loaded, after its output. */
const HOOK = `import { registerHooks } from 'node:module'
const loaded = []
registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context) } })
process.on('exit', () => process.stdout.write('LOADED ' + loaded.join(' ')))`
const SOURCES = fileURLToPath(new URL('..', import.meta.url))

it.each([[['--help']], [['load', '--help']], [['network', 'upgrade', '--help']], [['count']]])(
  '%j loads only the declarations of commands',
  (args) => {
    const hook = `--import=data:text/javascript,${encodeURIComponent(HOOK)}`
    const main = fileURLToPath(new URL('main.ts', import.meta.url))
    const words = [...NODE_FLAGS, hook, main, ...args]
    let output = ''
    try {
      output = execFileSync(process.execPath, words, { encoding: 'utf8', stdio: 'pipe' })
    } catch (error) {
      output = String(Object(error).stdout)
    }
    const [, list = ''] = output.split('LOADED ')
    const files = list.split(' ').filter((url) => url.startsWith('file:'))
    const names = files.map((url) => fileURLToPath(url).replace(SOURCES, ''))
    expect(names).toContain('cli/commands/serve.ts')
    // All other modules are server code, and so are `cli/actions` and most of `cli/node`.
    const light =
      /^(cli\/([\w-]+|commands\/\w+|output\/output|composition\/(components|ports|settings)|node\/node-(folder|options))|base\/[\w-]+|exchange\/choices)\.ts$|\/node_modules\/commander\//
    expect(names.filter((name) => !light.test(name))).toEqual([])
  },
)
