// One process that takes requests: its connection pool, and a count of what is in flight, so that a drain sees
// every request.
