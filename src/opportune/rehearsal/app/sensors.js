// What the phone senses. A web page senses nothing: replace this by what your app reads from its sensors, or put a
// function `sensors` into the page where a native app wraps it. Null says that a sensor was silent: the decision is
// then recorded as missing, the advice stands, and nobody is called.
export async function sense(content) {
  const wanted = content.variables.filter((variable) => !variable.knows && variable.visibility !== "reported");
  const read = globalThis.sensors ? await globalThis.sensors(wanted) : {};
  return Object.fromEntries(wanted.map(({ variable }) => [variable, read[variable] ?? null]));
}
