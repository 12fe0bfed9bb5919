// Which advice stands now, and which comes: by the latest decision while there is a network, by the bundle without.

// The decision point of the bundle that a moment lies in; null before the first, after the last, or without times.
export function pointAt(bundle, now) {
  const points = bundle ? [bundle.now, ...bundle.points].filter((point) => point && point.at) : [];
  return points.find((point) => Date.parse(point.at) <= now && (!point.until || now < Date.parse(point.until))) || null;
}

// What stands at a decision point by the bundle: where it depends on public variables, as they are then.
export function carriedAction(bundle, point, sensed) {
  const fits = ({ values }) => Object.entries(values).every(([name, value]) => sensed[name] === value);
  return point.action ?? bundle.strata.find(fits)?.action ?? bundle.now?.action ?? null;
}

// What to show: the action, from when until when, and by what it is: a decision, or what the phone carries.
// `carried` is what was taken from the bundle at the latest decision point without a network.
export function standing(bundle, decision, carried, now) {
  const point = pointAt(bundle, now);
  if (decision && (!point || decision.step >= point.step)) {
    const same = point && point.step === decision.step ? point : null;
    return { action: decision.action, at: same?.at, until: same?.until, decision, carried: false };
  }
  if (point && carried?.step === point.step) point.action = carried.action;
  if (point?.action) return { action: point.action, at: point.at, until: point.until, step: point.step, decision: null, carried: true };
  const last = bundle?.now || null;
  return last && { action: last.action, at: last.at, until: null, step: last.step, decision: null, carried: true };
}

// The decision points to come whose advice and time are known.
export function coming(bundle, now, most = 3) {
  return (bundle?.points || []).filter((point) => point.action && point.at && Date.parse(point.at) > now).slice(0, most);
}

// The decision point that has come and was not asked about yet.
export function due(bundle, decision, asked, now) {
  const point = pointAt(bundle, now);
  const known = Math.max(decision?.step ?? 0, asked ?? 0, bundle?.after_step ?? 0);
  return point && point.step > known ? point : null;
}
