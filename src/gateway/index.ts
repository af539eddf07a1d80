export type { NamespaceStyle } from './aliases.ts'
export { type GatewayComponentDeps, gatewayComponent } from './component.ts'
