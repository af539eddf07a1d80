export {
  API_TOKEN_SCHEMES,
  type RouteScope,
  registerAccessChecks,
  requireScope,
} from './access-checks.ts'
export { TokenError } from './errors.ts'
export {
  decoyHash,
  hashPassword,
  matchesPassword,
  PasswordLimiter,
  requirePasswordHash,
} from './passwords.ts'
export {
  EVERY_SCOPE,
  isSubject,
  issueApiToken,
  may,
  type Need,
  type TokenOwner,
} from './scopes.ts'
export { type IssuedToken, openTokens, type TokenService } from './service.ts'
export { type SharedValue, sharedFile } from './shared-value.ts'
