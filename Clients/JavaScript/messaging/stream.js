// The stream, which one tab of a browser reads, and the way of a message to its handlers.
import { bearer, call, MessagingError, refused } from "./server.js";
import { isSeen, noteSeen, registered, update } from "./storage.js";
import { connected, HANDLER_MS, reads, tabLock, tell } from "./tabs.js";
import { backoff, pause, signals, sleep } from "./time.js";
import { loses, settleAll, trust } from "./topics.js";

/** The server writes a comment every 25 s. A stream that is silent for longer than this is broken. */
const SILENCE_MS = 60_000;
/** Another stream of the same device took over, outside this browser. Two of them must not take turns. */
const REPLACED_MS = 60_000;
/** Acknowledgements are cumulative, so one is enough for all messages of this time. */
const ACKNOWLEDGE_MS = 400;

/** Takes part in who reads the stream, once this tab has handlers. */
export function compete(messaging) {
  if (!reads(messaging) || messaging.stopping || messaging.isAway) return;
  const stopping = new AbortController();
  const { signal } = stopping;
  messaging.stopping = stopping;
  const here = new Promise((resolve) => signal.addEventListener("abort", resolve));
  const locks = [
    navigator.locks.request(tabLock(messaging) + messaging.id, { signal }, () => here),
    navigator.locks.request(`${messaging.key} stream`, { signal }, () => hold(messaging, signal)),
  ];
  Promise.allSettled(locks).then(() => {
    messaging.stopping = undefined;
    compete(messaging);
  });
}

async function hold(messaging, signal) {
  let failures = 0;
  while (!signal.aborted) {
    let device, wait;
    try {
      device = await registered(messaging);
      if (!device) {
        connected(messaging, "closed", true);
        await pause(messaging, Infinity, signal);
        continue;
      }
      wait = await listen(messaging, device, signal, () => (failures = 0));
    } catch (error) {
      if (device && await loses(messaging, device.token, error).catch(() => false)) continue;
      wait = backoff(failures);
      failures += 1;
    }
    if (signal.aborted) break;
    connected(messaging, "waiting", true);
    await pause(messaging, wait, signal);
  }
  connected(messaging, "closed", true);
  messaging.connection = { state: "closed", isHere: false };
}

/** Reads one stream to its end. Returns after how many milliseconds to come back. */
async function listen(messaging, device, stop, opened) {
  const silence = new AbortController();
  const headers = { ...bearer(device), accept: "text/event-stream, application/json" };
  if (device.lastEvent) headers["last-event-id"] = device.lastEvent;
  const response = await fetch(`${messaging.base}/registrations/${device.token}:listen`, {
    headers, cache: "no-store", redirect: "error", credentials: "omit",
    signal: signals.any([stop, silence.signal]),
  });
  if (!response.ok) {
    throw refused("stream-refused", response.status, await response.json().catch(() => ({})));
  }
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    throw new MessagingError("stream-refused", "The answer is no stream of events.");
  }
  // Another tab, or this one, may end the registration while nothing comes.
  messaging.woken.addEventListener("wake", async () => {
    if ((await registered(messaging))?.token !== device.token) silence.abort();
  }, { signal: silence.signal });
  opened();
  await trust(messaging, device.token);
  connected(messaging, "open", true);
  settleAll(messaging).catch(() => {});
  let wait = 500 + Math.random() * 1000;
  for await (const event of events(response.body, silence)) {
    wait = event.retry ?? wait;
    if (event.name === "replaced") wait = REPLACED_MS;
    if (event.name === "unregistered") {
      const details = [{ errorCode: "UNREGISTERED" }];
      throw refused("unregistered", 404, { error: { message: "unregistered", details } });
    }
    if (!event.id) continue;
    // Another tab may have ended the registration: its messages are not for who comes next.
    if ((await registered(messaging))?.token !== device.token) return 0;
    await handle(messaging, device, event);
  }
  return wait;
}

async function handle(messaging, device, event) {
  if (event.name === "deleted_messages") await tell(messaging, "deleted");
  if (event.name === "message") await take(messaging, JSON.parse(event.data));
  // The server's note of the acknowledgement does, where the browser does not store.
  await update("devices", messaging.key,
    (now) => (now?.token === device.token ? { ...now, lastEvent: event.id } : now)).catch(() => {});
  acknowledge(messaging, device, event.id);
}

/** The events of a body of server-sent events (HTML, 9.2.6). Ends it where nothing comes for too long. */
async function* events(body, silence) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  /** @type {{name?: string, data?: string, id?: string, retry?: number}} */
  let event = {};
  try {
    for (;;) {
      const timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const { value, done } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const [, field, text] = /^([^:]*):? ?(.*?)\r?$/s.exec(line);
        if (line === "" || line === "\r") {
          if (event.name || event.data) yield event;
          event = {};
        } else if (field === "event") event.name = text;
        else if (field === "data") event.data = event.data === undefined ? text : `${event.data}\n${text}`;
        else if (field === "id") event.id = text;
        else if (field === "retry" && /^\d+$/.test(text)) event.retry = Number(text);
      }
    }
  } finally {
    // The reader of the events may leave before the stream ends: that closes the connection.
    silence.abort();
  }
}

/** What handlers get, and what a notification shows: the part for the web counts before the common one. */
function compose(message) {
  const web = message.webpush ?? {};
  const shown = { ...message.notification, ...web.notification };
  const isShown = Boolean(message.notification || web.notification);
  const { title, body, image, icon } = shown;
  const { link, analyticsLabel = message.fcmOptions?.analyticsLabel } = web.fcmOptions ?? {};
  const all = {
    from: message.from, messageId: message.messageId, sentTime: message.sentTime,
    collapseKey: message.collapseKey, notification: isShown ? tidy({ title, body, image, icon }) : undefined,
    data: web.data ?? message.data,
    fcmOptions: link || analyticsLabel ? tidy({ link, analyticsLabel }) : undefined,
  };
  return { payload: tidy(all), notification: isShown ? shown : undefined };
}

const tidy = (value) => Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined));

/** Delivers a message that has not come by push, and notes it when its handlers are done. The worker holds
 * the same lock while it delivers what comes by push, so that neither of them begins what the other has. */
function take(messaging, message) {
  return navigator.locks.request(`tidecast message ${message.messageId}`, async () => {
    if (await isSeen(messaging, message.messageId)) return;
    await deliver(messaging, compose(message));
    await noteSeen(messaging, message.messageId);
  });
}

/** To the worker, where no tab is visible and the worker takes the message; else to all tabs. */
async function deliver(messaging, { payload, notification }) {
  if (document.visibilityState !== "visible" && messaging.worker?.active) {
    const { port1, port2 } = new MessageChannel();
    const answer = new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data.isTaken)));
    messaging.worker.active.postMessage({ tidecast: "background", payload, notification }, [port2]);
    if (await Promise.race([answer, sleep(HANDLER_MS)])) return;
  }
  await tell(messaging, "message", payload);
}

/** Tells the server how far all handlers are. One request at a time; the stream's next start says it too. */
function acknowledge(messaging, device, id) {
  messaging.handled = id;
  messaging.acknowledging ??= (async () => {
    try {
      for (let told; told !== messaging.handled;) {
        await sleep(ACKNOWLEDGE_MS);
        told = messaging.handled;
        await call(messaging, "POST", `/registrations/${device.token}:acknowledge`,
          { body: { eventId: told }, headers: bearer(device) });
      }
    } catch {
      // The next message, or the next start of the stream, tells it.
    } finally {
      messaging.acknowledging = undefined;
    }
  })();
}
