const plain: Record<string, string> = {
  ...sameFor("'", "\u2018\u2019\u201A\u201B\u2032\uFF07"),
  ...sameFor('"', "\u201C\u201D\u201E\u201F\u2033\uFF02"),
  ...sameFor("-", "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uFE58\uFE63\uFF0D"),
  ...sameFor(" ", "\u00A0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u202F\u205F\u3000"),
  "\u2026": "...",
};

function sameFor(character: string, variants: string): Record<string, string> {
  return Object.fromEntries([...variants].map((variant) => [variant, character]));
}

const foldable =
  /[\u00A0\u2000-\u200A\u2010-\u2015\u2018-\u201F\u2026\u202F\u2032\u2033\u205F\u2212\u3000\uFE58\uFE63\uFF02\uFF07\uFF0D]/g;

/** Replaces typographic quotes, dashes, spaces and ellipses with what a keyboard types. */
export function foldPunctuation(text: string): string {
  return text.replace(foldable, (character) => plain[character] ?? character);
}

/** True for a text that `foldPunctuation` changes. */
export function hasTypography(text: string): boolean {
  return text.search(foldable) !== -1;
}
