/**
 * Flags of Node for all commands. The first flag hides the warning that `node:sqlite` is experimental. The second flag
 * makes the young generation of V8 smaller, because by default it takes most of the memory of a server. Measured while
 * items were created one by one, at the same throughput: 310 MB without the flag (at 500,000 items), 230 MB with the
 * flag (at 400,000 items).
 * The first line of `src/cli/main.ts` repeats the flags for the installed command.
 */
export const NODE_FLAGS = ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=8']

/**
 * Variables of the C library for all commands: glibc returns large blocks of memory to the system at once, as it does
 * until the first of them is freed. Otherwise a node keeps 200 MB after 60 bodies of 10 MB. Repeated as the flags are.
 */
export const NODE_VARIABLES = { MALLOC_MMAP_THRESHOLD_: '131072' }
