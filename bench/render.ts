import type { Figure, Missing, Side } from "./figure.ts";

export interface Measured {
  bench: string;
  figures: (Figure | Missing)[];
}

/** The figures as a page of text: our line first, then each peer with its figure divided by ours. */
export function render({ bench, figures }: Measured): string {
  return [
    `${bench}`,
    "",
    ...figures.map((figure) => ("missing" in figure ? renderMissing(figure) : renderFigure(figure))),
  ]
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

/** The peer's figure divided by ours; null where that says nothing. */
export function ratioOf(peer: Side, ours: Side): number | null {
  const ratio = peer.median / ours.median;
  return Number.isFinite(ratio) && ratio > 0 ? ratio : null;
}

function describeRatio(ratio: number | null): string {
  if (ratio === null) return "";
  return ratio > 1_000 ? "×>1,000" : `×${round(ratio)}`;
}

/** Three digits that count. */
function round(value: number): string {
  return Math.abs(value) >= 100
    ? Math.round(value).toLocaleString("en-US")
    : String(Number(value.toPrecision(value < 0.1 ? 2 : 3)));
}
