export { TokenError } from './errors.ts'
export { type Kept, keptInFile } from './kept.ts'
export {
  assertPasswordHash,
  decoyHash,
  hashPassword,
  matchesPassword,
  PasswordTurns,
} from './passwords.ts'
export { type IssuedToken, openTokens, type TokenService } from './service.ts'
