/** Returns a function that returns this process's CPU time since this call, in ms. Other programs do not change that time. */
export function cpuTime(): () => number {
  const from = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(from);
    return (user + system) / 1000;
  };
}
