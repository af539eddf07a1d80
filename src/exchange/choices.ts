export const SOURCE_FORMATS = ['ndjson', 'json', 'csv', 'couchdb', 'mongodb', 'qldb'] as const
export type SourceFormat = (typeof SOURCE_FORMATS)[number]

export const CONFLICT_POLICIES = ['fail', 'skip', 'replace'] as const
/** How to treat an item whose id exists: end the load, leave the record out, or replace the item. */
export type ConflictPolicy = (typeof CONFLICT_POLICIES)[number]

export const DUMP_FORMATS = ['ndjson', 'json', 'csv'] as const
export type DumpFormat = (typeof DUMP_FORMATS)[number]
