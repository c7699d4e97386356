// The page: a list of sessions at first, then one agent of one of them. Where one is stands in the URL.
import { byId, element, plural, setText } from "./dom.js";
import { door, get } from "./server.js";
import { Watching } from "./watching.js";

const LOOK_EVERY_MS = 3_000;
let shown = new AbortController();

door.askToken = (wrong) =>
  new Promise((resolve) => {
    const dialog = byId("token");
    const form = dialog.querySelector("form");
    byId("token-wrong").hidden = !wrong;
    form.onsubmit = (event) => {
      event.preventDefault();
      dialog.close();
      resolve(form.elements.token.value.trim());
      form.reset();
    };
    dialog.oncancel = (event) => event.preventDefault();
    dialog.showModal();
  });

byId("more").addEventListener("click", () => openPanel(!document.body.classList.contains("panel-open")));
byId("tree").addEventListener("click", (event) => event.target.closest("a") && openPanel(false));
window.addEventListener("hashchange", open);
open();

function open() {
  shown.abort();
  shown = new AbortController();
  openPanel(false);
  const [session, agent] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  byId("sessions").hidden = Boolean(session);
  byId("session").hidden = !session;
  byId("trail").replaceChildren(...(session ? [session, ` › Agent ${agent || 1}`].map((step) => element("span", "", step)) : []));
  for (const id of ["connection", "doing", "more"]) byId(id).hidden = !session;
  if (session) new Watching(session, Number(agent) || 1, shown.signal);
  else listSessions(shown.signal);
}

function openPanel(wanted) {
  document.body.classList.toggle("panel-open", wanted);
  byId("more").ariaExpanded = wanted;
  byId("more").textContent = wanted ? "Close" : "Details";
}

// The only session of a server is opened at once, unless somebody came back to the list.
async function listSessions(signal) {
  document.title = "pi-actors";
  const list = byId("session-list");
  const told = byId("sessions-told");
  for (let told_before = null; !signal.aborted; await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))) {
    if (document.hidden) continue;
    try {
      const { sessions } = await get("sessions", signal);
      if (signal.aborted) return;
      if (sessions.length === 1 && location.hash === "") return location.replace(linkTo(sessions[0].id));
      setText(told, sessions.length ? "" : "This server has no sessions yet. One begins with pi-actors run or pi-actors chat.");
      const now = JSON.stringify(sessions);
      if (now !== told_before) list.replaceChildren(...sessions.map(line));
      told_before = now;
    } catch (error) {
      if (signal.aborted) return;
      setText(told, `The sessions cannot be listed: ${error.message}. Trying again.`);
    }
  }
}

function line(session) {
  const marks = [
    plural(session.position, "event"),
    `last changed ${new Date(session.updated_at).toLocaleString()}`,
    session.live && "has unfinished work",
    !session.commands && "read only",
  ];
  const link = element("a", "", element("b", "", session.id), element("small", "", marks.filter(Boolean).join(" · ")));
  link.href = linkTo(session.id);
  return element("li", "", link);
}

function linkTo(session) {
  return `#/${encodeURIComponent(session)}/1`;
}
