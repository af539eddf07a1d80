/** The folder of the built page, created by `scripts/build-dashboard.ts`. */
export const dashboardFolder: URL = new URL('./built/', import.meta.url)
