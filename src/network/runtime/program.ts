import { readFileSync } from 'node:fs'
import type { SourceFile } from '../language/source.ts'
import type { Model, Property } from '../model/model.ts'
import type { Script } from './guest.ts'
import type { GuestScripts } from './messages.ts'

/** The parts of the program, in their order; each may use what is declared before it. */
const PARTS = ['resources', 'processors', 'conditions']

let body: string | null = null

/**
 * What the guests of a network load: our program, which knows the network's model, and the network's
 * own scripts. The program is one function expression, so nothing of it but the documented functions
 * is in the scripts' reach.
 */
export function guestScripts(model: Model, scripts: readonly SourceFile[]): GuestScripts {
  body ??= PARTS.map(partText).join('\n')
  const types = JSON.stringify(Object.fromEntries(typesOf(model)))
  const text = `((MODEL, host, tell) => { 'use strict'\n${body}\nreturn program })(${types}, host, tell)`
  const program: Script = { name: 'program', text }
  return {
    program,
    scripts: scripts.map(({ path, text: source }) => ({ name: path, text: source })),
  }
}

function partText(name: string): string {
  return readFileSync(new URL(`./guest-scripts/${name}.js`, import.meta.url), 'utf8')
}

function typesOf(model: Model) {
  return [...model.types()].map((type) => {
    const { kind, qualifiedName, namespace, name, abstract, superType, identifier } = type
    const above = superType?.qualifiedName ?? null
    const properties = Object.fromEntries([...type.properties].map(propertyEntry))
    const known = { kind, namespace, name, abstract, superType: above, identifier, properties }
    return [qualifiedName, known] as const
  })
}

function propertyEntry([name, property]: [string, Property]) {
  const { primitive, type, array, relationship, default: preset } = property
  const holds = { primitive, type: type?.qualifiedName ?? null }
  return [name, { ...holds, array, relationship, default: preset }] as const
}
