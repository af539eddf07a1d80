/**
 * What is used of Node's HTTP besides its types. It is not imported, because the module that `import`
 * makes of it also loads the client behind `fetch`: a third of what the start of a thread costs.
 */
export const { METHODS, request, ServerResponse, STATUS_CODES } =
  process.getBuiltinModule('node:http')
