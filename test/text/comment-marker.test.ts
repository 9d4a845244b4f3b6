import fc from "fast-check";
import { expect, test } from "vitest";
import { hasMarker, markerOf } from "#text/comment-marker.ts";
import { anyText } from "../support/hostile-text.ts";

test("a comment with a marker is recognized by any name", () => {
  fc.assert(
    fc.property(anyText(), (name) => {
      expect(hasMarker(`Text\n\n${markerOf(name)}`, name)).toBe(true);
    }),
    { examples: [["\ud800"], ["a--b -->"], ["approval/k7mq/2"]] },
  );
});
