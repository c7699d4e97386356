// The timeline: goes back to any position of the session, by slider or from event to event.
import { byId, setText, timeOf } from "./dom.js";
import { agentPath, get, sessionPath } from "./server.js";

const IDS = ["scrubber", "when", "earlier", "later", "to-live", "timeline"];

export class Timeline {
  // *show* is handed what there was at a position, null for the present.
  constructor(session, agent, { show, fail, signal }) {
    Object.assign(this, { session, agent, show, fail, signal });
    [this.scrubber, this.when, this.earlier, this.later, this.toLive, this.box] = IDS.map(byId);
    this.commits = [];
    this.wanted = null;
    this.asking = false;
    this.end = 0;
    const on = (node, type, act) => node.addEventListener(type, act, { signal });
    on(this.scrubber, "input", () => this.goTo(Number(this.scrubber.value)));
    on(this.earlier, "click", () => this.step(-1));
    on(this.later, "click", () => this.step(1));
    on(this.toLive, "click", () => this.back());
    on(this.box, "keydown", (event) => event.key === "Escape" && this.back());
    this.back();
  }

  // The session has come to *position*; the scale stays as it is while somebody looks back.
  grow(position) {
    this.end = Math.max(this.end, position);
    if (this.wanted === null) this.draw();
  }

  back() {
    this.wanted = null;
    this.show(null);
    this.draw();
  }

  draw() {
    const past = this.wanted !== null;
    if (!past) this.scrubber.max = this.end;
    this.scrubber.value = past ? this.wanted : this.end;
    this.box.classList.toggle("past", past);
    this.toLive.hidden = this.later.hidden = !past;
    this.scrubber.ariaValueText = past ? `position ${this.wanted}` : "live";
    if (!past) setText(this.when, `Live · position ${this.end}`);
  }

  async step(direction) {
    await this.learn();
    const from = this.wanted ?? this.end;
    const stops = this.commits.filter((commit) => commit.topics.length).map((commit) => commit.position);
    const next = direction < 0 ? stops.findLast((stop) => stop < from) : stops.find((stop) => stop > from);
    if (next !== undefined) this.goTo(next);
    else if (direction > 0) this.back();
  }

  // One request at a time: of what was wanted meanwhile only the newest is asked for.
  async goTo(position) {
    if (position >= Number(this.scrubber.max)) return this.back();
    this.wanted = Math.max(1, position);
    this.draw();
    if (this.asking) return;
    this.asking = true;
    for (let asked = null; this.wanted !== null && this.wanted !== asked && !this.signal.aborted; ) {
      asked = this.wanted;
      await this.replay(asked);
    }
    this.asking = false;
    this.learn();
  }

  async replay(position) {
    try {
      const shown = await get(`${agentPath(this.session, this.agent)}/replay?to=${position}`, this.signal);
      if (this.wanted === null || this.signal.aborted) return;
      this.show(shown);
      this.tell(position, shown);
    } catch (error) {
      if (this.signal.aborted) return;
      this.back();
      this.fail(error.status === 404 ? `Agent ${this.agent} was not there yet at position ${position}.` : error.message);
    }
  }

  tell(position, shown) {
    const commit = this.commits.find((each) => each.position === shown.position);
    const topics = commit?.topics.map(words).join(", ");
    setText(this.when, [`Position ${position} of ${this.end}`, timeOf(shown.at), topics].filter(Boolean).join(" · "));
  }

  // Where one can stop, as far as it is not known yet.
  async learn() {
    try {
      const known = this.commits.at(-1)?.position ?? 0;
      for (let after = known < this.end ? known : null; after !== null && !this.signal.aborted; ) {
        const page = await get(`${sessionPath(this.session)}/positions?after=${after}`, this.signal);
        this.commits.push(...page.positions.filter(({ position }) => position > (this.commits.at(-1)?.position ?? 0)));
        after = page.next;
      }
    } catch (error) {
      if (!this.signal.aborted) this.fail(error.message);
    }
  }
}

const words = (topic) => topic.replace(/(?<=.)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
