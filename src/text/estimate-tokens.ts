import { estimateTokenCount } from "tokenx";

/** Longer than almost all words and paths. Base64 is usually wrapped at 64 or 76 characters. */
const longRun = /\S{61,}/g;

/** With more characters per token than this, a run has no structure the estimator knows, such as base64 or hashes. */
const maxCharactersPerToken = 4;

/** Measured on base64, the densest kind of text. */
const denseCharactersPerToken = 1.4;

/** Longer texts are estimated by their two ends. */
const maxSampledCharacters = 200_000;

/** Estimates the tokens of a text. Tends to overestimate dense text such as base64. The time is bounded. */
export function estimateTokens(text: string): number {
  if (text.length <= maxSampledCharacters) return estimateSample(text);
  const half = maxSampledCharacters / 2;
  const sample = estimateSample(text.slice(0, half)) + estimateSample(text.slice(-half));
  return Math.ceil((sample * text.length) / maxSampledCharacters);
}

function estimateSample(text: string): number {
  let dense = 0;
  const rest = text.replaceAll(longRun, (run) => {
    // Compact JSON, lists of paths and minified code have long runs too, but the estimator counts them well.
    if (run.length <= estimateTokenCount(run) * maxCharactersPerToken) return run;
    dense += run.length / denseCharactersPerToken;
    return " ";
  });
  return Math.ceil(estimateTokenCount(rest) + dense);
}
