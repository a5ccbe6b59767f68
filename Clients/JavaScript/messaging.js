// Tidecast in a web page. A browser profile is one device of a project: all tabs share its registration and
// one stream of messages. No dependencies; docs/web-client.md has the whole interface.
//
//   import { getMessaging, getToken, onMessage } from "https://push.example.com/client/v1/messaging.js";
//   const messaging = getMessaging({ projectId: "shop", apiKey: "A…" });
//   onMessage(messaging, (payload) => console.log(payload.notification, payload.data));
//   await getToken(messaging);
//
// The modules behind this one are in the folder messaging, beside this file.
import { carryOn } from "./messaging/registration.js";
import { database } from "./messaging/storage.js";
import { MessagingError } from "./messaging/server.js";
import { compete } from "./messaging/stream.js";
import { heard, reads, run } from "./messaging/tabs.js";
import { signals, wake } from "./messaging/time.js";

export { MessagingError };
export { deleteToken, getToken, isRegistered } from "./messaging/registration.js";
export { getTopics, subscribeToTopic, unsubscribeFromTopic } from "./messaging/topics.js";

/** Whether this browser, and this page, can use the client. Pages need HTTPS, or a name of this machine. */
export async function isSupported() {
  if (!globalThis.isSecureContext || !navigator.locks || !globalThis.BroadcastChannel || !signals.any) {
    return false;
  }
  try {
    await database();
    return true;
  } catch {
    return false;
  }
}

// The object that the functions take.

class Messaging {
  constructor(server, projectId, apiKey) {
    this.server = server;
    this.projectId = projectId;
    this.apiKey = apiKey;
    this.key = `tidecast ${server} ${projectId}`;
    this.id = crypto.randomUUID();
    this.handlers = {};
    this.seen = [];
    this.connection = { state: "closed", isHere: false };
    this.worker = undefined;
    this.isAway = false;
    this.stopping = undefined;
    this.number = 0;
    this.replies = new Map();
    this.woken = new EventTarget();
    this.channel = new BroadcastChannel(this.key);
    this.channel.onmessage = ({ data }) => heard(this, data);
    this.channel.postMessage({ type: "hello" });
    addEventListener("online", () => wake(this));
    document.addEventListener("visibilitychange", () => wake(this));
    // A page that the browser keeps for its back button is frozen: it must not hold the stream meanwhile.
    addEventListener("pagehide", () => {
      this.isAway = true;
      this.stopping?.abort();
    });
    addEventListener("pageshow", () => {
      this.isAway = false;
      compete(this);
    });
    // The worker asks who is there, and notes a pushed message when the handlers of those are done.
    navigator.serviceWorker?.addEventListener("message", async ({ data, ports }) => {
      if (!data?.tidecast || !this.handlers.message) return;
      if (data.tidecast === "message") await run(this, "message", data.payload);
      ports[0]?.postMessage({ isVisible: document.visibilityState === "visible" });
    });
    carryOn(this);
  }
  get base() {
    return `${this.server}/v1/projects/${encodeURIComponent(this.projectId)}`;
  }
}

const all = new Map();

/** The client of a project. `server` is where this file came from unless `app` names another one; `apiKey` is
 * the project's key for apps, which a development server does not need. */
export function getMessaging(app = {}) {
  const { server = new URL(import.meta.url).origin, projectId, apiKey } = app;
  if (!projectId) {
    throw new MessagingError("missing-app-config-values", "getMessaging needs a projectId.");
  }
  const origin = new URL(server).href.replace(/\/+$/, "");
  const known = all.get(`${origin} ${projectId}`) ?? new Messaging(origin, projectId, apiKey);
  known.apiKey = apiKey ?? known.apiKey;
  all.set(`${origin} ${projectId}`, known);
  return known;
}

// Handlers. One of each kind in each tab; a later one replaces the one before.

const handler = (messaging, kind, given) => {
  const call = typeof given === "function" ? given : given.next.bind(given);
  messaging.handlers[kind] = call;
  compete(messaging);
  return () => {
    if (messaging.handlers[kind] === call) delete messaging.handlers[kind];
    if (!reads(messaging)) messaging.stopping?.abort();
  };
};

/** `given` gets each message, in every tab. A message is acknowledged when all handlers are done, so return
 * the promise of work that must not be lost. The stream opens with the first handler. */
export const onMessage = (messaging, given) => handler(messaging, "message", given);
/** The server has dropped messages that waited for too long: ask your own server for what they said. */
export const onDeletedMessages = (messaging, given) => handler(messaging, "deleted", given);
/** The server has ended the registration. `getToken` makes another one. */
export const onUnregistered = (messaging, given) => handler(messaging, "unregistered", given);
/** `given` gets `{state, isHere}`: `open`, `waiting` (for the server) or `closed`, and whether this tab reads
 * the stream for all tabs. */
export function onConnection(messaging, given) {
  const stop = handler(messaging, "connection", given);
  given(messaging.connection);
  return stop;
}
