export {
  API_TOKEN_SCHEMES,
  type RouteScope,
  registerAccessChecks,
  requireScope,
} from './access-checks.ts'
export { TokenError } from './errors.ts'
export {
  assertPasswordHash,
  decoyHash,
  hashPassword,
  matchesPassword,
  PasswordLimiter,
} from './passwords.ts'
export {
  type Caller,
  EVERY_SCOPE,
  isSubject,
  issueApiToken,
  may,
  type Need,
} from './scopes.ts'
export { type IssuedToken, openTokens, type TokenService } from './service.ts'
export { type SharedValue, sharedFile } from './shared-value.ts'
