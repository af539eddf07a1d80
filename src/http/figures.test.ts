import { expect, it } from 'vitest'
import { Figures } from './figures.ts'

it('figures are Prometheus text, read anew at each scrape, with labels that hold any text', async () => {
  let count = 1
  const figures = new Figures()
  figures.add({
    name: 'one',
    help: 'A \\ and\na line',
    labelNames: [],
    async collect() {
      this.set(count)
    },
  })
  figures.add({
    name: 'each',
    help: 'By name',
    labelNames: ['name', 'url'],
    collect() {
      if (count > 1) return
      this.set({ name: 'a', url: '' }, Number.NaN)
      this.set({ name: 'b', url: 'say "\\" \n' }, Number.POSITIVE_INFINITY)
      this.set({ name: 'a', url: '' }, 0.5)
    },
  })
  expect(await figures.text()).toBe(
    '# HELP one A \\\\ and\\na line\n# TYPE one gauge\none 1\n\n' +
      '# HELP each By name\n# TYPE each gauge\n' +
      'each{name="a",url=""} 0.5\neach{name="b",url="say \\"\\\\\\" \\n"} +Inf\n',
  )
  count = 2
  expect(await figures.text()).toBe(
    '# HELP one A \\\\ and\\na line\n# TYPE one gauge\none 2\n\n# HELP each By name\n# TYPE each gauge\n',
  )
})
