export {
  API_TOKEN_SCHEMES,
  type RouteScope,
  registerAccessChecks,
  requireScope,
} from './access-checks.ts'
export { TokenError } from './errors.ts'
export { IssuerTokens } from './issuer-tokens.ts'
export {
  decoyHash,
  hashPassword,
  matchesPassword,
  PasswordLimiter,
  requirePasswordHash,
} from './passwords.ts'
export { parseScopeRules } from './scope-rules.ts'
export {
  EVERY_SCOPE,
  isSubject,
  may,
  mayReadEvery,
  type Need,
  type TokenOwner,
} from './scopes.ts'
export {
  type IssuedToken,
  issueApiToken,
  openTokens,
  type RevocationTarget,
  type TokenService,
} from './service.ts'
export { type SharedValue, sharedFile } from './shared-value.ts'
