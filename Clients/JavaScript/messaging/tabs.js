// Tabs. A lock for each tab with handlers shows which ones live; the lock of the stream, who reads.
import { sleep, wake } from "./time.js";

/** How long the messages behind one wait for its handlers. */
export const HANDLER_MS = 30_000;

export const reads = ({ handlers }) => Boolean(handlers.message || handlers.deleted);

export async function run(messaging, kind, ...values) {
  try {
    await messaging.handlers[kind]?.(...values);
  } catch (error) {
    // A handler that fails must not stop the messages behind this one.
    globalThis.reportError?.(error);
  }
}

export function connected(messaging, state, isHere) {
  if (messaging.connection.state === state && messaging.connection.isHere === isHere) return;
  messaging.connection = { state, isHere };
  run(messaging, "connection", messaging.connection);
  if (isHere) messaging.channel.postMessage({ type: "connection", state });
}

export const tabLock = (messaging) => `${messaging.key} tab `;

async function otherTabs(messaging) {
  const { held } = await navigator.locks.query();
  const ids = held.map(({ name }) => name).filter((name) => name.startsWith(tabLock(messaging)))
    .map((name) => name.slice(tabLock(messaging).length));
  return new Set(ids.filter((id) => id !== messaging.id));
}

export async function heard(messaging, data) {
  switch (data.type) {
    case "message": case "deleted":
      await run(messaging, data.type, data.payload);
      messaging.channel.postMessage(
        { type: "handled", number: data.number, to: data.from, id: messaging.id });
      break;
    case "handled": {
      const waiting = data.to === messaging.id ? messaging.replies.get(data.number) : undefined;
      waiting?.tabs.delete(data.id);
      if (waiting?.tabs.size === 0) waiting.resolve();
      break;
    }
    case "wake": wake(messaging); break;
    case "unregistered": await run(messaging, "unregistered"); break;
    case "connection": connected(messaging, data.state, false); break;
    case "hello": {
      const { state, isHere } = messaging.connection;
      if (isHere) messaging.channel.postMessage({ type: "connection", state });
      break;
    }
  }
}

/** Runs the handlers of all tabs, and waits for them. */
export async function tell(messaging, type, payload) {
  const tabs = await otherTabs(messaging);
  const number = (messaging.number += 1);
  const handled = new Promise((resolve) => messaging.replies.set(number, { tabs, resolve }));
  messaging.channel.postMessage({ type, payload, number, from: messaging.id });
  const end = performance.now() + HANDLER_MS;
  await Promise.race([run(messaging, type, payload), sleep(HANDLER_MS)]);
  while (tabs.size > 0 && performance.now() < end) {
    await Promise.race([handled, sleep(1000)]);
    // A tab that was closed does not answer.
    const living = await otherTabs(messaging);
    for (const id of tabs) if (!living.has(id)) tabs.delete(id);
  }
  messaging.replies.delete(number);
}
