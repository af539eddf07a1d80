/**
 * Flags of Node for all commands. `node:sqlite` works, but Node still calls it experimental. A smaller young generation
 * of V8, which was most of the memory of a server: measured with items created one by one, 310 MB at 500,000 items
 * without the flag, 230 MB at 400,000 with it, at the same throughput.
 * The first line of `src/cli/main.ts` repeats the flags for the installed command.
 */
export const NODE_FLAGS = ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=8']
