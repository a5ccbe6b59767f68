// Tidecast in a service worker: shows notifications and runs the app's handler while none of the app's tabs
// is visible. A worker must come from the app's own origin, so an app has a file of its own with one line,
// importScripts("https://push.example.com/client/v1/messaging-sw.js"), and may add
//
//   tidecast.onBackgroundMessage(async (payload) => { … });
//
// Messages come from the tab that reads the stream, or from the browser's push service. docs/web-client.md
"use strict";
(() => {
  const SEEN_MAX = 200;
  /** How long a window may take to say that it has the client. */
  const LOOK_MS = 1000;
  /** How long the handlers of the windows may take. */
  const HANDLER_MS = 30_000;
  let handler;

  // The tabs' list of the last messages' ids, in messaging.js's database.
  let opened;
  const database = () => (opened ??= new Promise((resolve, reject) => {
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
      reject(request.error);
    };
  }));

  /** Whether a message's id is in the list. `isNoted`: it is from now on. */
  async function isSeen(id, isNoted) {
    const transaction = (await database()).transaction("seen", isNoted ? "readwrite" : "readonly");
    const ids = transaction.objectStore("seen");
    return new Promise((resolve, reject) => {
      let known = [];
      const read = ids.get("ids");
      read.onsuccess = () => {
        known = read.result ?? [];
        if (isNoted && !known.includes(id)) ids.put([...known, id].slice(-SEEN_MAX), "ids");
      };
      transaction.oncomplete = () => resolve(known.includes(id));
      transaction.onabort = () => reject(transaction.error);
    });
  }

  /** Whether this worker's address at the push service is that of a registration that the app has ended. */
  async function isEnded() {
    const subscription = await registration.pushManager?.getSubscription();
    if (!subscription) return false;
    const read = (await database()).transaction("devices").objectStore("devices").getAll();
    const devices = await new Promise((resolve, reject) => {
      read.onsuccess = () => resolve(read.result);
      read.onerror = () => reject(read.error);
    });
    return devices.some(({ ended = [] }) => ended.some(({ endpoint }) => endpoint === subscription.endpoint));
  }

  const windows = () => clients.matchAll({ type: "window", includeUncontrolled: true });
  const visible = async () => (await windows()).some((one) => one.visibilityState === "visible");

  /** Shows the notification, if there is one, and runs the app's handler. False where neither is possible. */
  async function background(payload, notification) {
    const mayShow = notification && Notification.permission === "granted";
    if (!mayShow && !handler) return false;
    if (mayShow) {
      const { title, ...options } = notification;
      const data = { ...options.data, tidecast: payload };
      await registration.showNotification(title ?? "", { ...options, data });
    }
    try {
      await handler?.(payload);
    } catch (error) {
      // The message was given to the app, whose handler failed: it must not come again for ever.
      console.error(error);
    }
    return true;
  }

  /** A push message in the form of FCM's web SDK, as the page's handlers get a message of the stream. */
  function compose({ from, fcmMessageId, collapse_key: collapseKey, notification, data, fcmOptions }) {
    const { title, body, image, icon, click_action: click } = notification ?? {};
    const { link = click, analytics_label: analyticsLabel } = fcmOptions ?? {};
    const payload = {
      from, messageId: fcmMessageId, collapseKey, data,
      notification: notification && { title, body, image, icon },
      fcmOptions: link || analyticsLabel ? { link, analyticsLabel } : undefined,
    };
    // JSON leaves out what is undefined.
    return JSON.parse(JSON.stringify(payload));
  }

  /** Posts to windows, and gives those that answer: they have the client and a handler of messages. */
  async function ask(whom, message, ms) {
    const answers = [];
    const all = whom.map((one) => new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = ({ data }) => resolve(answers.push({ one, isVisible: data.isVisible }));
      one.postMessage(message, [port2]);
    }));
    await Promise.race([Promise.all(all), new Promise((resolve) => setTimeout(resolve, ms))]);
    return answers;
  }

  /** Whether the app has the message: its tabs where one is visible, else this worker, else hidden tabs. */
  async function deliver(payload, notification) {
    const open = await windows();
    const there = await ask(open, { tidecast: "look" }, LOOK_MS);
    // A handler that takes too long has its message all the same.
    const tell = async (whom) => {
      const done = await ask(whom, { tidecast: "message", payload }, HANDLER_MS);
      return done.length + there.length > 0;
    };
    if (there.some(({ isVisible }) => isVisible)) return tell(there.map(({ one }) => one));
    return await background(payload, notification) || tell(open);
  }

  async function pushed(event) {
    let message;
    try {
      message = event.data?.json();
    } catch {
      // Not ours, or damaged.
    }
    if (typeof message?.fcmMessageId !== "string") return;
    if (await isEnded().catch(() => false)) return;
    const payload = compose(message);
    // The tab that reads the stream holds the same lock while it delivers, and notes the message afterwards.
    await navigator.locks.request(`tidecast message ${payload.messageId}`, async () => {
      if (await isSeen(payload.messageId, false).catch(() => false)) return;
      if (await deliver(payload, message.notification)) await isSeen(payload.messageId, true);
    });
  }

  addEventListener("push", (event) => event.waitUntil(pushed(event)));

  addEventListener("message", (event) => {
    if (event.data?.tidecast !== "background") return;
    const { payload, notification } = event.data;
    event.waitUntil((async () => {
      const isTaken = !(await visible()) && await background(payload, notification).catch(() => false);
      event.ports[0]?.postMessage({ isTaken });
    })());
  });

  /** A click opens the message's link, where that is a page of this app, in a tab that has it already if one
   * does. A click on a button of the notification is the app's. */
  addEventListener("notificationclick", (event) => {
    const payload = event.notification.data?.tidecast;
    if (!payload || event.action) return;
    event.notification.close();
    if (!payload.fcmOptions?.link) return;
    const link = new URL(payload.fcmOptions.link, location.origin);
    if (link.origin !== location.origin) return;
    event.waitUntil((async () => {
      const open = (await windows()).find((one) => one.url === link.href);
      await (open ? open.focus() : clients.openWindow(link.href));
    })());
  });

  self.tidecast = Object.freeze({
    /** `given` gets each message that comes while none of the app's tabs is visible. One handler. */
    onBackgroundMessage(given) {
      const call = typeof given === "function" ? given : given.next.bind(given);
      handler = call;
      return () => {
        if (handler === call) handler = undefined;
      };
    },
  });
})();
