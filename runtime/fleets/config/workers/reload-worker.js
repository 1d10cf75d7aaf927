// During development: adds a script to pages, which reloads them when the app has changed. Only documents that a browser
// shows get the script; other responses are the same as in production.

const SCRIPT = `<script>{let first;new EventSource('/.well-known/fleet/reload').onmessage=({data})=>{first??=data;if(data!==first)location.reload()}}</script>`;
const SHOWN = ['document', 'iframe'];

export default {
  async fetch(request, { APP }) {
    const response = await APP.fetch(request);
    const { headers } = response;
    const isPage =
      SHOWN.includes(request.headers.get('sec-fetch-dest')) &&
      headers.get('content-type')?.startsWith('text/html') &&
      !headers.has('content-encoding');
    if (!isPage || response.body === null) return response;
    return new HTMLRewriter()
      .onDocument({ end: (end) => void end.append(SCRIPT, { html: true }) })
      .transform(response);
  },
};
