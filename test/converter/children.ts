import { readdirSync, readFileSync } from 'node:fs'

/** Whether child processes can be listed on this platform. */
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

/** Returns the number of running child processes. */
export function children(): number {
  return pidsOfChildren().length
}
