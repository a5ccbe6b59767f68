// Tidecast in a web page. A browser profile is one device of a project: all tabs share its registration and
// one stream of messages. No dependencies; docs/web-client.md has the whole interface.
//
//   import { getMessaging, getToken, onMessage } from "https://push.example.com/client/v1/messaging.js";
//   const messaging = getMessaging({ projectId: "shop", apiKey: "A…" });
//   onMessage(messaging, (payload) => console.log(payload.notification, payload.data));
//   await getToken(messaging);

/** The server writes a comment every 25 s. A stream that is silent for longer than this is broken. */
const SILENCE_MS = 60_000;
/** Another stream of the same device took over, outside this browser. Two of them must not take turns. */
const REPLACED_MS = 60_000;
const RETRY_MAX_MS = 30_000;
/** Acknowledgements are cumulative, so that one stands for all messages of this time. */
const ACKNOWLEDGE_MS = 400;
/** How long the messages behind one wait for its handlers. */
const HANDLER_MS = 30_000;
const REPAIR_MS = 86_400_000;
const SEEN_MAX = 200;
/** So many ended registrations may wait for the server. Past them, `getToken` makes no further one. */
const ENDED_MAX = 16;
/** The server carries out no call for longer than 25 s. */
const CALL_MS = 60_000;
/** The longest pause before the server is asked again to end a registration. */
const ENDING_MAX_MS = 900_000;
const TOPIC = /^[a-zA-Z0-9\-_.~%]{1,900}$/;

/** An error with a `code` such as `messaging/permission-blocked`, and an answer's HTTP `status`, else 0. */
export class MessagingError extends Error {
  constructor(code, message, answer = {}) {
    super(`${message} (messaging/${code})`);
    this.name = "MessagingError";
    this.code = `messaging/${code}`;
    this.status = answer.status ?? 0;
    this.error = answer.error ?? {};
    this.isForeign = answer.isForeign ?? false;
  }
  /** Whether a later try can succeed. What a machine on the way says is not the server's word. */
  get isTemporary() {
    return this.isForeign || [0, 408, 429].includes(this.status) || this.status >= 500;
  }
  /** Whether the server says that it has no such registration; not, that it does not take the credential. */
  get isEnded() {
    return this.isGone && this.error.status !== "UNAUTHENTICATED";
  }
  /** Whether the server says that it does not know this registration (any more). */
  get isGone() {
    const details = this.error.details ?? [];
    const isOfName = details.some((detail) => detail.fieldViolations?.some(({ field }) => field === "name"));
    return ["NOT_FOUND", "UNAUTHENTICATED"].includes(this.error.status)
      || (this.error.status === "INVALID_ARGUMENT" && isOfName)
      || details.some((detail) => detail.errorCode === "SENDER_ID_MISMATCH");
  }
}

/** Whether this browser, and this page, can use the client. Pages need HTTPS, or a name of this machine. */
export async function isSupported() {
  if (!globalThis.isSecureContext || !navigator.locks || !globalThis.BroadcastChannel || !AbortSignal.any) {
    return false;
  }
  try {
    await database();
    return true;
  } catch {
    return false;
  }
}

// State. `devices` has a record for each server and project: the registration (`token`, `credential`, `web`,
// `lastEvent`), the topics that the app wants, and as `ended` the registrations whose end the server must
// still hear of. `seen` has the ids of the last messages.

let opened;
function database() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("tidecast", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("devices");
      request.result.createObjectStore("seen");
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => {
        request.result.close();
        opened = undefined;
      };
      request.result.onclose = () => (opened = undefined);
      resolve(request.result);
    };
    request.onerror = () => {
      opened = undefined;
      reject(new MessagingError("indexed-db-unsupported", `IndexedDB: ${request.error?.message}`));
    };
  });
  return opened;
}

/** Replaces a value by what `change` makes of it, in one transaction. `undefined` removes it. */
async function update(store, key, change) {
  const transaction = await begin(store, "readwrite");
  const values = transaction.objectStore(store);
  return new Promise((resolve, reject) => {
    let value;
    const read = values.get(key);
    read.onsuccess = () => {
      value = change(read.result);
      if (value === undefined) values.delete(key);
      else values.put(value, key);
    };
    transaction.oncomplete = () => resolve(value);
    transaction.onabort = () => reject(new MessagingError("storage", `${transaction.error?.message}`));
  });
}

/** The browser may have closed the database meanwhile: then it is opened again the next time. */
async function begin(store, mode) {
  const values = await database();
  try {
    return values.transaction(store, mode);
  } catch (error) {
    opened = undefined;
    throw new MessagingError("storage", error.message);
  }
}

async function load(store, key) {
  const request = (await begin(store, "readonly")).objectStore(store).get(key);
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(new MessagingError("storage", `${request.error?.message}`));
  });
}

/** The record of a registration that the app has not ended. */
async function registered(messaging) {
  const device = await load("devices", messaging.key);
  return device?.token ? device : undefined;
}
const added = (ids, id) => (ids.includes(id) ? ids : [...ids, id].slice(-SEEN_MAX));

async function isSeen(messaging, id) {
  return messaging.seen.includes(id) || ((await load("seen", "ids"))?.includes(id) ?? false);
}
/** Notes a message whose handlers are done. Where the browser does not store, this page knows it. */
async function noteSeen(messaging, id) {
  messaging.seen = added(messaging.seen, id);
  await update("seen", "ids", (ids = []) => added(ids, id)).catch(() => {});
}

// The object that the functions take.

class Messaging {
  constructor(server, projectId, apiKey) {
    Object.assign(this, { server, projectId, apiKey });
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
    for (const [target, event] of [[globalThis, "online"], [document, "visibilitychange"]]) {
      target.addEventListener(event, () => wake(this));
    }
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

async function call(messaging, method, path, { body, headers = {}, code = "request-failed" } = {}) {
  let response, answer;
  const json = body === undefined ? {} : { "content-type": "application/json" };
  try {
    response = await fetch(`${messaging.base}${path}`, {
      method, headers: { accept: "application/json", ...json, ...headers }, cache: "no-store",
      credentials: "omit", body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_MS),
    });
    answer = await response.json();
  } catch (error) {
    throw new MessagingError(code, error.message, { status: response?.status, isForeign: true });
  }
  if (response.ok && isObject(answer)) return answer;
  throw refused(code, response.status, answer);
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The error of an answer. A body without the API's error comes from a machine on the way. */
function refused(code, status, answer) {
  const isForeign = !isObject(answer?.error);
  const { error } = isForeign ? {} : answer;
  return new MessagingError(code, error?.message ?? `HTTP ${status}`, { status, error, isForeign });
}
const bearer = (device) => ({ authorization: `Bearer ${device.credential}` });

// Registering

/** The registration's token. The first call registers this browser; later calls, and other tabs, get the same
 * token. With a `vapidKey` (and the `serviceWorkerRegistration` of a worker that has messaging-sw.js), the
 * browser's push service is registered too. */
export async function getToken(messaging, options = {}) {
  messaging.worker = options.serviceWorkerRegistration ?? messaging.worker;
  const known = await registered(messaging);
  const device = known
    ?? await navigator.locks.request(`${messaging.key} register`, () => register(messaging));
  if (!known) {
    wakeAll(messaging);
    carryOn(messaging);
  }
  if (options.vapidKey) await registerPush(messaging, device, options.vapidKey);
  return device.token;
}

async function register(messaging) {
  const code = "token-subscribe-failed";
  const former = await load("devices", messaging.key);
  if (former?.token) return former;
  if (former?.ended?.length >= ENDED_MAX) await endAll(messaging, code);
  const headers = messaging.apiKey ? { "x-goog-api-key": messaging.apiKey } : {};
  const { token, credential } = await call(messaging, "POST", "/registrations", { body: {}, headers, code });
  if (!token) throw new MessagingError("token-subscribe-no-token", "The answer has no token.");
  // Topics that the app wants outlive a registration that the server has ended.
  const change = ({ topics = new Map(), ended = [] } = {}) => ({ token, credential, topics, ended });
  try {
    return await update("devices", messaging.key, change);
  } catch (error) {
    // Nobody will know of this registration.
    await endAtServer(messaging, { token, credential }, code).catch(() => {});
    throw error;
  }
}

/** Whether this browser is registered, without registering it. */
export async function isRegistered(messaging) {
  return Boolean(await registered(messaging));
}

/** Tells the server the address of this browser at its push service, where the address is another. */
async function registerPush(messaging, device, vapidKey) {
  const manager = messaging.worker?.pushManager;
  if (!manager) {
    throw new MessagingError("invalid-sw-registration", "vapidKey needs a serviceWorkerRegistration.");
  }
  if (Notification.permission === "default") await Notification.requestPermission();
  if (Notification.permission !== "granted") {
    const code = Notification.permission === "denied" ? "permission-blocked" : "permission-default";
    throw new MessagingError(code, "The user has not allowed notifications.");
  }
  let subscription = await manager.getSubscription();
  if (subscription && device.web?.applicationPubKey !== vapidKey) {
    await subscription.unsubscribe();
    subscription = null;
  }
  subscription ??= await manager.subscribe({ userVisibleOnly: true, applicationServerKey: vapidKey });
  const { endpoint, keys } = subscription.toJSON();
  const web = { origin: location.host, endpoint, ...keys, applicationPubKey: vapidKey };
  if (JSON.stringify(web) === JSON.stringify(device.web)) return;
  const [fid, proof] = device.token.split(":");
  const code = "token-update-failed";
  const auth = await call(messaging, "POST", `/installations/${fid}/authTokens:generate`,
    { body: {}, headers: { authorization: `FIS_v2 ${device.credential}.${proof}` }, code });
  await call(messaging, "PATCH", `/registrations/${device.token}`,
    { body: { web }, headers: { "x-goog-firebase-installations-auth": `FIS ${auth.token}` }, code });
  await update("devices", messaging.key, (now) => (now?.token === device.token ? { ...now, web } : now));
}

// The end of a registration

/** Ends the registration, its topics and its stream: here at once, and at the server as soon as it answers.
 * True once the server has ended it. After an error this page and later ones go on asking the server. */
export async function deleteToken(messaging) {
  const code = "token-unsubscribe-failed";
  // A `getToken` that came before this call may register meanwhile.
  const later = navigator.locks.request(`${messaging.key} register`, () => end(messaging));
  for (const { reason } of await Promise.allSettled([end(messaging), later])) {
    if (!reason) continue;
    const device = await registered(messaging);
    if (device) await endAtServer(messaging, device, code).catch(() => {});
    throw reason;
  }
  wakeAll(messaging);
  const { ended } = await load("devices", messaging.key) ?? {};
  ended?.forEach((device) => dropPush(device).catch(() => {}));
  try {
    await endAll(messaging, code);
  } catch (error) {
    carryOn(messaging);
    throw error;
  }
  return true;
}

/** Stores that the app has ended its registration and forgotten its topics. */
const end = (messaging) => update("devices", messaging.key, (device) => {
  if (!device) return device;
  const { token, credential, web, ended = [] } = device;
  const one = token ? [{ token, credential, endpoint: web?.endpoint }] : [];
  return { topics: new Map(), ended: [...ended, ...one] };
});

/** Ends all registrations that the app has ended at the server. Fails with the first one that it cannot. */
const endAll = (messaging, code) => navigator.locks.request(`${messaging.key} end`, async () => {
  const { ended = [] } = await load("devices", messaging.key) ?? {};
  for (const device of ended) {
    await Promise.all([endAtServer(messaging, device, code), dropPush(device)]);
    await update("devices", messaging.key, (now) => now
      && { ...now, ended: (now.ended ?? []).filter(({ token }) => token !== device.token) });
  }
});

async function endAtServer(messaging, device, code) {
  try {
    await call(messaging, "DELETE", `/registrations/${device.token}`, { headers: bearer(device), code });
  } catch (error) {
    if (!error.isEnded) throw error;
  }
}

/** The browser's push service must not show the next user what comes for the former one. */
async function dropPush({ endpoint }) {
  if (!endpoint) return;
  for (const worker of await navigator.serviceWorker?.getRegistrations() ?? []) {
    const subscription = await worker.pushManager?.getSubscription();
    if (subscription?.endpoint === endpoint) await subscription.unsubscribe();
  }
}

/** Carries out what an earlier page or call left undone: ends of registrations, and wishes. */
function carryOn(messaging) {
  messaging.carrying ??= (async () => {
    for (let failures = 0; ; failures += 1) {
      try {
        await endAll(messaging);
        await settleAll(messaging);
        const { ended } = await load("devices", messaging.key) ?? {};
        if (!ended?.length) return;
      } catch (error) {
        if (error.isGone) return;
        await pause(messaging, backoff(failures, ENDING_MAX_MS));
      }
    }
  })().finally(() => (messaging.carrying = undefined));
}

/** The server has ended the registration. What the app wanted stays, for the next registration. */
async function forget(messaging, token) {
  let isOurs = false;
  await update("devices", messaging.key, (device) => {
    isOurs = device?.token === token;
    if (!isOurs) return device;
    // Without a registration there is no subscription to end.
    const wanted = [...device.topics].filter(([, { isWanted }]) => isWanted);
    const topics = new Map(wanted.map(([topic, wish]) => [topic, { ...wish, isDone: false }]));
    return { topics, ended: device.ended };
  });
  if (!isOurs) return;
  messaging.channel.postMessage({ type: "unregistered" });
  await run(messaging, "unregistered");
}

// Topics. The app's wishes are stored, so that each is carried out, also after a reload.

/** Done once the server has the subscription. Without a connection, the client tries until there is one. */
export const subscribeToTopic = (messaging, topic) => wish(messaging, topic, true);
/** Done once the server has ended the subscription. */
export const unsubscribeFromTopic = (messaging, topic) => wish(messaging, topic, false);

/** The topics that the app wants, in order, also those that the server does not have yet. */
export async function getTopics(messaging) {
  const topics = (await load("devices", messaging.key))?.topics ?? new Map();
  return [...topics].filter(([, { isWanted }]) => isWanted).map(([topic]) => topic).sort();
}

async function wish(messaging, text, isWanted) {
  const topic = String(text).replace(/^\/topics\//, "");
  if (!TOPIC.test(topic)) throw new MessagingError("invalid-topic-name", `"${topic}" is no topic's name.`);
  const stored = await update("devices", messaging.key, (device) => {
    if (!device?.token) {
      // Without a registration there is no subscription to end.
      if (!isWanted) device?.topics.delete(topic);
      return device;
    }
    const version = (device.topics.get(topic)?.version ?? 0) + 1;
    device.topics.set(topic, { isWanted, isDone: false, version });
    return device;
  });
  if (!stored?.token && !isWanted) return;
  for (let failures = 0; ; failures += 1) {
    try {
      return await settle(messaging, topic);
    } catch (error) {
      if (!error.isTemporary) throw error;
      await pause(messaging, backoff(failures));
    }
  }
}

/** Carries out one wish, where it is not done yet. */
function settle(messaging, topic) {
  return navigator.locks.request(`${messaging.key} topic ${topic}`, async () => {
    const device = await registered(messaging);
    if (!device) throw new MessagingError("not-registered", "Call getToken first.", { status: 400 });
    const wanted = device.topics.get(topic);
    if (!wanted || wanted.isDone) return;
    const settled = (isKept) => update("devices", messaging.key, (now) => {
      if (now?.topics.get(topic)?.version !== wanted.version) return now;
      if (isKept) now.topics.set(topic, { ...wanted, isDone: true });
      else now.topics.delete(topic);
      return now;
    });
    const verb = wanted.isWanted ? "subscribe" : "unsubscribe";
    const path = `/registrations/${device.token}/topicSubscriptions/${encodeURIComponent(topic)}:${verb}`;
    try {
      await call(messaging, "POST", path, { headers: bearer(device), code: `topic-${verb}-failed` });
    } catch (error) {
      if (error.isGone) await forget(messaging, device.token);
      if (error.isGone && !wanted.isWanted) return;
      if (!error.isGone && !error.isTemporary) await settled(false);
      throw error;
    }
    await settled(wanted.isWanted);
  });
}

/** Carries out all wishes. Once a day, first asks the server which subscriptions it still has. */
async function settleAll(messaging) {
  let device = await registered(messaging);
  if (!device) return;
  // A clock that was ahead once must not stop the comparison until then.
  const age = Date.now() - device.repaired;
  if (device.topics.size > 0 && !(age >= 0 && age < REPAIR_MS)) {
    const there = new Set();
    for (let page = "", isFirst = true; page || isFirst; isFirst = false) {
      const path = `/registrations/${device.token}/topicSubscriptions?pageToken=${encodeURIComponent(page)}`;
      const answer = await call(messaging, "GET", path, { headers: bearer(device) });
      for (const { topicName } of answer.topicSubscriptions) there.add(topicName);
      page = answer.nextPageToken;
    }
    const { token } = device;
    device = await update("devices", messaging.key, (now) => {
      if (now?.token !== token) return now;
      for (const [topic, wanted] of now.topics) {
        if (wanted.isWanted && !there.has(topic)) wanted.isDone = false;
      }
      return { ...now, repaired: Date.now() };
    });
  }
  for (const [topic, { isDone }] of device?.topics ?? []) {
    if (isDone) continue;
    await settle(messaging, topic).catch((error) => {
      if (error.isTemporary || error.isGone) throw error;
      console.warn(error.message);
    });
  }
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

const reads = ({ handlers }) => Boolean(handlers.message || handlers.deleted);

async function run(messaging, kind, ...values) {
  try {
    await messaging.handlers[kind]?.(...values);
  } catch (error) {
    // A handler that fails must not stop the messages behind this one.
    globalThis.reportError?.(error);
  }
}

function connected(messaging, state, isHere) {
  if (messaging.connection.state === state && messaging.connection.isHere === isHere) return;
  messaging.connection = { state, isHere };
  run(messaging, "connection", messaging.connection);
  if (isHere) messaging.channel.postMessage({ type: "connection", state });
}

// Tabs. A lock for each tab with handlers shows which ones live; the lock of the stream, who reads.

const tabLock = (messaging) => `${messaging.key} tab `;

async function otherTabs(messaging) {
  const { held } = await navigator.locks.query();
  const ids = held.map(({ name }) => name).filter((name) => name.startsWith(tabLock(messaging)))
    .map((name) => name.slice(tabLock(messaging).length));
  return new Set(ids.filter((id) => id !== messaging.id));
}

/** Takes part in who reads the stream, once this tab has handlers. */
function compete(messaging) {
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

async function heard(messaging, data) {
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
async function tell(messaging, type, payload) {
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

// The stream

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
      const isForgotten = error.isGone
        && await forget(messaging, device.token).then(() => true, () => false);
      if (isForgotten) continue;
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
  const headers = { ...bearer(device), accept: "text/event-stream" };
  if (device.lastEvent) headers["last-event-id"] = device.lastEvent;
  const response = await fetch(`${messaging.base}/registrations/${device.token}:listen`, {
    headers, cache: "no-store", credentials: "omit", signal: AbortSignal.any([stop, silence.signal]),
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
  connected(messaging, "open", true);
  settleAll(messaging).catch(() => {});
  let wait = 500 + Math.random() * 1000;
  for await (const event of events(response.body, silence)) {
    wait = event.retry ?? wait;
    if (event.name === "replaced") wait = REPLACED_MS;
    if (event.name === "unregistered") {
      throw refused("unregistered", 404, { error: { status: "NOT_FOUND", message: "unregistered" } });
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

// Time

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const backoff = (failures, max = RETRY_MAX_MS) =>
  Math.min(max, 500 * 2 ** Math.min(failures, 30)) * (0.5 + Math.random() / 2);
const wake = (messaging) => messaging.woken.dispatchEvent(new Event("wake"));
/** A registration was made or ended: all tabs look at it. */
function wakeAll(messaging) {
  messaging.channel.postMessage({ type: "wake" });
  wake(messaging);
}

/** Waits, but not past the moment when there is reason to try at once: the network is back, the tab is shown,
 * a registration was made or ended. */
function pause(messaging, ms, signal) {
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
