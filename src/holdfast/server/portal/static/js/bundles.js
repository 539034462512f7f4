// Loads a bundle of npm packages that the installation created in vendor/. Returns null without bundles: pages then offer less.
export async function loadBundle(name) {
  if (document.documentElement.dataset.bundled === undefined) return null; // avoids a 404 in the browser's console
  return import(`./vendor/${name}.js`).catch(() => null);
}
