/**
 * Returns a function that returns the action `name` of the module that `load` imports. The module is loaded when the
 * command runs, so that the help of a command needs none of the code behind it.
 */
export function actionsFrom<Module>(load: () => Promise<Module>) {
  return <Name extends keyof Module>(name: Name) =>
    async (...args: Parameters<Action<Module[Name]>>): Promise<void> => {
      const action: Module[Name] = (await load())[name]
      if (typeof action === 'function') await action(...args)
    }
}

type Action<Member> = Extract<Member, (...args: never[]) => unknown>
