export { PairsError, type PairsErrorCode } from './errors.ts'
export { openPairs, type PairSources, type Pairs, PRESET_PAIR } from './pairs.ts'
export { mountGuardedPath, mountPresenceFilter } from './routes.ts'
