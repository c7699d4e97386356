// The box at the bottom: what people say to the agent, and how they stop it.
import { Compactor } from "./compactions.js";
import { byId } from "./dom.js";
import { agentPath, newId, post } from "./server.js";

const drafts = new Map(); // what was typed and not sent, by agent

export class Composer {
  constructor(session, agent, { fail, signal }) {
    this.path = agentPath(session, agent);
    Object.assign(this, { fail, signal, busy: false, run: null, work: 0, sent: null, stopping: null });
    [this.form, this.input, this.send, this.queue, this.stop] = ["composer", "input", "send", "queue", "stop"].map(byId);
    this.compactor = new Compactor(this.path, { fail, signal });
    const on = (node, type, act) => node.addEventListener(type, act, { signal });
    this.input.value = drafts.get(this.path) ?? "";
    this.send.disabled = this.queue.disabled = false;
    on(this.input, "input", () => drafts.set(this.path, this.input.value));
    on(this.form, "submit", (event) => {
      event.preventDefault();
      this.say(this.busy ? "steer" : "follow_up");
    });
    on(this.queue, "click", () => this.say("follow_up"));
    on(this.stop, "click", () => this.abort());
    on(this.input, "keydown", (event) => {
      const enter = event.key === "Enter" && !event.shiftKey && !event.isComposing;
      if (!enter || matchMedia("(pointer: coarse)").matches) return;
      event.preventDefault();
      this.form.requestSubmit();
    });
  }

  show({ busy, run, live_work: work }) {
    Object.assign(this, { busy, run, work });
    const stoppable = busy ? run : work ? "background" : null;
    if (this.stopping !== stoppable) this.stopping = null;
    this.send.textContent = busy ? "Steer" : "Send";
    this.queue.hidden = !busy;
    this.stop.hidden = stoppable === null;
    this.stop.disabled = this.stopping !== null;
    this.stop.textContent = this.stopping !== null ? "Stopping…" : busy ? "Stop" : "Stop background work";
    this.input.placeholder = busy ? "Steer it: it sees this after its current tools" : "Tell the agent what to do";
  }

  // What failed to arrive keeps its id, so that sending it again never says it twice.
  async say(mode) {
    const content = this.input.value.trim();
    if (!content || this.send.disabled) return;
    const [compact, minding] = content.match(/^\/compact(?:\s+(.+))?$/s) ?? [];
    if (compact) {
      this.keep("");
      return this.compactor.begin(minding ?? null);
    }
    if (this.sent?.content !== content || this.sent.mode !== mode) this.sent = { content, mode, id: newId() };
    this.send.disabled = this.queue.disabled = true;
    try {
      await post(`${this.path}/submit`, { content, when_busy: mode, request_id: this.sent.id });
      this.sent = null;
      this.fail("");
      if (drafts.get(this.path)?.trim() === content) this.keep("");
    } catch (error) {
      this.fail(`Not sent: ${error.message}`);
    }
    if (!this.signal.aborted) this.send.disabled = this.queue.disabled = false;
  }

  keep(draft) {
    drafts.set(this.path, draft);
    if (!this.signal.aborted) this.input.value = draft;
  }

  async abort() {
    const aimed = this.busy ? { run: this.run } : { background: true };
    this.stopping = this.busy ? this.run : "background";
    this.stop.disabled = true;
    this.stop.textContent = "Stopping…";
    try {
      await post(`${this.path}/abort`, { ...aimed, request_id: newId() });
      this.fail("");
    } catch (error) {
      this.stopping = null;
      this.stop.disabled = false;
      this.fail(`Not stopped: ${error.message}`);
    }
  }

  async withdraw(submission) {
    try {
      await post(`${this.path}/withdraw`, { submission });
    } catch (error) {
      this.fail(`Not withdrawn: ${error.message}`);
    }
  }
}
