// What set-up bundled from npm packages into vendor/. Null where it could not: pages then do with less.
export async function bundled(name) {
  if (document.documentElement.dataset.bundled === undefined) return null; // only to ask for it would be an error to see
  return import(`./vendor/${name}.js`).catch(() => null);
}
