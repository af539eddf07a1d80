import { readdirSync, readFileSync } from 'node:fs'

export const childrenCount = process.platform === 'linux'

/** Returns the ids of the running child processes of this process. */
export function pidsOfChildren(): number[] {
  return readdirSync('/proc/self/task').flatMap((task) =>
    readFileSync(`/proc/self/task/${task}/children`, 'utf8')
      .split(' ')
      .filter((pid) => pid !== '')
      .map(Number),
  )
}

export function children(): number {
  return pidsOfChildren().length
}
