import { estimateTokenCount } from "tokenx";

/** Text without a space for this long is base64, a hash or a script without word spaces: no estimator of words fits it. */
const denseRun = /\S{81,}/g;

/** Measured on base64, the densest of them. */
const denseCharactersPerToken = 1.4;

/** Roughly how many tokens a model will count in this text. Rather too many than too few for what is dense. */
export function estimateTokens(text: string): number {
  let dense = 0;
  const words = text.replaceAll(denseRun, (run) => {
    dense += run.length / denseCharactersPerToken;
    return " ";
  });
  return Math.ceil(estimateTokenCount(words) + dense);
}
