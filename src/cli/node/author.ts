import { userInfo } from 'node:os'
import type { Author } from '../../base/author.ts'
import { isSubject } from '../../tokens/index.ts'
import type { Settings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import type { AuthorFlags } from './node-options.ts'

/** Returns the author of the changes that a command makes to a stopped node, or null if they have none. */
export function findCommandAuthor({ TOKENS }: Settings, { by }: AuthorFlags): Author | null {
  if (by !== undefined) {
    if (isSubject(by)) return { sub: by }
    throw new Exit(EXIT.usage, '--by must have 1 to 256 bytes and no control character')
  }
  return TOKENS === 'required' ? { sub: readUserName() } : null
}

/** Throws Exit (usage) if `--by` is given. `reason` says why the flag has no effect here. */
export function refuseAuthor({ by }: AuthorFlags, reason: string): void {
  if (by !== undefined) throw new Exit(EXIT.usage, `--by has no effect: ${reason}`)
}

/** Returns the name of the system's user, or the number of a user without a name, as in a container. */
function readUserName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
