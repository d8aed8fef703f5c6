import { showAnswer } from "./answer.js";

await showAnswer(document.getElementById("answer"));
document.body.dataset.ready = "answer";
