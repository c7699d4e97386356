// Frames: what one commit changed in a view. Pure; the same rules as projections/frames.py.

export class FrameDoesNotFit extends Error {}

// The value after *frame*. *value* stays as it is and shares what the frame does not touch.
export function applyFrame(value, frame) {
  if (frame.snapshot != null) return frame.snapshot;
  return (frame.ops ?? []).reduce((now, op) => applied(now, op, 0), value);
}

function applied(node, op, depth) {
  if (depth === op.path.length) return replaced(node, op);
  const step = op.path[depth];
  const last = depth === op.path.length - 1 && op.op !== "append";
  if (Array.isArray(node)) return last ? changedList(node, step, op) : withElement(node, step, op, depth);
  if (isObject(node)) return last ? changedObject(node, step, op) : withMember(node, step, op, depth);
  throw misfit(op, `${step} is looked for in ${JSON.stringify(node)}`);
}

function replaced(node, op) {
  if (op.op === "set") return op.value ?? null;
  if (op.op === "append" && Array.isArray(node)) return [...node, op.value ?? null];
  if (op.op === "append" && typeof node === "string" && typeof op.value === "string") return node + op.value;
  throw misfit(op, "something else is there");
}

function changedList(list, place, op) {
  const end = op.op === "insert" ? list.length : list.length - 1;
  if (!Number.isInteger(place) || place < 0 || place > end) throw misfit(op, `the list has ${list.length}`);
  const [gone, come] = { set: [1, [op.value ?? null]], insert: [0, [op.value ?? null]], delete: [1, []] }[op.op];
  return list.toSpliced(place, gone, ...come);
}

function changedObject(object, key, op) {
  // A computed key is an ordinary member, also where it is named __proto__.
  if (op.op === "set" && typeof key === "string") return { ...object, [key]: op.value ?? null };
  if (op.op !== "delete" || !has(object, key)) throw misfit(op, `there is no ${key}`);
  const { [key]: _, ...others } = object;
  return others;
}

function withElement(list, place, op, depth) {
  if (!Number.isInteger(place) || !(place in list)) throw misfit(op, `the list has ${list.length}`);
  return list.with(place, applied(list[place], op, depth + 1));
}

function withMember(object, key, op, depth) {
  if (!has(object, key)) throw misfit(op, `there is no ${key}`);
  return { ...object, [key]: applied(object[key], op, depth + 1) };
}

const isObject = (node) => typeof node === "object" && node !== null;
const has = (object, key) => typeof key === "string" && Object.hasOwn(object, key);
const misfit = (op, found) => new FrameDoesNotFit(`cannot ${op.op} ${op.path.join("/")}: ${found}`);
