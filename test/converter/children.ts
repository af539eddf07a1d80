import { readdirSync, readFileSync } from 'node:fs'

/** Whether the children of a process can be found here. */
export const childrenCount = process.platform === 'linux'

/** The processes of this one that run now. */
export function pidsOfChildren(): number[] {
  return readdirSync('/proc/self/task').flatMap((task) =>
    readFileSync(`/proc/self/task/${task}/children`, 'utf8')
      .split(' ')
      .filter((pid) => pid !== '')
      .map(Number),
  )
}

/** How many processes of this one run now. */
export function children(): number {
  return pidsOfChildren().length
}
