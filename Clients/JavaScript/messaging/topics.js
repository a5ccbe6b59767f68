// Topics. The app's wishes are stored, so that each is carried out, also after a reload.
import { bearer, call, MessagingError } from "./server.js";
import { load, registered, update } from "./storage.js";
import { run } from "./tabs.js";
import { backoff, pause } from "./time.js";

const REPAIR_MS = 86_400_000;
/** For so long a server must say that it has never made the registration, without a success meanwhile:
 * another server may answer in its place for some seconds. */
const DOUBT_MS = 60_000;
/** After so long without such a word the next one is the first again. */
const DOUBT_GAP_MS = 7_200_000;
/** So many replaced registrations are kept, the newest ones. */
const REPLACED_MAX = 24;
const TOPIC = /^[a-zA-Z0-9\-_.~%]{1,900}$/;

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
      // Without a registration there is no subscription to end.
      if (!isWanted && error.code === "messaging/not-registered") return;
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
      delete now.doubted;
      if (isKept) now.topics.set(topic, { ...wanted, isDone: true });
      else now.topics.delete(topic);
      return now;
    });
    const verb = wanted.isWanted ? "subscribe" : "unsubscribe";
    const path = `/registrations/${device.token}/topicSubscriptions/${encodeURIComponent(topic)}:${verb}`;
    try {
      await call(messaging, "POST", path, { headers: bearer(device), code: `topic-${verb}-failed` });
    } catch (error) {
      const isLost = await loses(messaging, device.token, error);
      if (isLost && !wanted.isWanted) return;
      if (!isLost && !error.isTemporary) await settled(false);
      throw error;
    }
    await settled(wanted.isWanted);
  });
}

/** Carries out all wishes. Once a day, first asks the server which subscriptions it still has. */
export async function settleAll(messaging) {
  let device = await registered(messaging);
  if (!device) return;
  // A clock that was ahead once must not stop the comparison until then.
  const age = Date.now() - device.repaired;
  if (device.topics.size > 0 && !(age >= 0 && age < REPAIR_MS)) {
    const there = new Set();
    for (let page = "", isFirst = true; page || isFirst; isFirst = false) {
      const path = `/registrations/${device.token}/topicSubscriptions?pageToken=${encodeURIComponent(page)}`;
      const answer = await call(messaging, "GET", path, { headers: bearer(device) }).catch(async (error) => {
        await loses(messaging, device.token, error);
        throw error;
      });
      for (const { topicName } of answer.topicSubscriptions) there.add(topicName);
      page = answer.nextPageToken;
    }
    const { token } = device;
    device = await update("devices", messaging.key, (now) => {
      if (now?.token !== token) return now;
      for (const [topic, wanted] of now.topics) {
        if (wanted.isWanted && !there.has(topic)) wanted.isDone = false;
      }
      delete now.doubted;
      return { ...now, repaired: Date.now() };
    });
  }
  for (const [topic, { isDone }] of device?.topics ?? []) {
    if (isDone) continue;
    await settle(messaging, topic).catch((error) => {
      if (error.isTemporary || error.isEnded) throw error;
      console.warn(error.message);
    });
  }
}

/** Whether this error of the server costs the browser its registration: where the server proves that it has
 * ended it, or says for a minute that it has never made it. */
export async function loses(messaging, token, error) {
  if (error.isEnded) await forget(messaging, token, false);
  else if (error.isUnknown && await isDoubted(messaging, token)) await forget(messaging, token, true);
  else return false;
  return true;
}

/** Notes that the server has never made the registration, or an ended one. True if the server has said so for
 * long enough; no caller waits for the end of such a registration. */
export async function isDoubted(messaging, token) {
  let isReplaced = false;
  const doubt = (device) => {
    const now = Date.now();
    const age = now - device.doubted;
    // A clock that was ahead once must not stop this, and yesterday's word is not this minute's.
    const isNew = !(age >= 0) || Math.abs(now - device.doubtedLast) > DOUBT_GAP_MS;
    isReplaced = device.isReplaced || (!isNew && age >= DOUBT_MS);
    return { ...device, doubted: isNew ? now : device.doubted, doubtedLast: now };
  };
  await update("devices", messaging.key, (device) => {
    if (device?.token === token) return doubt(device);
    const ended = device?.ended?.map((one) => (one.token === token ? { ...doubt(one), isReplaced } : one));
    return ended ? { ...device, ended } : device;
  });
  return isReplaced;
}

/** Notes that the server takes the registration. */
export async function trust(messaging, token) {
  await update("devices", messaging.key, (device) => {
    if (device?.token === token) delete device.doubted;
    return device;
  }).catch(() => {});
}

/** The registration is gone. What the app wanted stays, for the next one. `isReplaced`: the client goes on
 * asking to end this one, because the right server may come back. Its endpoint is the next one's too. */
async function forget(messaging, token, isReplaced) {
  let isOurs = false;
  await update("devices", messaging.key, (device) => {
    isOurs = device?.token === token;
    if (!isOurs) return device;
    // Without a registration there is no subscription to end.
    const wanted = [...device.topics].filter(([, { isWanted }]) => isWanted);
    const topics = new Map(wanted.map(([topic, wish]) => [topic, { ...wish, isDone: false }]));
    const ended = (device.ended ?? []).filter((one) => !one.isReplaced);
    const replaced = (device.ended ?? []).filter((one) => one.isReplaced);
    if (isReplaced) replaced.push({ token, credential: device.credential, isReplaced });
    return { topics, ended: [...ended, ...replaced.slice(-REPLACED_MAX)] };
  });
  if (!isOurs) return;
  messaging.channel.postMessage({ type: "unregistered" });
  await run(messaging, "unregistered");
}
