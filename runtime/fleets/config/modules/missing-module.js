// A binding that is not available here: every method throws, and says so. A Worker may ask whether it is there.

/** Languages and consoles read these of any object. */
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
