import { existsSync, readFileSync, statSync } from 'node:fs'

/**
 * What a flag says, or the file that it names holds, without the white space around it: whoever lists the
 * processes of a machine sees what their flags say.
 */
export function textOrFile(text: string): string {
  const isFile = existsSync(text) && statSync(text).isFile()
  return isFile ? readFileSync(text, 'utf8').trim() : text
}
