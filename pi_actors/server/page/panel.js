// The side panel: who the agent is, what it has cost, and the ownership tree.
import { element, plural } from "./dom.js";

const SHORT = { "pi.agent": "Agent", "pi.generation": "answer", "pi.tool": "tool", "pi.compaction": "summary" };
const NAMED_MAX = 4;

export function showAgent(container, { model, thinking, cwd }) {
  const facts = Object.entries({ Model: model, Thinking: thinking, Folder: cwd }).filter(([, fact]) => fact);
  container.replaceChildren(
    ...facts.flatMap(([name, fact]) => [element("dt", "", name), element("dd", "", fact)]),
  );
}

// Agents are links, as each can be watched; *names* are those of the tools that run here.
export function showTree(container, nodes, { linkTo, current, names }) {
  const ids = new Set(nodes.map((node) => node.id));
  const below = Map.groupBy(nodes, (node) => {
    if (ids.has(node.owner)) return node.owner;
    return node.agent !== node.id && ids.has(node.agent) ? node.agent : 0;
  });
  const listOf = (owner) => {
    const children = (below.get(owner) ?? []).map((node) => item(node));
    return children.length ? [element("ul", "", ...children)] : [];
  };
  const item = (node) => {
    const line = element(node.kind === "pi.agent" ? "a" : "span", "node", ...lineOf(node, names));
    line.dataset.state = node.blocked ? "blocked" : node.state;
    if (node.kind === "pi.agent") line.href = linkTo(node.id);
    if (node.id === current) line.ariaCurrent = "page";
    const blocked = node.blocked ? [element("p", "bad", `Blocked: ${node.blocked}`)] : [];
    return element("li", "", line, ...blocked, ...listOf(node.id));
  };
  const focused = document.activeElement?.closest?.("a.node")?.getAttribute("href");
  container.replaceChildren(...listOf(0));
  if (focused) container.querySelector(`a.node[href="${CSS.escape(focused)}"]`)?.focus();
}

function lineOf(node, names) {
  const name = names.get(node.id) ?? SHORT[node.kind] ?? node.kind;
  const marks = [
    node.blocked ? "blocked" : node.state,
    node.forked_from && `forked from agent ${node.forked_from.agent} at entry ${node.forked_from.entry}`,
    node.background && "in the background",
    node.abort_requested && "stopping",
    node.waiting_on.length && `waits for ${firstOf(node.waiting_on)}`,
  ];
  return [element("b", "", `${name} ${node.id}`), element("small", "", marks.filter(Boolean).join(" · "))];
}

function firstOf(ids) {
  const more = ids.length - NAMED_MAX;
  return ids.slice(0, NAMED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

export function showSpend(container, usage) {
  const sums = usage.total;
  const partly = sums.unpriced + sums.unreported > 0;
  const cost = sums.cost === null ? (partly ? "Cost unknown" : "Nothing spent") : `${partly ? "at least " : ""}$${money(sums.cost)}`;
  const gaps = [
    sums.unpriced && `${plural(sums.unpriced, "response")} without a known price`,
    sums.unreported && `${plural(sums.unreported, "response")} without reported tokens`,
  ].filter(Boolean);
  const facts = [
    ["In", sums.input],
    ["Out", sums.output],
    ["From cache", sums.cache_read],
    ["To cache", sums.cache_write],
  ].filter(([name, count]) => count || name === "In" || name === "Out");
  const rows = facts.flatMap(([name, count]) => [element("dt", "", name), element("dd", "", count.toLocaleString())]);
  container.replaceChildren(
    element("p", "cost", cost),
    ...(gaps.length ? [element("p", "note", `Not counted: ${gaps.join(", ")}.`)] : []),
    element("dl", "facts", ...rows),
    ...byName({ ...usage.models, ...usage.tools }),
  );
}

function byName(sums) {
  const names = Object.keys(sums);
  if (names.length < 2) return [];
  const rows = names.flatMap((name) => {
    const cost = sums[name].cost === null ? "unknown" : `$${money(sums[name].cost)}`;
    return [element("dt", "", name), element("dd", "", cost)];
  });
  return [element("dl", "facts", ...rows)];
}

// Decimal text; four places where it is little.
function money(text) {
  const amount = Number(text);
  return amount.toFixed(amount >= 1 || amount === 0 ? 2 : amount >= 0.0001 ? 4 : 6);
}
