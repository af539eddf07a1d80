import { Script } from 'node:vm'

/** Where and why a text is not JavaScript; line and column from 1, in that text. */
export interface ScriptError {
  readonly message: string
  readonly line: number
  readonly column: number
}

const NAME = 'script'

/** Why `text` is not JavaScript, or null when it is. It is compiled and never run. */
export function scriptErrorOf(text: string): ScriptError | null {
  try {
    new Script(text, { filename: NAME })
    return null
  } catch (error) {
    // Brackets in brackets take all of the stack.
    if (error instanceof RangeError) return { message: 'it nests too deeply', line: 1, column: 1 }
    if (!(error instanceof SyntaxError)) throw error
    // V8 tells the place only here: “script:<line>”, the line itself, and carets under the fault.
    const [place = '', , carets = ''] = error.stack?.split('\n') ?? []
    const line = Number(place.slice(NAME.length + 1)) || 1
    return { message: error.message, line, column: carets.indexOf('^') + 1 || 1 }
  }
}
