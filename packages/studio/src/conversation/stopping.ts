const LATER_MS = 500;

/**
 * Asks for a run to be stopped; returns whether there was one. A message that was just sent may reach the server
 * after that, so it is then asked once more.
 */
export async function stopRun(interrupt: () => Promise<boolean>, justSent: boolean): Promise<boolean> {
  if (await interrupt()) return true;
  if (!justSent) return false;
  await new Promise((done) => setTimeout(done, LATER_MS));
  return interrupt();
}
