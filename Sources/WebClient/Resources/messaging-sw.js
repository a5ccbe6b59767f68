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
      request.result.onversionchange = () => request.result.close();
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
  function compose({ from, fcmMessageId, collapse_key: collapseKey, notification, data, fcmOptions = {} }) {
    const { title, body, image, icon, click_action: click } = notification ?? {};
    const { link = click, analytics_label: analyticsLabel } = fcmOptions;
    const payload = {
      from, messageId: fcmMessageId, collapseKey, data,
      notification: notification && { title, body, image, icon },
      fcmOptions: link || analyticsLabel ? { link, analyticsLabel } : undefined,
    };
    // JSON leaves out what is undefined.
    return JSON.parse(JSON.stringify(payload));
  }

  async function pushed(event) {
    let message;
    try {
      message = event.data?.json();
    } catch {
      // Not ours, or damaged.
    }
    if (typeof message?.fcmMessageId !== "string") return;
    const payload = compose(message);
    const isVisible = await visible();
    if (await isSeen(payload.messageId, !isVisible)) return;
    if (isVisible) {
      // The tabs note the message when their handlers are done.
      for (const one of await windows()) one.postMessage({ tidecast: "message", payload });
      return;
    }
    await background(payload, message.notification);
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
