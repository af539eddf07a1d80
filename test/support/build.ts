// Runs before all tests: builds the published programs if they are outdated, since tests start them.
export { buildPackage as setup } from '../../scripts/build.ts'
