/** Sets lines of a figure while somebody scrapes. */
export interface Gauge<Label extends string> {
  /** The value of the line with these labels, or of the only one. */
  set(labels: Readonly<Record<Label, string>>, value: number): void
  set(value: number): void
}

/** What a figure read at scrape time is made of. */
export interface Figure<Label extends string> {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly Label[]
  /** Sets the gauge to what is true now. */
  collect(this: Gauge<Label>): void | Promise<void>
}

/** The figures of one listener, put into words when somebody scrapes: they cost nothing in between. */
export class Figures {
  readonly #texts: (() => Promise<string>)[] = []

  /** The type of `text`. Source: Prometheus, “Exposition formats”, text format 0.0.4. */
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'

  /** Adds a gauge that is read only then. */
  add<Label extends string>(what: Figure<Label>): void {
    this.#texts.push(() => textOf(what))
  }

  /** All of them as Prometheus text. */
  async text(): Promise<string> {
    const texts = await Promise.all(this.#texts.map((text) => text()))
    return `${texts.join('\n\n')}\n`
  }
}

async function textOf<Label extends string>(what: Figure<Label>): Promise<string> {
  const { name, help } = what
  const lines = new Map<string, number>()
  const gauge: Gauge<Label> = {
    set(...given: [Readonly<Record<Label, string>>, number] | [number]) {
      const [labels, value] = given.length === 1 ? [null, given[0]] : given
      lines.set(labels === null ? '' : labelsText(labels), value)
    },
  }
  await what.collect.call(gauge)
  const values = [...lines].map(([labels, value]) => `${name}${labels} ${numberText(value)}`)
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} gauge`, ...values].join('\n')
}

function labelsText(labels: Readonly<Record<string, string>>): string {
  const each = Object.entries(labels).map(([name, value]) => {
    return `${name}="${escaped(value).replaceAll('"', '\\"')}"`
  })
  return `{${each.join(',')}}`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'Nan'
  if (Number.isFinite(value)) return `${value}`
  return value < 0 ? '-Inf' : '+Inf'
}
