import {
  type BlobVerification,
  openStoreReader,
  StoreError,
  type StoreLocation,
  type Verification,
  type VerifyOptions,
  verifyBlobs,
  verifyStore,
} from '../../storage/index.ts'
import { type SigningFiles, signingFinding, stateFinding } from '../log/verify-signing.ts'

/** Result of a verification of a store and its attachments. */
export type NodeVerification = Verification & BlobVerification

export interface VerifyNodeOptions {
  /** Key and signed head, which must be read before this call; null to skip their check. */
  readonly signing: SigningFiles | null
  /** Whether the folder is a mirror. */
  readonly isMirror?: boolean
  readonly threads?: VerifyOptions['threads']
  readonly progress?: VerifyOptions['progress']
  /** Called with the share of the bytes that were read, 0 to 1, and the number of verified blobs. */
  readonly blobProgress?: (share: number, done: { readonly contents: number }) => void
}

const NO_BLOBS = { contents: 0, contentBytes: 0, absent: 0 } as const
/** Codes of errors that are not findings, because they do not concern the content of the store. */
const NO_FINDINGS = /^(STORE_(NOT_FOUND|FORMAT|FULL|UNAVAILABLE|UNSAFE)|FOLDER_\w+)$/

/**
 * Verifies the chain of a store, its databases, its signed head and its attachments. Reads one snapshot, because a node
 * may be writing. Stops at the first difference. Errors: StoreError if the store cannot be opened.
 */
export async function verifyNode(
  location: StoreLocation,
  options: VerifyNodeOptions,
): Promise<NodeVerification> {
  const { signing, isMirror = false, threads, progress, blobProgress } = options
  try {
    const store = await openStoreReader(location, { frozen: true })
    try {
      const verification = await verifyStore(store, {
        ...(progress === undefined ? {} : { progress }),
        ...(threads === undefined ? {} : { threads }),
      })
      let { finding } = verification
      if (finding === null && signing !== null) {
        const signed =
          (await signingFinding(store, signing)) ?? (await stateFinding(store, signing.state))
        finding = signed === null ? null : { height: null, index: null, what: signed }
      }
      if (finding !== null) return { ...verification, ...NO_BLOBS, finding }
      const blobs = await verifyBlobs(store, location, {
        isMirror,
        ...(blobProgress === undefined ? {} : { progress: blobProgress }),
      })
      return { ...verification, ...blobs }
    } finally {
      await store.close()
    }
  } catch (error) {
    if (!(error instanceof StoreError) || NO_FINDINGS.test(error.code)) throw error
    const nothing = { serverId: 0, blocks: 0, entries: 0, erased: 0, databases: 0, items: 0 }
    const finding = { height: null, index: null, what: error.message }
    return { ...nothing, ...NO_BLOBS, headId: null, finding }
  }
}
