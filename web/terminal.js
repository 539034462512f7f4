// The terminal, what fits it to its box, and its styles (vendor/terminal.css), for the pages that need them.
import "@xterm/xterm/css/xterm.css";
export { FitAddon } from "@xterm/addon-fit";
export { Terminal } from "@xterm/xterm";
