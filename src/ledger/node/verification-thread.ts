import { setPriority } from 'node:os'
import { CodedError } from '../../base/coded-error.ts'
import { serveThread } from '../../base/worker/worker.ts'
import type { StoreLocation } from '../../storage/index.ts'
import { readSigningFiles } from '../log/verify-signing.ts'
import { verifyNode } from './verify-node.ts'

// Program of the worker thread for one scheduled verification. The thread starts no other threads, and ends after its
// message.

/** Data of the thread. */
export interface VerificationStart {
  readonly location: StoreLocation
  /** Folder of the key and the signed head; null for a temporary node. */
  readonly folder: string | null
}

/** The only message of the thread. `finding` is the first difference. */
export type VerificationResult =
  | { readonly result: 'passed'; readonly blocks: number; readonly entries: number }
  | {
      readonly result: 'failed'
      readonly blocks: number
      readonly entries: number
      readonly finding: string
    }
  | { readonly result: 'unfinished'; readonly reason: string }

/** Low priority of the thread. Set only on Linux, because elsewhere the priority would apply to the whole process. */
const NICENESS = 10

async function verify({ location, folder }: VerificationStart): Promise<VerificationResult> {
  try {
    const signing = folder === null ? null : readSigningFiles(folder)
    const { blocks, entries, finding } = await verifyNode(location, { signing })
    if (finding === null) return { result: 'passed', blocks, entries }
    const { height, index, what } = finding
    const place = [height, index].filter((part) => part !== null).join('.')
    return { result: 'failed', blocks, entries, finding: place === '' ? what : `${place}: ${what}` }
  } catch (error) {
    const isExpected = error instanceof CodedError || (error instanceof Error && 'syscall' in error)
    if (!isExpected) throw error
    return { result: 'unfinished', reason: error.message }
  }
}

await serveThread<VerificationStart, never, VerificationResult>(async (start, port) => {
  if (process.platform === 'linux') setPriority(NICENESS)
  port.postMessage(await verify(start))
})
