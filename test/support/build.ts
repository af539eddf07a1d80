// Runs once before all tests. Builds the published programs if they are outdated, because tests start them.
export { buildPackage as setup } from '../../scripts/build.ts'
