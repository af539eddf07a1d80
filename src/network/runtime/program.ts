import { readFileSync } from 'node:fs'
import type { SourceFile } from '../language/source.ts'
import type { Model, Property } from '../model/model.ts'
import type { Script } from './guest.ts'

/** The files of the program, in order of their dependencies. */
const PARTS = ['resources', 'validation', 'locale', 'program']

export interface GuestScripts {
  /** See `GuestOptions.program`. */
  readonly program: Script
  readonly scripts: readonly Script[]
}

/** The scripts of a network, and the conditions of its access rules. */
export interface NetworkScripts {
  readonly model: Model
  readonly scripts: readonly SourceFile[]
  readonly rules: readonly { readonly condition: string | null }[] | null
}

/**
 * Returns the scripts that a network's guests load: daicho's program, which contains the network's model, the scripts
 * of the network, and its conditions, which are only compiled. The program is one function, so the scripts can access
 * only the globals that it sets.
 */
export function guestScripts({ model, scripts, rules }: NetworkScripts): GuestScripts {
  const types = JSON.stringify(Object.fromEntries(typeEntries(model)))
  const body = PARTS.map(partText).join('\n')
  const text = `((host, log) => { 'use strict'\nconst MODEL = ${types}\n${body}\nreturn program })`
  return {
    program: { name: 'program', text },
    scripts: [
      // As in Composer, which compiles all scripts into one function, a directive such as 'use strict' at the head of a
      // file has no effect: the semicolon ends the directives.
      ...scripts.map(({ path, text: source }) => ({ name: path, text: `;${source}` })),
      ...(rules ?? []).flatMap(({ condition }) =>
        condition === null ? [] : [{ name: 'permissions.acl', text: condition }],
      ),
    ],
  }
}

function partText(name: string): string {
  return readFileSync(new URL(`./guest-scripts/${name}.js`, import.meta.url), 'utf8')
}

function typeEntries(model: Model) {
  return [...model.types()].map((type) => {
    const { kind, qualifiedName, namespace, name, abstract, superType, identifier } = type
    const above = superType?.qualifiedName ?? null
    const properties = Object.fromEntries([...type.properties].map(propertyEntry))
    const values = type.values.size === 0 ? {} : { values: [...type.values] }
    const known = { kind, namespace, name, abstract, superType: above, identifier, properties }
    return [qualifiedName, { ...known, ...values }] as const
  })
}

function propertyEntry([name, property]: [string, Property]) {
  const { primitive, type, array, relationship, optional, range, regex, default: preset } = property
  const holds = { primitive, type: type?.qualifiedName ?? null }
  const pattern = regex === null ? {} : { regex: [regex.source, regex.flags] }
  const validators = { ...(range === null ? {} : { range }), ...pattern }
  return [
    name,
    { ...holds, array, relationship, optional, default: preset, ...validators },
  ] as const
}
