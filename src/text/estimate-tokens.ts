import { estimateTokenCount } from "tokenx";

/** Longer than almost every word and path; base64 is wrapped at 64 or 76. */
const longRun = /\S{61,}/g;

/** What stays above this has no structure the estimator knows: base64, hashes, scripts without word spaces. */
const sparseCharactersPerToken = 4;

/** Measured on base64, the densest of them. */
const denseCharactersPerToken = 1.4;

/** Roughly how many tokens a model will count in this text. Rather too many than too few for what is dense. */
export function estimateTokens(text: string): number {
  let dense = 0;
  const rest = text.replaceAll(longRun, (run) => {
    // Compact JSON, lists of paths and minified code have no spaces either, but the estimator counts them well.
    if (run.length <= estimateTokenCount(run) * sparseCharactersPerToken) return run;
    dense += run.length / denseCharactersPerToken;
    return " ";
  });
  return Math.ceil(estimateTokenCount(rest) + dense);
}
