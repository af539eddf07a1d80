import { pino } from 'pino'
import {
  type ConverterDependencies,
  converterComponent,
  WORKER_LIMITS,
} from '../../src/converter/index.ts'
import { type Listener, startListener } from '../../src/http/index.ts'

/** Fields of the form, except for the file. */
export type Fields = Readonly<Record<string, string | number | boolean>>

/** Worker limits with normal priority, so that tests are also fast on a busy computer. */
export const TEST_LIMITS: typeof WORKER_LIMITS = { ...WORKER_LIMITS, nice: 0 }

/** Starts a converter on a free local port. `log` receives log lines of level error. */
export async function startConverter(
  deps: Partial<ConverterDependencies> = {},
  log: (line: string) => void = () => {},
): Promise<Listener> {
  return startListener(
    converterComponent({ version: '0.0.0', workerLimits: TEST_LIMITS, ...deps }),
    {
      host: '127.0.0.1',
      port: 0,
      logger: pino({ level: 'error' }, { write: log }),
      publicHosts: new Set(),
    },
  )
}

/** Returns the form that a browser sends for an upload. */
export function formOf(bytes: Uint8Array | null, name: string, fields: Fields = {}): FormData {
  const form = new FormData()
  for (const [field, value] of Object.entries(fields)) form.append(field, String(value))
  if (bytes !== null) form.append('file', new Blob([new Uint8Array(bytes)]), name)
  return form
}

export function postImage(
  url: string,
  bytes: Uint8Array,
  name: string,
  fields: Fields = {},
  headers: Record<string, string> = { accept: 'application/vnd.ms-excel' },
): Promise<Response> {
  return fetch(`${url}/image`, { method: 'POST', body: formOf(bytes, name, fields), headers })
}
