"use strict";
(() => {
  const { Niivue, NVImage, SLICE_TYPE, SHOW_RENDER, DRAG_MODE } = niivue;
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);
  const KEPT = 4; // unpacked cases that are kept, so that stepping back is quick
  // Classes of a voxel: bit 1 in the reference, bit 2 in the prediction. Blue, orange and grey differ for everyone;
  // the shader of the planes tells the classes apart by red (prediction) and blue (reference).
  const COLOURS = { R: [0, 86, 245, 225], G: [0, 180, 166, 225], B: [0, 233, 35, 225], A: [0, 255, 255, 255], I: [0, 1, 2, 3], labels: ["", "", "", ""] };
  // Rendered surfaces are opaque: what one map hides of the other is seen by rendering them one by one.
  const RENDERED = { both: 3, reference: 1, prediction: 2 };
  const PLANES = { all: SLICE_TYPE.MULTIPLANAR, planes: SLICE_TYPE.MULTIPLANAR, axial: SLICE_TYPE.AXIAL, coronal: SLICE_TYPE.CORONAL, sagittal: SLICE_TYPE.SAGITTAL, rendering: SLICE_TYPE.MULTIPLANAR };
  const UPRIGHT = [200, 15]; // azimuth and elevation of the rendering, degrees

  // Outlines follow the edges of voxels, at the width of screen pixels however far it is zoomed.
  const SHADER = `#version 300 es
precision highp int;
precision highp float;
uniform highp sampler3D volume;
uniform highp sampler3D overlay;
uniform float overlayOutlineWidth;
uniform float overlayAlphaShader;
in vec3 texPos;
out vec4 color;
vec2 member(vec3 place) {
  ivec3 size = textureSize(overlay, 0);
  vec4 found = texelFetch(overlay, clamp(ivec3(floor(place * vec3(size))), ivec3(0), size - 1), 0);
  return found.a < 0.5 ? vec2(0.0) : step(vec2(0.5), found.br);
}
vec2 around(vec3 across, vec3 down, float width) {
  vec2 least = vec2(1.0);
  for (int i = -1; i <= 1; i++) {
    for (int j = -1; j <= 1; j++) {
      least = min(least, member(texPos + width * (float(i) * across + float(j) * down)));
    }
  }
  return least;
}
void main() {
  color = vec4(texture(volume, texPos).rgb, 1.0);
  vec2 here = member(texPos);
  if (overlayAlphaShader > 0.0 && here.x + here.y > 0.0) {
    color.rgb = mix(color.rgb, texelFetch(overlay, clamp(ivec3(floor(texPos * vec3(textureSize(overlay, 0)))), ivec3(0), textureSize(overlay, 0) - 1), 0).rgb, overlayAlphaShader);
  }
  if (overlayOutlineWidth > 0.0) {
    vec3 across = dFdx(texPos), down = dFdy(texPos);
    // Thinner than a voxel, so that a structure of few voxels is not covered by its outline.
    float voxel = 1.0 / max(length(across * vec3(textureSize(overlay, 0))), 1e-6);
    float width = clamp(0.35 * voxel, min(1.0, overlayOutlineWidth), overlayOutlineWidth);
    vec2 line = here - around(across, down, width);
    vec2 halo = here - around(across, down, width * 1.6);
    float dash = mod(gl_FragCoord.x + gl_FragCoord.y, 10.0 * overlayOutlineWidth);
    if (halo.x + halo.y > 0.0) color.rgb *= 0.45;
    if (line.x > 0.5) color.rgb = vec3(0.337, 0.706, 0.914);
    if (line.y > 0.5 && dash < 6.0 * overlayOutlineWidth) color.rgb = vec3(0.961, 0.651, 0.137);
  }
}`;

  const supported = (() => {
    try {
      return Boolean(document.createElement("canvas").getContext("webgl2"));
    } catch {
      return false;
    }
  })();
  const unpacks = typeof DecompressionStream === "function"; // since 2023 in all browsers
  if (!supported || !unpacks) {
    if (supported) find("unsupported").firstElementChild.textContent = "The viewer needs a newer browser.";
    find("unsupported").hidden = false;
    return;
  }
  find("viewer").hidden = false;

  // Unpacking: base64, gzip, and the header that all volumes of a case share.
  const bytesOf = async (id) => {
    const packed = atob(find(id).textContent);
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  };
  const voxels = (file) => {
    const view = new DataView(file);
    const start = view.getFloat32(108, true);
    return view.getInt16(70, true) === 2 ? new Uint8Array(file, start) : new Uint16Array(file, start);
  };
  const affine = (file) => {
    const view = new DataView(file);
    return [0, 1, 2].map((row) => [0, 1, 2, 3].map((column) => view.getFloat32(280 + 16 * row + 4 * column, true)));
  };
  const opened = new Map();
  const open = async (name) => {
    if (!opened.has(name)) {
      const { id } = data.cases[name];
      const [reference, prediction] = await Promise.all([bytesOf(`${id}-reference`), bytesOf(`${id}-prediction`)]);
      opened.set(name, { reference: voxels(reference), prediction: voxels(prediction), channels: new Map() });
    }
    const found = opened.get(name);
    opened.delete(name);
    opened.set(name, found); // the last one is the latest
    for (const old of [...opened.keys()].slice(0, -KEPT)) opened.delete(old);
    return found;
  };
  const openChannel = async (name, channel) => {
    const found = await open(name);
    if (!found.channels.has(channel)) found.channels.set(channel, await bytesOf(`${data.cases[name].id}-channel-${channel}`));
    return found.channels.get(channel);
  };
  // A file of classes on the grid of an image: its header, and a byte per voxel.
  const classesFile = (image, found, values) => {
    const bit = new Uint8Array(65536);
    for (const value of values) bit[value] = 1;
    const start = new DataView(image).getFloat32(108, true);
    const file = new Uint8Array(start + found.reference.length);
    file.set(new Uint8Array(image, 0, start));
    for (let i = 0; i < found.reference.length; i += 1) file[start + i] = bit[found.reference[i]] | (bit[found.prediction[i]] << 1);
    return file.buffer;
  };
  // The voxel where the planes with most disagreement meet; with most of the label where there is none.
  const worstPlace = (classes, [nx, ny, nz]) => {
    const counted = (isShown) => {
      const sums = [new Uint32Array(nx), new Uint32Array(ny), new Uint32Array(nz)];
      let n = 0;
      for (let z = 0, i = 0; z < nz; z += 1) for (let y = 0; y < ny; y += 1) for (let x = 0; x < nx; x += 1, i += 1) {
        if (!isShown(classes[i])) continue;
        sums[0][x] += 1; sums[1][y] += 1; sums[2][z] += 1; n += 1;
      }
      return n ? sums.map((sum) => sum.indexOf(sum.reduce((a, b) => Math.max(a, b), 0))) : null;
    };
    return counted((c) => c === 1 || c === 2) || counted((c) => c === 3) || [nx, ny, nz].map((n) => n >> 1);
  };

  const shared = { dragAndDropEnabled: false, isResizeCanvas: true, logLevel: "error", loadingText: "", show3Dcrosshair: false, isColorbar: false, fontColor: [0.8, 0.8, 0.8, 1], crosshairColor: [0.55, 0.55, 0.55, 0.8], isRadiologicalConvention: true, sagittalNoseLeft: true };
  const planes = new Niivue({ ...shared, multiplanarShowRender: SHOW_RENDER.NEVER, multiplanarPadPixels: 4, crosshairWidthUnit: "percent", crosshairGap: 3, isOrientationTextVisible: true, sliceType: SLICE_TYPE.MULTIPLANAR });
  const rendering = new Niivue({ ...shared, sliceType: SLICE_TYPE.RENDER, isOrientationTextVisible: true, isOrientCube: true, dragMode: DRAG_MODE.none });

  const controls = Object.fromEntries(["step", "stratum", "label", "channel", "overlay", "view", "rendered", "brightness"].map((id) => [id, find(id)]));
  const state = { steps: [], at: -1, case: null, file: null, place: null, wanted: 0 };
  const option = (text, value) => { const made = document.createElement("option"); made.textContent = text; made.value = value; return made; };
  const fill = (control, options) => control.replaceChildren(...options.map(([text, value]) => option(text, value)));

  const setOverlay = () => {
    const kind = controls.overlay.value;
    planes.overlayOutlineWidth = kind === "contours" ? 1.7 * (window.devicePixelRatio || 1) : 0;
    planes.overlayAlphaShader = kind === "areas" ? 0.5 : 0;
    planes.drawScene();
  };
  const setBrightness = () => {
    if (!planes.volumes.length) return;
    const shift = Number(controls.brightness.value) / 100;
    planes.volumes[0].cal_min = 0;
    planes.volumes[0].cal_max = 255 * 4 ** -shift;
    planes.updateGLVolume();
  };
  const setView = () => {
    const flat = state.case !== null && data.cases[state.case].flat;
    const view = flat ? "axial" : controls.view.value;
    const [withPlanes, withRendering] = [view !== "rendering", view === "all" || view === "rendering"];
    // Not taken out of the layout: a canvas without size cannot be drawn on.
    find("planes").classList.toggle("away", !withPlanes);
    find("rendering").classList.toggle("away", !withRendering);
    find("stage").classList.toggle("one", withPlanes !== withRendering);
    controls.view.disabled = controls.rendered.disabled = flat;
    planes.opts.isOrientationTextVisible = !flat;
    planes.opts.crosshairWidth = flat ? 0.2 : 0.4;
    planes.opts.dragMode = flat ? DRAG_MODE.pan : DRAG_MODE.slicer3D;
    planes.setSliceType(flat ? SLICE_TYPE.AXIAL : PLANES[view]);
    for (const one of [planes, rendering]) one.resizeListener();
  };
  // Around the crosshair, which stays where it is on the screen.
  const zoom = (factor) => {
    const moved = Float32Array.from(planes.scene.pan2Dxyzmm);
    moved[3] = Math.max(0.5, Math.min(30, moved[3] * factor));
    const change = planes.scene.pan2Dxyzmm[3] - moved[3];
    planes.frac2mm(planes.scene.crosshairPos).slice(0, 3).forEach((mm, axis) => { moved[axis] += change * mm; });
    planes.scene.pan2Dxyzmm = moved;
    planes.drawScene();
  };
  const reset = () => {
    planes.scene.pan2Dxyzmm = new Float32Array([0, 0, 0, 1]);
    rendering.scene.volScaleMultiplier = 1.4;
    rendering.setRenderAzimuthElevation(...UPRIGHT);
    controls.brightness.value = 0;
    setBrightness();
    if (state.place) {
      // By the matrix of the file, as the place is: NiiVue takes oblique volumes for upright ones otherwise.
      planes.scene.crosshairPos = planes.mm2frac(state.place, 0, true);
      planes.createOnLocationChange();
    }
    planes.drawScene();
  };

  const volume = (file, name, white) => NVImage.new(file.slice(0), `${name}.nii`, "gray", 1, null, 0, white);
  // The same file with the classes of some bits alone.
  const masked = (file, bits) => {
    const start = new DataView(file).getFloat32(108, true);
    const bytes = new Uint8Array(file.slice(0));
    for (let i = start; i < bytes.length; i += 1) bytes[i] &= bits;
    return bytes.buffer;
  };
  const put = async () => {
    const wanted = (state.wanted += 1);
    const { case: name } = state.steps[state.at];
    const about = data.cases[name];
    const image = await openChannel(name, Number(controls.channel.value) || 0);
    const found = await open(name);
    const file = classesFile(image, found, about.labels[controls.label.value]);
    const surfaces = masked(file, RENDERED[controls.rendered.value]);
    const made = await Promise.all([volume(image, name, 255), volume(file, name, 3), volume(surfaces, name, 3)]);
    if (wanted !== state.wanted) return; // the reader has gone on
    for (const classes of made.slice(1)) classes.setColormapLabel(COLOURS);
    for (const [target, volumes] of [[planes, made.slice(0, 2)], [rendering, about.flat ? [] : made.slice(2)]]) {
      target.volumes = [];
      for (const one of volumes) target.addVolume(one);
    }
    const moved = state.case !== name || state.label !== controls.label.value;
    state.case = name;
    state.label = controls.label.value;
    const matrix = affine(file);
    const place = worstPlace(new Uint8Array(file, new DataView(file).getFloat32(108, true)), about.shape);
    state.place = matrix.map((row) => row[0] * place[0] + row[1] * place[1] + row[2] * place[2] + row[3]);
    setView();
    setOverlay();
    if (moved) reset(); else setBrightness();
    tell();
    find("stage").dataset.shown = `${name}\n${state.label}`; // what is drawn now, for scripts that wait for it
  };
  const tell = () => {
    const step = state.steps[state.at];
    const about = data.cases[step.case];
    const strong = document.createElement("b");
    strong.textContent = step.case;
    const known = data.steps.find((other) => other.case === step.case && other.label === state.label);
    const parts = known ? `, ${known.label}: ${known.score} (${known.strata.join("; ")}).` : `, ${state.label}.`;
    const cut = about.cut ? " Only the surroundings of the largest disagreement are here." : "";
    find("about").replaceChildren(strong, parts + cut);
    const text = `${step.case}, ${state.label}: reference and prediction`;
    find("planes").firstElementChild.setAttribute("aria-label", `Planes through ${text}`);
    find("rendering").firstElementChild.setAttribute("aria-label", `Rendering of ${text}`);
  };
  const show = async (at, label = null) => {
    state.at = at;
    const step = state.steps[at];
    const about = data.cases[step.case];
    fill(controls.label, Object.keys(about.labels).map((name) => [name, name]));
    controls.label.value = label !== null && label in about.labels ? label : step.label;
    const channel = controls.channel.value;
    fill(controls.channel, about.channels.map((name, n) => [name, String(n)]));
    controls.channel.value = Number(channel) < about.channels.length ? channel || "0" : "0";
    find("channels").hidden = about.channels.length < 2;
    controls.step.value = String(at);
    find("previous").disabled = at === 0;
    find("next").disabled = at === state.steps.length - 1;
    // Addresses can be kept and sent; the reader's way back leads to the report, not through all cases.
    const address = new URLSearchParams({ case: step.case, label: controls.label.value });
    history.replaceState(null, "", `#${address}`);
    try {
      await put();
    } catch (error) {
      find("about").textContent = `${step.case} cannot be shown: ${error.message}`;
      throw error;
    }
  };
  const arrange = () => {
    const stratum = controls.stratum.value;
    state.steps = data.steps.filter((step) => !stratum || step.strata.includes(stratum));
    fill(controls.step, state.steps.map((step, n) => [`${n + 1} of ${state.steps.length}: ${step.case}, ${step.label}, ${step.score}`, String(n)]));
  };
  const go = (by) => { const at = state.at + by; if (at >= 0 && at < state.steps.length) show(at); };
  const asked = () => {
    const words = new URLSearchParams(location.hash.slice(1));
    const [name, label] = [words.get("case"), words.get("label")];
    const both = state.steps.findIndex((step) => step.case === name && step.label === label);
    const at = both >= 0 ? both : state.steps.findIndex((step) => step.case === name);
    return at < 0 ? null : [at, label];
  };

  const cycle = (control) => {
    if (control.disabled || control.options.length < 2) return;
    control.selectedIndex = (control.selectedIndex + 1) % control.options.length;
    control.dispatchEvent(new Event("change"));
  };
  const keys = { n: () => go(1), p: () => go(-1), o: () => cycle(controls.overlay), v: () => cycle(controls.view), s: () => cycle(controls.rendered), l: () => cycle(controls.label), c: () => cycle(controls.channel), r: reset, "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8) };
  const moves = { ArrowLeft: [-1, 0, 0], ArrowRight: [1, 0, 0], ArrowUp: [0, 1, 0], ArrowDown: [0, -1, 0], PageUp: [0, 0, 1], PageDown: [0, 0, -1] };
  const move = (target, step) => {
    if (target === find("planes")) {
      // The patient's left is on the right.
      planes.moveCrosshairInVox(-step[0], step[1], step[2]);
    } else {
      const { renderAzimuth, renderElevation } = rendering.scene;
      rendering.setRenderAzimuthElevation(renderAzimuth + 10 * step[0], Math.max(-90, Math.min(90, renderElevation + 10 * step[1])));
    }
  };
  const listen = () => {
    // In the capturing phase: NiiVue has keys of its own, which would change what the controls say.
    window.addEventListener("keydown", (event) => {
      const tile = event.target.closest ? event.target.closest(".tile") : null;
      const typing = event.target.closest && event.target.closest("select, input:not([type=range])");
      if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
      if (tile) event.stopPropagation();
      if (event.key in keys) keys[event.key]();
      else if (tile && event.key in moves) move(tile, moves[event.key]);
      else return;
      event.preventDefault();
    }, true);
    window.addEventListener("keyup", (event) => { if (event.target.closest && event.target.closest(".tile")) event.stopPropagation(); }, true);
    find("previous").addEventListener("click", () => go(-1));
    find("next").addEventListener("click", () => go(1));
    find("reset").addEventListener("click", reset);
    find("closer").addEventListener("click", () => zoom(1.25));
    find("farther").addEventListener("click", () => zoom(0.8));
    controls.step.addEventListener("change", () => show(Number(controls.step.value)));
    controls.stratum.addEventListener("change", () => { arrange(); show(0); });
    controls.label.addEventListener("change", () => show(state.at, controls.label.value));
    for (const id of ["channel", "rendered"]) controls[id].addEventListener("change", put);
    controls.overlay.addEventListener("change", setOverlay);
    controls.view.addEventListener("change", setView);
    controls.brightness.addEventListener("input", setBrightness);
    for (const id of ["choose", "look"]) find(id).addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", () => {
      controls.stratum.value = "";
      arrange();
      const found = asked();
      if (found) show(...found);
    });
    planes.onLocationChange = ({ mm }) => {
      const flat = state.case !== null && data.cases[state.case].flat;
      const [x, y, z] = Array.from(mm, (value) => value.toFixed(1).replace("-", "−"));
      find("position").textContent = flat ? "" : `right ${x} mm, anterior ${y} mm, superior ${z} mm`;
    };
  };

  const start = async () => {
    await planes.attachToCanvas(find("planes").firstElementChild);
    planes.setCustomSliceShader(SHADER);
    await rendering.attachToCanvas(find("rendering").firstElementChild);
    await rendering.setVolumeRenderIllumination(0.6);
    const strata = [...new Set(data.steps.flatMap((step) => step.strata))];
    controls.stratum.append(...strata.map((name) => option(name, name)));
    arrange();
    listen();
    await show(...(asked() || [0]));
  };
  // The volumes are at the end of the page.
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
