// A binding that is not available here: every method throws with a message. A Worker may test whether it exists.

/** JavaScript and consoles read these properties of any object. */
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
