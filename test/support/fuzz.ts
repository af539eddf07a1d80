import fc from 'fast-check'

export interface FuzzRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Empty if the request has no body. */
  readonly body: Buffer
}

// biome-ignore lint/suspicious/noExplicitAny: an OpenAPI document is any JSON
type Any = any

const nastyText = fc.constantFrom(
  ...['', '.', '..', '/', '%', '%2f', '%00', '\u0000', '\n', '\r\n', 'a\nX\na', '\u007f', '\u2028'],
  ...['__proto__', 'constructor', 'toString', 'config', 'ledgers', 'dbs', 'serverid', 'null'],
  ...["' OR 1=1 --", '"; DROP TABLE items; --', '../../etc/passwd', '<script>', '{{7*7}}', '🍎'],
  ...['x'.repeat(128), 'x'.repeat(129), '台'.repeat(43), 'x'.repeat(257), 'x'.repeat(1_025)],
)
const anyText = fc.oneof(
  { weight: 2, arbitrary: nastyText },
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.string({ unit: 'grapheme', maxLength: 12 }),
)
const nastyNumber = fc.constantFrom(
  ...[0, -0, 1, -1, 1.5, 2 ** 31, 2 ** 53 - 1, 2 ** 53, 1e21, 1e308, -1e308, 5e-324],
)
const nastyQueryValue = fc.oneof(
  anyText,
  nastyNumber.map(String),
  fc.constantFrom('NaN', 'Infinity', '0x10', '1e3', ' 1', '1e400', 'true', 'false', '[]', '{}'),
)
const nastyJson = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  nastyNumber,
  anyText,
  fc.constantFrom<unknown>(null, [], {}, [[]], [null], [{}], { entries: [] }, { id: null }),
)

/** A value for `schema` in an OpenAPI document. Most values are valid. */
function jsonOf(schema: Any, known: Record<string, fc.Arbitrary<string>>): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 8, arbitrary: soundJsonOf(schema, known) }, nastyJson)
}

function soundJsonOf(
  schema: Any,
  known: Record<string, fc.Arbitrary<string>>,
): fc.Arbitrary<unknown> {
  const options: Any[] | undefined = schema.anyOf ?? schema.oneOf
  if (options !== undefined) {
    return fc.oneof(...options.map((option) => soundJsonOf(option, known)))
  }
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  switch (schema.type) {
    case 'string':
      return anyText
    case 'integer':
    case 'number':
      return fc.oneof(fc.integer({ min: 0, max: 50 }), nastyNumber)
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(jsonOf(schema.items ?? {}, known), { maxLength: 4 })
    case 'object':
      return objectOf(schema, known)
    default:
      return fc.jsonValue({ maxDepth: 2 })
  }
}

function objectOf(schema: Any, known: Record<string, fc.Arbitrary<string>>): fc.Arbitrary<unknown> {
  const properties = Object.entries<Any>(schema.properties ?? {})
  const members = properties.map(([name, member]) => {
    const right = known[name] ?? jsonOf(member, known)
    return [name, fc.oneof({ weight: 6, arbitrary: right }, nastyJson)] as const
  })
  const own = fc.record(Object.fromEntries(members), {
    requiredKeys: members.map(([name]) => name),
  })
  const id = known.id ?? anyText
  const extra = fc.record({ id: fc.oneof(id, nastyJson), n: nastyJson }, { requiredKeys: [] })
  if (schema.additionalProperties !== true) return own
  return fc.tuple(own, extra).map(([first, second]) => ({ ...(first as object), ...second }))
}

/** Names of operations. Other members of a path are not operations. */
const METHODS = new Set(['get', 'put', 'post', 'delete', 'patch'])

/**
 * Requests for every operation of an OpenAPI document. `known` contains values for path parameters, by name. If `isSound`,
 * nearly all parameters are right, and there are few, because some of them exclude others.
 */
export function requestsOf(
  document: Any,
  known: Record<string, fc.Arbitrary<string>>,
  isSound = false,
): fc.Arbitrary<FuzzRequest> {
  const base: string = document.servers?.[0]?.url.replace(/\/$/, '') ?? ''
  const operations = Object.entries<Any>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Any>(methods)
      .filter(([method]) => METHODS.has(method))
      .map(([method, operation]) =>
        requestOf(method.toUpperCase(), base + path, operation, { known, isSound }),
      ),
  )
  return fc.oneof(...operations)
}

function requestOf(
  method: string,
  template: string,
  operation: Any,
  { known, isSound }: { known: Record<string, fc.Arbitrary<string>>; isSound: boolean },
): fc.Arbitrary<FuzzRequest> {
  const wrong = isSound ? 0 : 1
  const parameters: Any[] = operation.parameters ?? []
  const named = (place: string) => parameters.filter((parameter) => parameter.in === place)
  const path = fc
    .tuple(
      ...named('path').map(({ name }) =>
        fc.oneof(
          { weight: 3, arbitrary: known[name] ?? anyText },
          { weight: wrong, arbitrary: anyText },
        ),
      ),
    )
    .map((values) =>
      named('path').reduce(
        (text: string, { name }, at) => text.replace(`{${name}}`, encoded(values[at] ?? '')),
        template,
      ),
    )
  const query = fc
    .tuple(
      ...named('query').map(({ name, schema }) => {
        const right = known[name] ?? soundJsonOf(schema, known).map(String)
        const value = fc.oneof(
          { weight: 8, arbitrary: right },
          { weight: wrong, arbitrary: nastyQueryValue },
        )
        const texts = fc.array(
          value.map((text) => `${name}=${encoded(text)}`),
          { minLength: 1, maxLength: 1 + wrong },
        )
        const isRequired = isSound && parameters.some((each) => each.name === name && each.required)
        if (isRequired) return texts
        return fc.oneof(
          // Many operations are about one database.
          { weight: isSound && name !== 'db' ? 4 : 1, arbitrary: fc.constant(null) },
          { weight: 1, arbitrary: texts },
        )
      }),
      fc.oneof(
        // Changes refuse unknown parameters.
        { weight: 4, arbitrary: fc.constant(null) },
        {
          weight: wrong,
          arbitrary: fc.tuple(anyText, nastyQueryValue).map((pair) => pair.map(encoded).join('=')),
        },
      ),
    )
    .map((parts) =>
      parts
        .flat()
        .filter((part) => part !== null)
        .join('&'),
    )
  const content = operation.requestBody?.content
  const form = content?.['multipart/form-data']?.schema
  const schema = (content?.['application/json'] ?? content?.['*/*'])?.schema
  const body = schema === undefined ? fc.constant(null) : bodyOf(schema, known)
  return fc
    .record({
      path,
      query,
      body: form === undefined ? body : formOf(form),
      type: fc.oneof(
        { weight: 12, arbitrary: fc.constant(form === undefined ? 'application/json' : FORM) },
        fc.constantFrom(
          'application/merge-patch+json',
          'text/plain',
          'application/json; charset=x',
          ';',
          'a/b',
        ),
      ),
    })
    .map((parts) => ({
      method,
      path: parts.query === '' ? parts.path : `${parts.path}?${parts.query}`,
      headers: parts.body === null ? {} : { 'content-type': parts.type },
      body: parts.body ?? Buffer.alloc(0),
    }))
}

/** JSON for `schema`. Sometimes a part is cut out, doubled or changed, or a special text replaces the JSON. */
function bodyOf(schema: Any, known: Record<string, fc.Arbitrary<string>>): fc.Arbitrary<Buffer> {
  const json = jsonOf(schema, known).map((value) => Buffer.from(JSON.stringify(value) ?? ''))
  const special = fc.constantFrom(
    ...[
      '',
      'null',
      '0',
      '{"n":1E400}',
      '{"n":9007199254740993}',
      '{"a":1,"a":2}',
      '{"__proto__":{}}',
    ],
    ...['{"s":"\\ud800"}', `${'['.repeat(65)}${']'.repeat(65)}`, '{"a":', '\ufeff{}', '{}\u0000'],
  )
  const options: Any[] = schema.anyOf ?? []
  const isOptional = options.some((option) => option.type === 'null')
  return fc.oneof(
    { weight: isOptional ? 4 : 1, arbitrary: fc.constant(Buffer.alloc(0)) },
    { weight: 8, arbitrary: json },
    { weight: 3, arbitrary: fc.tuple(json, mutation).map(([bytes, mutate]) => mutate(bytes)) },
    special.map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
  )
}

const FORM = 'multipart/form-data; boundary=b'

/** Contents of uploaded files: small valid images in every format, and other data. */
const files = fc
  .constantFrom(
    'R0lGODdhAQABAIAAAP8AAAAA/ywAAAAAAQABAAACAkQBADs=',
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
    'Qk06AAAAAAAAADYAAAAoAAAAAQAAAAEAAAABABgAAAAAAAQAAAATCwAAEwsAAAAAAAAAAAAAAAD/AA==',
    '/9j/2wBDAP//////////////////////////////////////////////////////////////////////////////////////2wBDAf//////////////////////////////////////////////////////////////////////////////////////wAARCAACAAIDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAL/xAAXEAEBAQEAAAAAAAAAAAAAAAAAATFx/8QAFQEBAQAAAAAAAAAAAAAAAAAAAAL/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCLt6Aof//Z',
    'UklGRjIAAABXRUJQVlA4TCUAAAAvAUAAAB8gJCCI/g92Q0iQkP3/VyEBQfR/sPkPfHJUcIGGiP6HAA==',
    'SUkqABwAAAB4nPvPwMDI8J/hPwMnFycAGDUDGxAAAAEDAAEAAAACAAAAAQEDAAEAAAACAAAAAgEDAAMAAADyAAAAAwEDAAEAAAAIAAAABgEDAAEAAAACAAAAEQEEAAEAAAAIAAAAEgEDAAEAAAABAAAAFQEDAAEAAAADAAAAFgEDAAEAAAAAAQAAFwEEAAEAAAAUAAAAGgEFAAEAAADiAAAAGwEFAAEAAADqAAAAHAEDAAEAAAABAAAAKAEDAAEAAAACAAAAPQEDAAEAAAACAAAAUwEDAAMAAAD4AAAAAAAAADMzywAAAAgAMzPLAAAACAAIAAgACAABAAEAAQA=',
    'AAAAHGZ0eXBhdmlmAAAAAG1pZjFhdmlmbWlhZgAAANZtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9jAAAAAERAAAEAAQAAAAAA+gABAAAAAAAAACUAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABhdjAxAAAAAA5waXRtAAAAAAABAAAAVmlwcnAAAAA4aXBjbwAAAAxhdjFDgSACAAAAABRpc3BlAAAAAAAAAAIAAAACAAAAEHBpeGkAAAAAAwgICAAAABZpcG1hAAAAAAAAAAEAAQOBAgMAAAAtbWRhdBIACgc4ADaQENBpMhgf8mKE7///8WfgAJA2ILZsc8f2rUJ8Xxg=',
    'PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI5IiBoZWlnaHQ9IjkiLz4=',
    '',
  )
  .map((text) => Buffer.from(text, 'base64'))

/** Values of form fields, by the type in their schema. */
const SMALL: Any = {
  integer: fc.constantFrom('1', '2', '10', '100'),
  boolean: fc.constantFrom('true', 'false'),
  string: fc.constantFrom('ff0000', '#00ff00'),
}

/** A multipart body with the parts of `schema`. Parts may be missing, repeated or damaged. */
function formOf(schema: Any): fc.Arbitrary<Buffer> {
  const parts = Object.entries<Any>(schema.properties ?? {}).map(([name, member]) => {
    const isFile = member.format === 'binary'
    const file = fc.oneof(
      { weight: 6, arbitrary: files },
      fc.tuple(files, mutation).map(([bytes, mutate]) => mutate(bytes)),
    )
    const small: fc.Arbitrary<string> =
      member.enum === undefined ? SMALL[member.type] : fc.constantFrom<string>(...member.enum)
    const text = fc
      .oneof({ weight: 20, arbitrary: small }, nastyQueryValue)
      .map((value) => Buffer.from(value))
    const filename = fc.constantFrom(
      'a.png',
      '../../a.gif',
      'x'.repeat(300),
      '\u0000',
      '台.bmp',
      '',
    )
    const part = fc.tuple(isFile ? file : text, filename).map(([bytes, given]) => {
      const named = isFile ? `; filename="${given}"` : ''
      const head = `--b\r\nContent-Disposition: form-data; name="${name}"${named}\r\n\r\n`
      return Buffer.concat([Buffer.from(head), bytes, Buffer.from('\r\n')])
    })
    const once = part.map((one) => [one])
    return fc.oneof(
      { weight: isFile ? 10 : 1, arbitrary: once },
      { weight: isFile ? 0 : 3, arbitrary: fc.constant([]) },
      fc.array(part, { maxLength: isFile ? 2 : 1 }),
    )
  })
  const end = fc.constantFrom('--b--\r\n', '--b--\r\n', '--b--', '--b\r\n', '')
  const whole = fc
    .tuple(fc.tuple(...parts), end)
    .map(([lists, last]) => Buffer.concat([...lists.flat(), Buffer.from(last)]))
  const damaged = fc.tuple(whole, mutation).map(([bytes, mutate]) => mutate(bytes))
  return fc.oneof({ weight: 4, arbitrary: whole }, damaged)
}

/** A function that removes, doubles, changes or inserts a few bytes. */
export const mutation: fc.Arbitrary<(bytes: Buffer) => Buffer> = fc
  .tuple(fc.nat(), fc.nat(20), fc.constantFrom('cut', 'double', 'flip', 'insert'), fc.nat(255))
  .map(([place, length, kind, byte]) => (bytes: Buffer) => {
    const at = bytes.length === 0 ? 0 : place % bytes.length
    const [before, piece, after] = [
      bytes.subarray(0, at),
      bytes.subarray(at, at + length),
      bytes.subarray(at + length),
    ]
    if (kind === 'cut') return Buffer.concat([before, after])
    if (kind === 'double') return Buffer.concat([before, piece, piece, after])
    if (kind === 'insert') return Buffer.concat([before, Buffer.of(byte), piece, after])
    const flipped = Buffer.from(bytes)
    if (flipped.length > 0) flipped[at] = (flipped[at] ?? 0) ^ (byte | 1)
    return flipped
  })

/** Encodes a value as a part of a URL. `toWellFormed` replaces lone surrogates, which cannot be encoded. */
function encoded(value: unknown): string {
  return encodeURIComponent(String(value).toWellFormed())
}

/** Returns the bytes that a valid client sends for a request. */
export function bytesOf({ method, path, headers, body }: FuzzRequest, host: string): Buffer {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const length = body.length === 0 ? '' : `Content-Length: ${body.length}\r\n`
  const head = `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('')}${length}\r\n`
  return Buffer.concat([Buffer.from(head), body])
}
