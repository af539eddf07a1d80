/** The folder of the built page; `scripts/build-dashboard.ts` makes it. */
export const dashboardFolder: URL = new URL('./built/', import.meta.url)
