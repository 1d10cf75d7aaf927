// Puts the files of a cache into a bucket or a KV namespace. Runs inside workerd, as an app's Worker would.

/** Number of files put at once. It is small, because each file may be buffered in memory. */
const AT_ONCE = 8;

export default {
  /** Takes `{directory, prefix}` and answers `{}` or `{failed: {at, message}}`. */
  async fetch(request, { RELEASE, CACHE }) {
    const { directory, prefix } = await request.json();
    let at = directory;
    try {
      const files = await filesIn(RELEASE, directory, '');
      const put = async () => {
        for (let file = files.pop(); file !== undefined; file = files.pop()) {
          const key = `${prefix}/${file}`.replace(/\/+/g, '/');
          try {
            await CACHE.put(key, (await read(RELEASE, `${directory}/${file}`)).body);
          } catch (error) {
            at = key;
            files.length = 0;
            throw error;
          }
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, put));
      return Response.json({});
    } catch (error) {
      return Response.json({ failed: { at, message: error.message } });
    }
  },
};

/** Returns the paths of all files below a directory of the release, relative to it. @param above the subfolder to search */
async function filesIn(release, directory, above) {
  const found = [];
  for (const { name, type } of await (await read(release, `${directory}/${above}`)).json()) {
    if (type === 'directory') found.push(...(await filesIn(release, directory, `${above}${name}/`)));
    else found.push(above + name);
  }
  return found;
}

async function read(release, path) {
  const response = await release.fetch(`http://release/${path.split('/').map(encodeURIComponent).join('/')}`);
  if (response.status !== 200) throw new Error(`${path} cannot be read (${response.status})`);
  return response;
}
