// Writes a data point for each request. `/many` exceeds the limits of a data point.
export default {
  async fetch(request, { VISITS }) {
    const { pathname, searchParams } = new URL(request.url);
    try {
      if (pathname === '/many') VISITS.writeDataPoint({ blobs: Array(21).fill('a') });
      VISITS.writeDataPoint({
        indexes: [pathname],
        blobs: [pathname, null, new TextEncoder().encode('100 %s')],
        doubles: [Number(searchParams.get('n'))],
      });
    } catch (error) {
      return new Response(String(error));
    }
    return new Response('written down');
  },
};
