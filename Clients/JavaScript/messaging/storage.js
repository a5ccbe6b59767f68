// State. `devices` has a record for each server and project: the registration (`token`, `credential`, `web`,
// `lastEvent`, and as `doubted` and `doubtedLast` when the server first and last said that it has never made
// it), the topics that the app wants, and as `ended` the registrations whose end the server must still
// confirm, with `isReplaced` if it may never do so. `seen` has the ids of the last messages.

import { MessagingError } from "./server.js";

const SEEN_MAX = 200;

let opened;
export function database() {
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
export async function update(store, key, change) {
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

export async function load(store, key) {
  const request = (await begin(store, "readonly")).objectStore(store).get(key);
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(new MessagingError("storage", `${request.error?.message}`));
  });
}

/** The record of a registration that the app has not ended. */
export async function registered(messaging) {
  const device = await load("devices", messaging.key);
  return device?.token ? device : undefined;
}
const added = (ids, id) => (ids.includes(id) ? ids : [...ids, id].slice(-SEEN_MAX));

export async function isSeen(messaging, id) {
  return messaging.seen.includes(id) || ((await load("seen", "ids"))?.includes(id) ?? false);
}
/** Notes a message whose handlers are done. Where the browser does not store, this page knows it. */
export async function noteSeen(messaging, id) {
  messaging.seen = added(messaging.seen, id);
  await update("seen", "ids", (ids = []) => added(ids, id)).catch(() => {});
}
