import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'

/** QuickJS, compiled. Threads can share it. Node's types do not declare `WebAssembly.Module`. */
export type EngineModule = object

type Compile = (bytes: Uint8Array) => Promise<EngineModule>
const { compile } = (globalThis as unknown as { WebAssembly: { compile: Compile } }).WebAssembly

let engine: EngineModule | null = null

/** Returns QuickJS. Only the first call compiles it, because compiling it doubles the start time of a thread. */
export async function compiledEngine(): Promise<EngineModule> {
  const { resolve } = createRequire(import.meta.url)
  engine ??= await compile(await readFile(resolve('@jitl/quickjs-wasmfile-release-sync/wasm')))
  return engine
}
