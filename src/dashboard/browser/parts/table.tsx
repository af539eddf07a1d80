import type { ComponentChildren, JSX } from 'preact'

export interface TableColumn {
  readonly head: ComponentChildren
  /** The name that a narrow page shows before each cell. */
  readonly label?: string
  readonly sort?: 'ascending' | 'descending' | 'none'
}

/** A table of items. The first `headings` cells of each row are its headings. */
export function Table(props: {
  class: string
  headings: number
  columns: readonly TableColumn[]
  rows: readonly (readonly [key: string | number, ...cells: ComponentChildren[]])[]
}): JSX.Element {
  return (
    <div class="table-frame">
      <table class={`items ${props.class}`}>
        <thead>
          <tr>
            {props.columns.map(({ head, sort }, at) => (
              <th key={at} scope="col" {...(sort === undefined ? {} : { 'aria-sort': sort })}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map(([key, ...cells]) => (
            <tr key={key}>
              {cells.map((cell, at) => {
                const label = props.columns[at]?.label
                const data = label === undefined ? {} : { 'data-label': label }
                return at < props.headings ? (
                  <th key={at} scope="row" {...data}>
                    {cell}
                  </th>
                ) : (
                  <td key={at} {...data}>
                    {cell}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
