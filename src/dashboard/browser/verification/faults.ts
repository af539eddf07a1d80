/** Everything that a verification may find to be wrong; the page has a sentence for each. */
export type FaultCode =
  | 'unreadable'
  | 'shape'
  | 'missing'
  | 'link'
  | 'counts'
  | 'time'
  | 'commitment'
  | 'root'
  | 'id'
  | 'serverid'
  | 'unsigned'
  | 'signature'
  | 'checkpoint'
  | 'key'
  | 'keyChanged'
  | 'log'
  | 'rolledBack'
  | 'forked'

/** The first thing that is wrong. */
export interface Fault {
  readonly code: FaultCode
  /** Of the block; null when it is not about one. */
  readonly height: number | null
  /** Of the entry in it; null when it is the block as such. */
  readonly index: number | null
}
