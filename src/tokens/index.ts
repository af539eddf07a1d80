export { TokenError, type TokenErrorCode } from './errors.ts'
export {
  assertPasswordHash,
  decoyHash,
  hashPassword,
  matchesPassword,
  PASSWORD_LENGTH_MAX,
  PasswordTurns,
} from './passwords.ts'
export {
  type IssuedToken,
  openTokens,
  type TokenGrant,
  TokenService,
  type TokenServiceOptions,
  type VerifiedToken,
} from './service.ts'
