export { arrivingBody, type Pace } from './arriving-body.ts'
export {
  type Credentials,
  equalCredentials,
  parseBasic,
} from './basic-credentials.ts'
export type { HttpApp, HttpComponent, HttpLimits, Refusal, RefusalReply } from './component.ts'
export { serveComponentPage } from './component-page.ts'
export { methodRefusal, takeAllMethods, unroutedRefusal } from './declared-routes.ts'
export type { Figures } from './figures.ts'
export { buildApp, type Listener, type ListenOptions, startListener } from './listener.ts'
export { registerMetrics } from './metrics.ts'
export { type OpenApiPage, registerOpenApiPage } from './openapi-page.ts'
export { type PageFile, pageFile, readPageFiles, SECURED, servePageFiles } from './page-files.ts'
export { HttpRefusal, statusFalseReply } from './refusal.ts'
export { takeStrictJson } from './strict-json-body.ts'
export { swaggerFiles, swaggerPage } from './swagger-page.ts'
export { addressOf, clientOf, FailureThrottle, type ThrottleLimits } from './throttle.ts'
export { readBody } from './whole-body.ts'
