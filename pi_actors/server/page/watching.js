// One agent on the screen: its present as it is streamed, or its past as it is replayed.
import { Composer } from "./composer.js";
import { byId, element, setText, tellTimes } from "./dom.js";
import { applyFrame, FrameDoesNotFit } from "./frames.js";
import { showAgent, showSpend, showTree } from "./panel.js";
import { agentPath, clock, follow, get, sessionPath } from "./server.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

const TOLD = { connecting: "Connecting", live: "Connected", waiting: "Reconnecting", refused: "Not connected" };
const DOING = { past: "Looking back", busy: "Working", background: "Working in the background", idle: "Idle" };

export class Watching {
  constructor(session, agent, signal) {
    Object.assign(this, { session, agent, signal, now: null, past: null, tree: [], commands: true, drawn: {} });
    const fail = (message) => this.fail(message);
    byId("entries").replaceChildren();
    byId("next").replaceChildren(element("p", "note pulse", "Loading"));
    this.fail("");
    this.composer = new Composer(session, agent, { fail, signal });
    this.transcript = new Transcript(byId("entries"), byId("next"), (id) => this.composer.withdraw(id));
    this.timeline = new Timeline(session, agent, { show: (past) => this.lookAt(past), fail, signal });
    this.keepAtEnd();
    this.learnRights();
    this.connect();
    const ticking = setInterval(() => this.tick(), 500);
    signal.addEventListener("abort", () => clearInterval(ticking));
  }

  // A page that nobody sees keeps no connection; it goes on from its position when it is seen again.
  connect() {
    let seen = new AbortController();
    const begin = () => {
      const signal = AbortSignal.any([this.signal, seen.signal]);
      const query = () => (this.now ? { after: this.now.position, uuid: this.now.value.agent.session_uuid } : {});
      const tell = (state, why) => this.tellConnection(state, why);
      follow(`${agentPath(this.session, this.agent)}/events`, { query, tell, signal, take: (frame) => this.take(frame) });
      const takeTree = ({ tree, position }) => {
        this.change({ tree });
        this.timeline.grow(position);
      };
      follow(`${sessionPath(this.session)}/tree/events`, { query: () => ({}), tell: () => {}, signal, take: takeTree });
    };
    const look = () => {
      seen.abort();
      seen = new AbortController();
      if (!document.hidden) begin();
    };
    document.addEventListener("visibilitychange", look, { signal: this.signal });
    look();
  }

  take(frame) {
    const whole = frame.snapshot != null;
    try {
      if (!whole && !(this.now && frame.position > this.now.position)) throw new FrameDoesNotFit("a frame came twice");
      const value = applyFrame(this.now?.value ?? null, frame);
      if (this.now && this.isAnother(value, frame.position)) return window.dispatchEvent(new Event("hashchange"));
      this.change({ now: { position: frame.position, at: frame.at, value } });
      this.timeline.grow(frame.position);
    } catch (error) {
      this.now = null; // the next stream begins with a snapshot
      throw error;
    }
  }

  // Where the store was replaced, nothing that was known of the session holds for the one there is now.
  isAnother(value, position) {
    return value.agent.session_uuid !== this.now.value.agent.session_uuid || position < this.now.position;
  }

  lookAt(past) {
    this.change({ past });
  }

  change(news) {
    Object.assign(this, news);
    if (this.drawing || this.signal.aborted) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (!this.signal.aborted) this.draw();
    });
  }

  draw() {
    const shown = this.past ?? this.now;
    if (!shown) return;
    const { entries, docs } = shown.value;
    const agent = docs["pi.agent"];
    const live = docs["pi.live"];
    this.transcript.show(shown.value, this.commands && !this.past);
    byId("empty").hidden = entries.length + live.tools.length > 0 || live.generation !== null;
    const present = this.now ?? shown;
    this.composer.show(present.value.docs["pi.agent"]);
    const { compactions } = present.value.docs["pi.live"];
    this.composer.compactor.show({ position: present.position, live: compactions, commands: this.commands });
    byId("composer").hidden = this.past !== null || !this.commands;
    byId("read-only").hidden = this.past !== null || this.commands;
    const { model, thinking } = agent.resolved ?? agent.chosen;
    this.once("agent", [model, thinking, agent.chosen.cwd], () =>
      showAgent(byId("agent"), { model, thinking, cwd: agent.chosen.cwd }),
    );
    const tree = this.past?.tree ?? this.tree;
    this.once("tree", [tree, live.tools.map((slot) => slot.actor).join()], () => {
      const names = new Map(live.tools.map((slot) => [slot.actor, slot.name]));
      const linkTo = (id) => `#/${encodeURIComponent(this.session)}/${id}`;
      showTree(byId("tree"), tree, { names, linkTo, current: this.agent });
    });
    this.once("spend", [docs["pi.usage"]], () => showSpend(byId("spend"), docs["pi.usage"]));
    document.title = `${agent.busy ? "● " : ""}${this.session} · pi-actors`;
    const doing = this.past ? "past" : agent.busy ? "busy" : agent.live_work ? "background" : "idle";
    setText(byId("doing"), DOING[doing]);
    byId("doing").dataset.state = doing;
    this.tick();
  }

  // Draw a part only when what it shows has changed.
  once(part, parts, draw) {
    if (this.drawn[part]?.every((each, place) => each === parts[place])) return;
    this.drawn[part] = parts;
    draw();
  }

  tick() {
    tellTimes(this.past ? Date.parse(this.past.at) : Date.now() - clock.aheadMs);
  }

  tellConnection(state, why = "") {
    byId("connection").dataset.state = state;
    setText(byId("connection"), TOLD[state]);
    byId("connection").title = why;
    if (state === "refused" || state === "waiting") this.fail(`${TOLD[state]}: ${why}`, "connection");
    else if (state === "live") this.fail("", "connection");
    if (state === "refused" && !this.now) byId("next").replaceChildren(element("p", "note bad", why));
  }

  // Tell people what went wrong; what a *source* told is taken back by that source only.
  fail(message, source = "command") {
    const alert = byId("alert");
    if (this.signal.aborted) return;
    if (!message && alert.dataset.source !== source && alert.dataset.source) return;
    alert.dataset.source = message ? source : "";
    setText(alert, message);
    alert.hidden = !message;
  }

  async learnRights() {
    try {
      const { sessions } = await get("sessions", this.signal);
      const line = sessions.find(({ id }) => id === this.session);
      const owner = line?.held_by ? ` It is open in ${line.held_by}.` : " Nobody has it open now.";
      setText(byId("read-only"), `Read only: this server follows the session and takes no commands.${owner}`);
      this.change({ commands: line?.commands ?? false });
    } catch (error) {
      if (!this.signal.aborted) this.fail(error.message);
    }
  }

  // Whoever reads the end stays there; whoever has scrolled up is left in peace.
  keepAtEnd() {
    const scroll = byId("scroll");
    const latest = byId("latest");
    let atEnd = true;
    let sizes = "";
    const sizesNow = () => `${scroll.scrollHeight} ${scroll.clientHeight}`;
    const goDown = () => (scroll.scrollTop = scroll.scrollHeight);
    const look = () => {
      atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 24;
      latest.hidden = atEnd;
    };
    const resized = () => {
      sizes = sizesNow();
      if (atEnd) goDown();
      else look();
    };
    // What moves because sizes have changed was not moved by the reader.
    scroll.addEventListener("scroll", () => sizes === sizesNow() && look(), { signal: this.signal, passive: true });
    latest.addEventListener("click", goDown, { signal: this.signal });
    const observer = new ResizeObserver(resized);
    observer.observe(scroll);
    observer.observe(byId("transcript"));
    this.signal.addEventListener("abort", () => observer.disconnect());
    latest.hidden = true;
  }
}
