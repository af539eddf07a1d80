export { buildApp } from './app.ts'
export { type Credentials, equalCredentials, parseBasic } from './basic-credentials.ts'
export { acceptStrictJson, arrivingBody, type Pace, readBody } from './body-readers.ts'
export { BodyShares } from './body-shares.ts'
export type { HttpApp, HttpComponent, HttpLimits, Refusal, RefusalReply } from './component.ts'
export { acceptsGzip, toPlainTag } from './compression.ts'
export { varyByOrigin } from './cross-origin-access.ts'
export { Denials, failedLogin } from './denials.ts'
export { disconnection } from './disconnection.ts'
export { assetFiles, serveComponentPage, swaggerPage } from './layout.ts'
export { type Listener, type ListenOptions, startListener } from './listener.ts'
export { addGauge, addHistogram, addLabeledGauge, Registry, registerMetrics } from './metrics.ts'
export { failureStatuses, type OpenApiPage, registerOpenApiPage } from './openapi-page.ts'
export {
  formatPolicy,
  type PageFile,
  pageFile,
  readPageFiles,
  SECURITY_HEADERS,
  servePageFiles,
} from './page-files.ts'
export { HttpRefusal, StatusFalse, statusFalseReply } from './refusal.ts'
export { ReplyBudget, ReplyStream } from './reply-budget.ts'
export {
  FailureThrottle,
  PASSWORD_FAILURES,
  readAddress,
  type ThrottleLimits,
  toClientKey,
} from './throttle.ts'
export { acceptAllMethods, methodRefusal, unroutedRefusal } from './unknown-routes.ts'
