"use strict";
// Draws on a canvas with the mouse, shrinks the drawing to 12 x 12 points, and shows what the model takes it for.

const SIZE = 12;
const paper = document.getElementById("paper");
const state = document.getElementById("state");
const pen = paper.getContext("2d", { willReadFrequently: true });
let last = null;
let session = null;

function clear() {
  pen.fillStyle = "white";
  pen.fillRect(0, 0, paper.width, paper.height);
  document.getElementById("chances").replaceChildren();
}

function place(event) {
  const box = paper.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function stroke(event) {
  if (last === null) return;
  const now = place(event);
  pen.strokeStyle = "black";
  pen.lineWidth = paper.width / SIZE;
  pen.lineCap = "square";
  pen.beginPath();
  pen.moveTo(...last);
  pen.lineTo(...now);
  pen.stroke();
  last = now;
}

function points() {
  // the mean darkness of each square of the canvas
  const cell = paper.width / SIZE;
  const image = new Float32Array(SIZE * SIZE);
  for (let y = 0; y < SIZE; y++) {
    for (let x = 0; x < SIZE; x++) {
      const { data } = pen.getImageData(x * cell, y * cell, cell, cell);
      let dark = 0;
      for (let i = 0; i < data.length; i += 4) dark += 1 - data[i] / 255;
      image[y * SIZE + x] = dark / (cell * cell);
    }
  }
  return image;
}

async function guess() {
  const image = new ort.Tensor("float32", points(), [1, 1, SIZE, SIZE]);
  const { probabilities } = await session.run({ image });
  const chances = Array.from(probabilities.data);
  const rows = chances.map((chance, digit) => {
    const row = document.createElement("div");
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${200 * chance}px`;
    row.append(`${digit} `, bar, ` ${(100 * chance).toFixed(1)}%`);
    return row;
  });
  document.getElementById("chances").replaceChildren(...rows);
  document.body.dataset.best = String(chances.indexOf(Math.max(...chances)));
}

async function replay(lines) {
  // draws lines that the address names after "#", as a mouse would: for the test, and for links to a drawing
  for (const line of lines) {
    const box = paper.getBoundingClientRect();
    const at = ([x, y]) => ({ clientX: box.left + x * box.width, clientY: box.top + y * box.height });
    paper.dispatchEvent(new MouseEvent("mousedown", at(line[0])));
    for (const point of line) paper.dispatchEvent(new MouseEvent("mousemove", at(point)));
    window.dispatchEvent(new MouseEvent("mouseup"));
  }
  await guess();
  document.body.dataset.done = "yes";
}

paper.addEventListener("mousedown", (event) => { last = place(event); });
paper.addEventListener("mousemove", stroke);
window.addEventListener("mouseup", () => { if (last !== null && session !== null) { last = null; guess(); } });
document.getElementById("clear").addEventListener("click", clear);

(async () => {
  clear();
  ort.env.wasm.numThreads = 1;
  session = await ort.InferenceSession.create("digits.onnx", { executionProviders: ["wasm"] });
  state.textContent = "draw a digit";
  if (location.hash.length > 1) await replay(JSON.parse(decodeURIComponent(location.hash.slice(1))));
})().catch((error) => { state.textContent = `error: ${error.message}`; });
