/** Returns a function that returns this process's CPU time since this call, in ms. Unlike the clock, it does not count other programs. */
export function cpuTime(): () => number {
  const from = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(from);
    return (user + system) / 1000;
  };
}
