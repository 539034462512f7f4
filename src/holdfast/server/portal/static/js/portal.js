// Loaded by every page: live times, confirmations, keyboard shortcuts and menus. Pages add their own modules.
import { startTimes } from "./times.js";
import { startDialogs } from "./dialogs.js";
import { startKeyboard } from "./keyboard.js";
import { startCopying } from "./copy.js";
import { startHtmx } from "./htmx.js";
import { subscribeToAttention } from "./live.js";

startTimes(document);
startDialogs(document);
startKeyboard(document);
startCopying(document);
startHtmx();
setTimeout(subscribeToAttention, 1000); // a page with its own live socket has opened it by then
