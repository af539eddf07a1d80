// Runs before all tests: what is published is built, if it is not there already, since tests start it.
export { buildPackage as setup } from '../../scripts/build.ts'
