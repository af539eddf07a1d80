import { positionText } from '../../chain/index.ts'
import { BlobFiles, sha256Of } from '../blobs/blob-files.ts'
import { openStoreReader } from '../open.ts'
import type { StoredBlob, StoreReader } from '../store.ts'
import type { Finding } from './chain-walk.ts'

/** Contents read ahead at a time. */
const CONTENTS_PER_PAGE = 500

/** What a verification of attached bytes looked at, and what it found. */
export interface BlobVerification {
  /** Different contents, and how many bytes they are together. */
  readonly contents: number
  readonly contentBytes: number
  /** Of a mirror: different contents that are named and not here; else 0. */
  readonly absent: number
  readonly finding: Finding | null
}

/** How contents are verified. */
export interface VerifyContentsOptions {
  /** Whether the folder is a mirror's, whose contents come beside the chain: absent ones are counted. */
  readonly isMirror?: boolean
  readonly progress?: (share: number, done: { contents: number; contentBytes: number }) => void
}

/**
 * Recomputes the SHA-256 of every content that the entries of `store` name, and looks for files that
 * none names. Stops at the first difference.
 *
 * The node may be running: what looks wrong is looked at again in the store as it is now, and a
 * file without an entry is no difference while uploads may be on their way, or a node was killed
 * that removes it at its next start. In a mirror an absent content is none either: it is on its way,
 * or its source does not have it, or it was lost here and is fetched again.
 */
export async function verifyBlobs(
  store: StoreReader,
  folder: string,
  { isMirror = false, progress }: VerifyContentsOptions = {},
): Promise<BlobVerification> {
  const files = new BlobFiles(folder, false)
  const done = { contents: 0, contentBytes: 0, absent: 0 }
  let lookedBytes = 0
  const all = await store.attachments.countBlobs()
  let after = ''
  for (;;) {
    const page = await store.attachments.blobs(after, CONTENTS_PER_PAGE)
    for (const content of page) {
      const { sha256, length } = content
      const state = await stateOf(files, content)
      const at = state === 'whole' ? null : await namedNow(folder, sha256)
      if (state === 'absent' && at !== null && isMirror) done.absent += 1
      else if (state !== 'whole' && at !== null) {
        const what = `content ${sha256} ${state === 'absent' ? 'is missing' : state.differs}`
        return { ...done, finding: { ...placeOf(at), what } }
      } else {
        done.contents += 1
        done.contentBytes += length
      }
      lookedBytes += length
      progress?.(all.bytes === 0 ? 1 : lookedBytes / all.bytes, done)
    }
    const last = page.at(-1)
    if (last === undefined) break
    after = last.sha256
  }
  return { ...done, finding: await stray(store, files, folder) }
}

async function stateOf(
  files: BlobFiles,
  { sha256, length }: StoredBlob,
): Promise<'whole' | 'absent' | { readonly differs: string }> {
  const file = await files.read(sha256)
  if (file === null) return 'absent'
  try {
    const { size } = await file.stat()
    if (size !== length) return { differs: `has ${size} bytes, not ${length}` }
    const isSame = (await sha256Of(file, length)) === sha256
    return isSame ? 'whole' : { differs: 'has other bytes than that' }
  } finally {
    await file.close()
  }
}

async function stray(
  store: StoreReader,
  files: BlobFiles,
  folder: string,
): Promise<Finding | null> {
  for await (const found of files.list()) {
    if ('foreign' in found) return unplaced(`${found.foreign} is no content of an attachment`)
    const { sha256 } = found
    if ((await store.attachments.namedAt(sha256)) !== null || (await files.isUnsettled())) continue
    // Recorded meanwhile, by a node that has closed since or by one that is running.
    if ((await namedNow(folder, sha256)) !== null) continue
    const file = await files.read(sha256)
    if (file === null) continue
    await file.close()
    return unplaced(`content ${sha256} is stored, but no entry names it`)
  }
  return null
}

async function namedNow(folder: string, sha256: string): Promise<number | null> {
  const store = openStoreReader(folder, { frozen: false })
  try {
    return await store.attachments.namedAt(sha256)
  } finally {
    await store.close()
  }
}

function placeOf(position: number): { height: number; index: number } {
  const [height = 0, index = 0] = positionText(position).split('.').map(Number)
  return { height, index }
}

function unplaced(what: string): Finding {
  return { height: null, index: null, what }
}
