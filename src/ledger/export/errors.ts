import { CodedError } from '../../base/coded-error.ts'

/** Every way an export or an import refuses. */
export type ExportErrorCode =
  | 'EXPORT_FOREIGN' // the file is no export
  | 'EXPORT_TOO_NEW' // a newer daicho wrote it
  | 'EXPORT_DAMAGED' // something in it does not hold; `finding` says where
  | 'CHAIN_DAMAGED' // what was to be exported does not hold
  | 'IMPORT_OVER_STORE' // the folder holds a store already
  | 'IMPORT_WITHOUT_KEY' // the folder does not hold the key of the chain's node

/** What does not hold in an export: the first difference. Lines count from 1. */
export interface ExportFinding {
  readonly line: number
  readonly height: number | null
  readonly index: number | null
  readonly what: string
}

/** Thrown by exports and imports. */
export class ExportError extends CodedError<ExportErrorCode> {
  override readonly name = 'ExportError'
  /** Of EXPORT_DAMAGED; null otherwise. */
  readonly finding: ExportFinding | null

  constructor(
    code: ExportErrorCode,
    message: string,
    finding: ExportFinding | null = null,
    options?: ErrorOptions,
  ) {
    super(code, message, options)
    this.finding = finding
  }
}

/** EXPORT_DAMAGED with its place in the message too. */
export function damagedExport(finding: ExportFinding, cause?: unknown): ExportError {
  const { line, height, index, what } = finding
  const place = [
    `line ${line}`,
    ...(height === null ? [] : [`height ${height}`]),
    ...(index === null ? [] : [`entry ${index}`]),
  ].join(', ')
  return new ExportError('EXPORT_DAMAGED', `${place}: ${what}`, finding, { cause })
}
