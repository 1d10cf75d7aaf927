// A binding that is not available here: every method throws an error that says why. The binding itself is an object, so that
// a Worker may test whether it exists.

/** Properties that JavaScript and consoles read from any object, so they must not be methods that throw. */
const QUIET = ['then', 'toJSON', 'constructor', 'toString', 'valueOf', 'inspect', 'nodeType', '$$typeof'];

export default ({ message }) =>
  new Proxy(
    {},
    {
      get(target, name) {
        if (typeof name === 'symbol' || QUIET.includes(name)) return Reflect.get(target, name);
        return () => {
          throw new Error(message);
        };
      },
    },
  );
