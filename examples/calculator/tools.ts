import type { NamedTool } from "golem-forge";
import { z } from "zod";

/** Calculate the nth Fibonacci number */
export function calculateFibonacci({ n }: { n: number }): number {
  if (n <= 1) return n;
  let [a, b] = [0, 1];
  for (let i = 2; i <= n; i++) [a, b] = [b, a + b];
  return b;
}

export const calculateFibonacciSchema = z.object({
  n: z.number().int().min(0).max(78).describe("Position in the sequence"),
});

export const calculateFactorial: NamedTool = {
  name: "calculateFactorial",
  description: "Calculate n! exactly",
  inputSchema: z.object({ n: z.number().int().min(0).max(1_000) }),
  execute: ({ n }) => {
    let product = 1n;
    for (let i = 2n; i <= BigInt(n); i++) product *= i;
    return String(product);
  },
};
