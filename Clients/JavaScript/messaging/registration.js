// The registration of this browser: how it is made, and how it ends.
import { bearer, call, MessagingError } from "./server.js";
import { load, registered, update } from "./storage.js";
import { backoff, pause, wakeAll } from "./time.js";
import { isDoubted, settleAll } from "./topics.js";

/** So many ended registrations may wait for the server. Past them, `getToken` makes no further one. */
const ENDED_MAX = 16;
/** The longest pause before the server is asked again to end a registration. */
const ENDING_MAX_MS = 900_000;

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
  const waiting = (former?.ended ?? []).filter(({ isReplaced }) => !isReplaced);
  if (waiting.length >= ENDED_MAX) await endAll(messaging, code);
  const headers = messaging.apiKey ? { "x-goog-api-key": messaging.apiKey } : {};
  const { token, credential } = await call(messaging, "POST", "/registrations", { body: {}, headers, code });
  if (!token || !credential) {
    throw new MessagingError("token-subscribe-no-token", "The answer has no registration.");
  }
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
  for (const result of await Promise.allSettled([end(messaging), later])) {
    if (result.status === "fulfilled") continue;
    const device = await registered(messaging);
    if (device) await endAtServer(messaging, device, code).catch(() => {});
    throw result.reason;
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
  if ((await load("devices", messaging.key))?.ended?.length) carryOn(messaging);
  return true;
}

/** Stores that the app has ended its registration and forgotten its topics. */
const end = (messaging) => update("devices", messaging.key, (device) => {
  if (!device) return device;
  const { token, credential, web, ended = [] } = device;
  const one = token ? [{ token, credential, endpoint: web?.endpoint }] : [];
  return { topics: new Map(), ended: [...ended, ...one] };
});

/** Ends all registrations of which the server must still hear. Fails with the first error, after it has tried
 * all. The end of a replaced registration, which this server may never confirm, is no reason to fail. */
const endAll = (messaging, code) => navigator.locks.request(`${messaging.key} end`, async () => {
  const { ended = [] } = await load("devices", messaging.key) ?? {};
  let failure;
  for (const device of ended) {
    try {
      // Both, so that an app that hears of a failure may close the page.
      const done = await Promise.allSettled([endAtServer(messaging, device, code), dropPush(device)]);
      for (const one of done) if (one.status === "rejected") throw one.reason;
      await update("devices", messaging.key, (now) => now
        && { ...now, ended: (now.ended ?? []).filter(({ token }) => token !== device.token) });
    } catch (error) {
      const isNotMade = error.isUnknown && await isDoubted(messaging, device.token).catch(() => false);
      if (!device.isReplaced && !isNotMade) failure ??= error;
    }
  }
  if (failure) throw failure;
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
export function carryOn(messaging) {
  messaging.carrying ??= (async () => {
    for (let failures = 0; ; failures += 1) {
      try {
        await endAll(messaging);
        await settleAll(messaging);
        const { ended } = await load("devices", messaging.key) ?? {};
        if (!ended?.length) return;
      } catch (error) {
        if (error.isEnded) continue;
      }
      await pause(messaging, backoff(failures, ENDING_MAX_MS));
    }
  })().finally(() => (messaging.carrying = undefined));
}
