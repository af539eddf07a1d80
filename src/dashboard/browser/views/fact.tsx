import type { ComponentChildren, JSX } from 'preact'

/** A row of a list of facts: what it is, in words if they help, and its value. */
export function Fact(props: {
  name: string
  hint?: string
  children: ComponentChildren
}): JSX.Element {
  return (
    <div class="fact">
      <dt>
        {props.name}
        {props.hint !== undefined && <small>{props.hint}</small>}
      </dt>
      <dd>{props.children}</dd>
    </div>
  )
}
