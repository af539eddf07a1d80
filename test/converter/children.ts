import { readdirSync, readFileSync } from 'node:fs'

/** Whether the children of a process can be counted here. */
export const childrenCount = process.platform === 'linux'

/** How many processes of this one run now. */
export function children(): number {
  return readdirSync('/proc/self/task').reduce((count, task) => {
    const pids = readFileSync(`/proc/self/task/${task}/children`, 'utf8')
    return count + pids.split(' ').filter((pid) => pid !== '').length
  }, 0)
}
