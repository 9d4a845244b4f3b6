/** The last item of a list that was cut; none when nothing was. */
export function more(left: number, what: string): string[] {
  return left > 0 ? [`- … ${left} more ${what}`] : [];
}
