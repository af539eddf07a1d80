/**
 * The query parameter `filter` for an OpenAPI document: a text, the JSON form, with the bracket form in its
 * description. Tools send exploded deep objects in different ways, so none is declared.
 */
export const FILTER_PARAMETERS = {
  filter: {
    type: 'string',
    shownPattern: '^\\s*\\{',
    description: `Which items, in which order, and how much of them; JSON, or spelt in brackets.

    {"where":{"country":"JP","qty":{"gte":1,"lt":5}},"order":["name ASC"],"limit":10,"offset":20,"fields":["name"]}
    filter[where][country]=JP&filter[where][qty][lt]=5&filter[order]=name ASC&filter[limit]=10

Operators: eq neq gt gte lt lte between inq nin like nlike ilike nilike regexp exists; and, or; paths with dots.
All operators of a field must hold.`,
  },
} as const
