// What every page loads: live times, questions before something is done, keys, menus. Pages add modules of their own.
import { startTimes } from "./times.js";
import { startDialogs } from "./dialogs.js";
import { startKeys } from "./keys.js";
import { startCopying } from "./copy.js";
import { startHtmx } from "./htmx.js";
import { listenForCalls } from "./live.js";

startTimes(document);
startDialogs(document);
startKeys(document);
startCopying(document);
startHtmx();
setTimeout(listenForCalls, 1000); // a page that has a line of its own has opened it by then
