export { type LedgerComponentDeps, ledgerComponent } from './component.ts'
export { LedgerError, type LedgerErrorCode } from './errors.ts'
export { type OpenLedger, type OpenLedgerOptions, openLedger } from './open.ts'
export type { Change, ItemListRange, LedgerService, ListRange, Written } from './service.ts'
