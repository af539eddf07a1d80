export { type GatewayComponentDeps, gatewayComponent } from './component.ts'
export type { NamespaceStyle } from './service.ts'
