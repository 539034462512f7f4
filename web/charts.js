// Charts and their styles (vendor/charts.css), for the pages that need them.
import "uplot/dist/uPlot.min.css";
export { default as Chart } from "uplot";
