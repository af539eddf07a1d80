export { type Caller, isSubject, issueApiToken, may } from './caller.ts'
export { TokenError } from './errors.ts'
export { API_TOKEN_SCHEMES, demand, type RouteScope, registerGate } from './gate.ts'
export { type Kept, keptInFile } from './kept.ts'
export {
  assertPasswordHash,
  decoyHash,
  hashPassword,
  matchesPassword,
  PasswordTurns,
} from './passwords.ts'
export { EVERY_SCOPE, type Need } from './scope.ts'
export { type IssuedToken, openTokens, type TokenService } from './service.ts'
