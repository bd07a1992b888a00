// What the page of cases uses of NiiVue; the bundle makes it the global object `niivue`.
export { DRAG_MODE, MULTIPLANAR_TYPE, NVImage, Niivue, SHOW_RENDER, SLICE_TYPE, cmapper } from "@niivue/niivue";
