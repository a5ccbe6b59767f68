// Pauses, and what ends them early.

// The checker's declarations lack `any` and `timeout`.
/** @type {any} */
export const signals = AbortSignal;
const RETRY_MAX_MS = 30_000;

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const backoff = (failures, max = RETRY_MAX_MS) =>
  Math.min(max, 500 * 2 ** Math.min(failures, 30)) * (0.5 + Math.random() / 2);
export const wake = (messaging) => messaging.woken.dispatchEvent(new Event("wake"));
/** A registration was made or ended: all tabs look at it. */
export function wakeAll(messaging) {
  messaging.channel.postMessage({ type: "wake" });
  wake(messaging);
}

/** Waits, but not past the moment when there is reason to try at once: the network is back, the tab is shown,
 * a registration was made or ended. */
export function pause(messaging, ms, signal) {
  return new Promise((resolve) => {
    const timer = ms === Infinity ? undefined : setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      messaging.woken.removeEventListener("wake", end);
      signal?.removeEventListener("abort", end);
      resolve();
    }
    messaging.woken.addEventListener("wake", end);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
