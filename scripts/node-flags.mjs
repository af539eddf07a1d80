/**
 * Flags of V8 for a server that shares its machine: with the usual ones the garbage of large requests
 * makes most of its memory (measured: 520 MB while a million items arrive in lists of 500; 270 MB with
 * these). The first line of `src/cli/main.ts` has them for the installed command.
 */
export const NODE_FLAGS = ['--max-semi-space-size=8', '--heap-growing-percent=30']
