export { openPairs, PRESET_PAIR } from './pairs.ts'
export { mountGuardedPath, mountPresenceFilter } from './routes.ts'
