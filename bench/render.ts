import type { Figure, Missing, Side } from "./figure.ts";

export interface Measured {
  bench: string;
  figures: (Figure | Missing)[];
}

/** Renders figures as text: our line first, then each peer with the ratio of its figure to ours. */
export function render({ bench, figures }: Measured): string {
  return [bench, "", ...figures.map((figure) => ("missing" in figure ? renderMissing(figure) : renderFigure(figure)))]
    .join("\n")
    .concat("\n");
}

function renderMissing({ name, missing }: Missing): string {
  return `  ${name}\n      ${missing}\n`;
}

function renderFigure({ name, unit, ours, peers, rounds, note }: Figure): string {
  const row = (side: Side, ratio: string) => {
    const p99 = side.p99 === undefined ? "" : `  (p99 ${round(side.p99)})`;
    return `  ${`${round(side.median)} ${unit}`.padStart(18)}  ${ratio.padEnd(8)}  ${side.what}${p99}`;
  };
  return [
    `  ${name}, ${rounds.toLocaleString("en-US")} rounds`,
    row(ours, "ours"),
    ...peers.map((peer) => row(peer, describeRatio(ratioOf(peer, ours)))),
    ...(note ? [`      ${note}`] : []),
    "",
  ].join("\n");
}

/** Returns the peer's figure divided by ours; null if the ratio is not a positive number. */
export function ratioOf(peer: Side, ours: Side): number | null {
  const ratio = peer.median / ours.median;
  return Number.isFinite(ratio) && ratio > 0 ? ratio : null;
}

function describeRatio(ratio: number | null): string {
  if (ratio === null) return "";
  return ratio > 1_000 ? "×>1,000" : `×${round(ratio)}`;
}

/** Rounds to three significant digits. */
function round(value: number): string {
  return Math.abs(value) >= 100
    ? Math.round(value).toLocaleString("en-US")
    : String(Number(value.toPrecision(value < 0.1 ? 2 : 3)));
}
