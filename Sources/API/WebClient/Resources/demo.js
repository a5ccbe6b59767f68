// The demonstration page of a development server, as an app would use the client.
import {
  deleteToken, getMessaging, getToken, getTopics, isRegistered, isSupported, onConnection, onDeletedMessages,
  onMessage, onUnregistered, subscribeToTopic, unsubscribeFromTopic,
} from "/client/v1/messaging.js";

const project = new URLSearchParams(location.search).get("project") ?? "demo";
const offered = new Set(["news", "weather", "sport"]);
const arrivedMax = 100;
/** @returns {any} */
const part = (id) => document.getElementById(id);
const messaging = getMessaging({ projectId: project });
let worker, token, connection;

/** Shows why something did not work. */
function tell(error) {
  part("problem").hidden = !error;
  part("problem").textContent = error?.message ?? "";
}

/** Runs what a click asks for, and shows its error. */
const click = (id, event, body) => part(id).addEventListener(event, async (happened) => {
  happened.preventDefault();
  tell();
  try {
    await body(happened);
  } catch (error) {
    tell(error);
  }
});

function made(name, text, className) {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function showConnection() {
  const words = { open: "connected", waiting: "waiting for the server", closed: "not connected" };
  const who = connection.isHere ? "this tab reads the stream" : "another tab reads the stream";
  const text = connection.state === "open" ? `${words.open}, ${who}` : words[connection.state];
  part("connection").dataset.state = token ? connection.state : "closed";
  part("connection").textContent = token ? text : "not registered";
}

function showNotifications() {
  const permission = worker ? Notification.permission : "denied";
  part("notify").hidden = permission !== "default";
  part("notified").textContent = !worker || permission === "default" ? "" : permission === "granted"
    ? "While no tab of this page is visible, messages with a title are notifications instead."
    : "The browser blocks notifications for this page.";
}

function showCommand() {
  const message = JSON.stringify({ message: written() });
  part("command").textContent = `curl ${location.origin}/v1/projects/${project}/messages:send `
    + `-H 'Authorization: Bearer owner' -d '${message.replaceAll("'", "'\\''")}'`;
}

function showTopics(wanted) {
  for (const topic of wanted) offered.add(topic);
  part("ticks").replaceChildren(...[...offered].map((topic) => {
    const label = made("label", "");
    const box = made("input", "");
    box.type = "checkbox";
    box.value = topic;
    box.checked = wanted.includes(topic);
    label.append(box, topic);
    return label;
  }));
  const chosen = part("to").value;
  const places = [...offered].map((topic) => [`topic:${topic}`, `topic ${topic}`]);
  if (token) places.push(["token", "this browser alone"]);
  part("to").replaceChildren(...places.map(([value, text]) => {
    const option = made("option", text);
    option.value = value;
    return option;
  }));
  if (places.some(([value]) => value === chosen)) part("to").value = chosen;
}

/** Shows what is stored, which another tab may have changed. */
async function show() {
  token = await isRegistered(messaging)
    ? await getToken(messaging, { serviceWorkerRegistration: worker }) : undefined;
  part("register").hidden = Boolean(token);
  part("unregister").hidden = !token;
  part("registration").hidden = !token;
  part("token").textContent = token ?? "";
  part("topics").disabled = !token;
  part("hint").textContent = token ? "Tick the topics that this browser subscribes to."
    : "Register first, then tick the topics that this browser subscribes to.";
  showTopics(await getTopics(messaging));
  showConnection();
  showNotifications();
  showCommand();
}

/** The message in the form. */
function written() {
  const [kind, topic] = part("to").value.split(/:(.*)/s);
  const notification = { title: part("title").value, body: part("body").value };
  return { [kind]: kind === "token" ? token : topic, notification };
}

function arrived({ title, text, data = undefined, from, when = new Date() }) {
  const entry = document.createElement("li");
  const foot = made("p", "", "from");
  foot.append(made("span", from), made("time", when.toLocaleTimeString()));
  entry.append(made("h3", title));
  if (text) entry.append(made("p", text));
  if (data) entry.append(made("code", JSON.stringify(data)));
  entry.append(foot);
  part("arrived").prepend(entry);
  while (part("arrived").childElementCount > arrivedMax) part("arrived").lastElementChild.remove();
  part("empty").hidden = true;
  part("count").textContent = `(${part("arrived").childElementCount})`;
}

onMessage(messaging, (payload) => {
  const { title, body } = payload.notification ?? {};
  const from = payload.from.startsWith("/topics/") ? `topic ${payload.from.slice(8)}` : "to this device";
  const when = payload.sentTime ? new Date(payload.sentTime) : undefined;
  arrived({ title: title || "(no title)", text: body, data: payload.data, from, when });
});
onDeletedMessages(messaging, () => {
  const text = "Too many waited for this browser, or for too long.";
  arrived({ title: "Messages were dropped", text, from: "from the server" });
});
onUnregistered(messaging, async () => {
  await show();
  tell(new Error("The server has ended the registration. Register again."));
});
onConnection(messaging, (now) => {
  connection = now;
  show().catch(tell);
});

click("register", "click", async () => {
  await getToken(messaging, { serviceWorkerRegistration: worker });
  await show();
});
click("unregister", "click", async () => {
  await deleteToken(messaging).finally(show);
});
click("notify", "click", async () => {
  await Notification.requestPermission();
  showNotifications();
});
click("ticks", "change", async ({ target }) => {
  await (target.checked ? subscribeToTopic : unsubscribeFromTopic)(messaging, target.value);
});
click("more", "submit", async () => {
  await subscribeToTopic(messaging, part("topic").value);
  part("topic").value = "";
  await show();
});
click("open", "submit", () => location.assign(`/?project=${encodeURIComponent(part("project").value)}`));
click("send", "submit", async () => {
  const response = await fetch(`/v1/projects/${project}/messages:send`, {
    method: "POST", headers: { authorization: "Bearer owner", "content-type": "application/json" },
    body: JSON.stringify({ message: written() }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  part("sent").textContent = `Sent as ${answer.name.split("/").at(-1)}.`;
});
part("send").addEventListener("input", showCommand);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") show().catch(tell);
});

part("project").value = project;
if (await isSupported()) {
  try {
    worker = await navigator.serviceWorker?.register("/client/v1/messaging-sw.js",
      { scope: "/client/v1/worker" });
  } catch (error) {
    tell(error);
  }
  await show().catch(tell);
} else {
  part("register").disabled = true;
  tell(new Error("This browser cannot use the client here: a page needs HTTPS, or a name of this machine."));
}
